package strict

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/text"
)

var (
	durationType = reflect.TypeFor[time.Duration]()
	pairsType    = reflect.TypeFor[Pairs]()
	nodeType     = reflect.TypeFor[*yaml.Node]()
	unmarshaler  = reflect.TypeFor[json.Unmarshaler]()
)

// Into decodes a node into the value that v points to, and records problems in the reader.
// Supported types: structs, strings, numbers, bool, time.Duration, Pairs, *yaml.Node (undecoded),
// JSON unmarshalers, any, and pointers, lists and maps of these. Tags: unit (s or ms) is the unit
// of a bare number of a duration, without it only 0 is allowed; min is the minimum, oneof lists the
// allowed words, pattern is a string's form, minLength 1 forbids an empty string.
func (r *Reader) Into(n *yaml.Node, v any) {
	to := reflect.ValueOf(v).Elem()
	r.root = to.Type()
	r.into(n, to, "", "")
}

// into decodes a node into a value. path names the node in messages; tag has its field's
// constraints.
func (r *Reader) into(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) {
	if v.Type() == nodeType {
		v.Set(reflect.ValueOf(n))
		return
	}
	if n.Kind == yaml.AliasNode {
		if r.API {
			r.unaliased(n, path)
			return
		}
		n = n.Alias
	}
	if v.Type() == pairsType {
		v.Set(reflect.ValueOf(r.pairs(n, path)))
		return
	}
	if n.ShortTag() == "!!null" {
		if !r.mayBeEmpty(path) {
			r.Fault(n, "%s is empty; give a value, or leave it out", path)
		}
		return // the field keeps its default
	}
	if v.CanAddr() && v.Addr().Type().Implements(unmarshaler) {
		r.own(n, v, path)
		return
	}
	if v.Type() == durationType {
		r.duration(n, v, path, tag)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		r.into(n, p.Elem(), path, tag)
		v.Set(p)
	case reflect.Struct:
		r.object(n, v, path)
	case reflect.Slice:
		r.list(n, v, path, tag)
	case reflect.Map:
		r.mapping(n, v, path)
	case reflect.Interface:
		r.own(n, v, path)
	default:
		r.scalar(n, v, path, tag)
	}
}

// mayBeEmpty reports whether null is allowed at a path; the value then keeps its default. With API,
// null fields and map values are dropped before (see dropped).
func (r *Reader) mayBeEmpty(path string) bool {
	if !r.API {
		return !strings.HasSuffix(path, "]")
	}
	top, _, _ := strings.Cut(path, ".")
	return slices.Contains(r.Empty, top)
}

// dropped reports whether an API server omits a null field or map value. It does so if the schema
// does not allow null, which is true for all schemas of fettle. Values of any JSON (own) keep their
// nulls; in metadata null means the zero value. Source: k8s.io/apiextensions-apiserver v0.34.4,
// pkg/apiserver/schema/defaulting, PruneNonNullableNullsWithoutDefaults.
func (r *Reader) dropped(n *yaml.Node, path string) bool {
	return r.API && n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" && !r.mayBeEmpty(path)
}

func (r *Reader) unaliased(n *yaml.Node, path string) {
	r.Fault(n, "%saliases (*%s) are not supported; write the value out", lead(path), n.Value)
}

// Field is a field of a struct.
type Field struct {
	Names    []string // spellings; messages use the first
	Index    []int    // for reflect.Type.FieldByIndex
	Required bool
	Tag      reflect.StructTag
}

// Fields returns the fields of a struct that are decoded. With API they are its JSON fields, with
// unnamed embedded structs inlined.
func (r *Reader) Fields(t reflect.Type) []Field {
	var out []Field
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		if !r.API {
			if name := f.Tag.Get("yaml"); name != "" && name != "-" {
				names := []string{name}
				if also := f.Tag.Get("also"); also != "" {
					names = append(names, strings.Split(also, ",")...)
				}
				out = append(out, Field{names, []int{i}, false, f.Tag})
			}
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && f.Anonymous:
			for _, inner := range r.Fields(f.Type) {
				inner.Index = append([]int{i}, inner.Index...)
				out = append(out, inner)
			}
		default:
			out = append(out, Field{[]string{name}, []int{i}, !strings.Contains(options, "omit"), f.Tag})
		}
	}
	return out
}

// called reports whether a mapping's key names a field.
func (r *Reader) called(f Field, key *yaml.Node) bool {
	if key.Kind != yaml.ScalarNode {
		return false
	}
	if r.API {
		return f.Names[0] == key.Value
	}
	return slices.ContainsFunc(f.Names, func(s string) bool { return strings.EqualFold(s, key.Value) })
}

// object decodes a mapping into a struct.
func (r *Reader) object(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		r.Fault(n, "%swant fields, found %s", lead(path), Found(n))
		return
	}
	if at := v.FieldByName("At"); !r.API && at.IsValid() && at.Kind() == reflect.String {
		at.SetString(r.At(n))
	}
	all := r.Fields(v.Type())
	seen := map[int]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		k := slices.IndexFunc(all, func(f Field) bool { return r.called(f, key) })
		if k < 0 {
			r.unknown(key, all, path)
			continue
		}
		if old, twice := seen[k]; twice {
			r.Fault(key, "%s%q is given twice (%s)", lead(path), key.Value, old)
			continue
		}
		seen[k] = r.At(key)
		if r.dropped(value, join(path, all[k].Names[0])) {
			if all[k].Required {
				r.Fault(key, "%s is empty, which an API server treats as missing; give a value", join(path, all[k].Names[0]))
			}
			continue
		}
		r.into(value, v.FieldByIndex(all[k].Index), join(path, all[k].Names[0]), all[k].Tag)
	}
	for k, f := range all {
		if f.Required && seen[k] == "" {
			r.Fault(n, "%s is missing", join(path, f.Names[0]))
		}
	}
}

func (r *Reader) list(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) {
	if n.Kind != yaml.SequenceNode {
		r.Fault(n, "%s: want a list, found %s", path, Found(n))
		return
	}
	s := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		r.into(item, s.Index(i), fmt.Sprintf("%s[%d]", path, i), tag)
	}
	v.Set(s)
}

// mapping decodes a mapping into a map.
func (r *Reader) mapping(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		r.Fault(n, "%s: want a map of strings, found %s", path, Found(n))
		return
	}
	m := reflect.MakeMapWithSize(v.Type(), len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		r.into(n.Content[i], key, path+": the name", "")
		if m.MapIndex(key).IsValid() {
			r.Fault(n.Content[i], "%s: %q is given twice", path, key)
		}
		if r.dropped(n.Content[i+1], path) {
			continue
		}
		r.into(n.Content[i+1], value, fmt.Sprintf("%s[%q]", path, key), "")
		m.SetMapIndex(key, value)
	}
	v.Set(m)
}

// own decodes values with their own unmarshaler: times, quantities, and any JSON.
func (r *Reader) own(n *yaml.Node, v reflect.Value, path string) {
	text := r.json(n, path)
	if text == nil {
		return // the error is recorded
	}
	if err := json.Unmarshal(text, v.Addr().Interface()); err != nil {
		r.Fault(n, "%s: %w", path, err)
	}
}

func lead(path string) string {
	if path == "" {
		return ""
	}
	return path + ": "
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// unknown records an unknown field, with a similar field, the path where it belongs, or the known
// fields.
func (r *Reader) unknown(key *yaml.Node, all []Field, path string) {
	var names []string
	for _, f := range all {
		names = append(names, f.Names[0])
	}
	word := key.Value
	if !r.API {
		word = strings.ToLower(word)
	}
	hint := text.Suggest(word, names)
	if places := r.places(key); len(places) > 0 {
		hint += ": this field belongs " + strings.Join(places, ", or ")
	}
	if hint == "" && len(names) > 0 {
		hint = ": known fields are " + strings.Join(names, ", ")
	}
	r.Fault(key, "%sunknown field %q%s", lead(path), key.Value, hint)
}

// mostPlaces limits the paths listed for a field; a field with more paths gives no useful hint.
const mostPlaces = 3

// places returns the paths in the file where a field with this name belongs; nil for API objects,
// whose names recur at many paths.
func (r *Reader) places(key *yaml.Node) []string {
	if r.API || r.root == nil {
		return nil
	}
	var all []string
	r.search(r.root, key, "", &all)
	if len(all) > mostPlaces {
		return nil
	}
	return all
}

// search adds the paths of fields with key's name in the structs below a type. The structs must not
// contain themselves.
func (r *Reader) search(t reflect.Type, key *yaml.Node, path string, into *[]string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice && t != pairsType {
		if t == nodeType {
			return
		}
		if t.Kind() == reflect.Slice {
			path += "[]"
		}
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || path != "" && reflect.PointerTo(t).Implements(unmarshaler) {
		return
	}
	fields := r.Fields(t)
	if slices.ContainsFunc(fields, func(f Field) bool { return r.called(f, key) }) {
		where := "below " + path
		if path == "" {
			where = "at the top"
		}
		if !slices.Contains(*into, where) {
			*into = append(*into, where)
		}
	}
	for _, f := range fields {
		r.search(t.FieldByIndex(f.Index).Type, key, join(path, f.Names[0]), into)
	}
}
