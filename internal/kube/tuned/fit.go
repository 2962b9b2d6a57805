package tuned

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/spell"
)

// field is a field of a type, as JSON has it.
type field struct {
	name     string
	index    []int
	required bool
	tag      reflect.StructTag
}

// fields are those of a struct; embedded ones without a name of their own are
// part of it.
func fields(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case name == "" && f.Anonymous:
			for _, inner := range fields(f.Type) {
				inner.index = append([]int{i}, inner.index...)
				out = append(out, inner)
			}
		default:
			out = append(out, field{name, []int{i}, !strings.Contains(options, "omit"), f.Tag})
		}
	}
	return out
}

var (
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	decimal     = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	// truths are the texts that YAML 1.1 takes for true or false.
	truths = regexp.MustCompile(`^(y|Y|yes|Yes|YES|n|N|no|No|NO|on|On|ON|off|Off|OFF)$`)
)

// into reads a node into a value. path names the node in messages; tag has the
// constraints of the field that it is for.
func (r *reading) into(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) {
	if n.Kind == yaml.AliasNode {
		r.fault(n, "%s: aliases (*%s) are not read here: write it out", path, n.Value)
		return
	}
	if n.ShortTag() == "!!null" {
		// What others wrote has such fields in metadata and status.
		if path == "spec" || strings.HasPrefix(path, "spec.") {
			r.fault(n, "%s is empty: give it a value, or leave it out", path)
		}
		return
	}
	if v.CanAddr() && v.Addr().Type().Implements(unmarshaler) {
		r.custom(n, v, path)
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
		if n.Kind != yaml.SequenceNode {
			r.fault(n, "%s: want a list, found %s", path, found(n))
			return
		}
		s := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
		for i, item := range n.Content {
			r.into(item, s.Index(i), fmt.Sprintf("%s[%d]", path, i), "")
		}
		v.Set(s)
	case reflect.Map:
		r.texts(n, v, path)
	case reflect.String:
		r.text(n, v, path, tag)
	case reflect.Bool:
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
			r.fault(n, "%s: want true or false, found %s", path, found(n))
			return
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
	default:
		r.number(n, v, path, tag)
	}
}

// object reads a mapping into a struct.
func (r *reading) object(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		r.fault(n, "%s: want fields, found %s", what(path), found(n))
		return
	}
	all := fields(v.Type())
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		k := slices.IndexFunc(all, func(f field) bool { return f.name == key.Value && key.Kind == yaml.ScalarNode })
		switch {
		case k < 0:
			var names []string
			for _, f := range all {
				names = append(names, f.name)
			}
			r.fault(key, "%s has no field %q%s", what(path), key.Value, spell.Suggest(key.Value, names))
			continue
		case seen[key.Value]:
			r.fault(key, "%s has %q twice", what(path), key.Value)
			continue
		}
		seen[key.Value] = true
		r.into(value, v.FieldByIndex(all[k].index), join(path, key.Value), all[k].tag)
	}
	for _, f := range all {
		if f.required && !seen[f.name] {
			r.fault(n, "%s is missing", join(path, f.name))
		}
	}
}

// texts reads a mapping of names to texts.
func (r *reading) texts(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		r.fault(n, "%s: want names and texts, found %s", path, found(n))
		return
	}
	m := reflect.MakeMapWithSize(v.Type(), len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		r.into(n.Content[i], key, path+": the name", "")
		if m.MapIndex(key).IsValid() {
			r.fault(n.Content[i], "%s has %q twice", path, key)
		}
		r.into(n.Content[i+1], value, fmt.Sprintf("%s[%q]", path, key), "")
		m.SetMapIndex(key, value)
	}
	v.Set(m)
}

func (r *reading) text(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) {
	kind := n.ShortTag()
	if n.Kind != yaml.ScalarNode || kind != "!!str" && kind != "!!timestamp" {
		r.fault(n, "%s: want text, found %s%s", path, found(n), quote(n))
		return
	}
	if n.Style == 0 && truths.MatchString(n.Value) {
		r.fault(n, "%s: %s is true or false to kubectl%s", path, n.Value, quote(n))
	}
	if tag.Get("minLength") == "1" && n.Value == "" {
		r.fault(n, "%s is an empty text", path)
	}
	if words := tag.Get("enum"); words != "" && !slices.Contains(strings.Split(words, ","), n.Value) {
		r.fault(n, "%s: want %s, found %q", path, strings.ReplaceAll(words, ",", " or "), n.Value)
	}
	if pattern := tag.Get("pattern"); pattern != "" && !regexp.MustCompile(pattern).MatchString(n.Value) {
		r.fault(n, "%s: want a text that matches %s, found %q", path, pattern, n.Value)
	}
	v.SetString(n.Value)
}

// number reads a whole number. The API has no unsigned ones: the largest is that
// of int64 everywhere.
func (r *reading) number(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) {
	least, most := int64(math.MinInt64), int64(math.MaxInt64)
	if tag.Get("min") != "" {
		least, _ = strconv.ParseInt(tag.Get("min"), 10, 64)
	}
	x, err := strconv.ParseInt(n.Value, 10, 64)
	switch {
	case n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || !decimal.MatchString(n.Value):
		r.fault(n, "%s: want a whole number, found %s", path, found(n))
	case err != nil || x < least:
		r.fault(n, "%s: want a whole number from %d to %d, found %s", path, least, most, n.Value)
	case v.CanUint():
		v.SetUint(uint64(x))
	default:
		v.SetInt(x)
	}
}

// custom reads what has a form of its own: times, and the fields that somebody
// manages.
func (r *reading) custom(n *yaml.Node, v reflect.Value, path string) {
	if a := alias(n); a != nil {
		r.fault(a, "%s: aliases (*%s) are not read here: write it out", path, a.Value)
		return
	}
	b, err := json.Marshal(plain(n))
	if err == nil {
		err = v.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(b)
	}
	if err != nil {
		r.fault(n, "%s: %w", path, err)
	}
}

// alias is the first alias within a node, or nil.
func alias(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n
	}
	for _, c := range n.Content {
		if a := alias(c); a != nil {
			return a
		}
	}
	return nil
}

// plain is a node as encoding/json writes it.
func plain(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			m[n.Content[i].Value] = plain(n.Content[i+1])
		}
		return m
	case yaml.SequenceNode:
		s := []any{}
		for _, c := range n.Content {
			s = append(s, plain(c))
		}
		return s
	}
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int":
		if decimal.MatchString(n.Value) {
			return json.Number(n.Value)
		}
	}
	return n.Value
}

// found says what stands there.
func found(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "fields"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	text := n.Value
	if len(text) > 40 {
		text = strings.ToValidUTF8(text[:37], "") + "..."
	}
	if kind := n.ShortTag(); kind != "!!str" {
		return fmt.Sprintf("%s (%s)", text, strings.TrimPrefix(kind, "!!"))
	}
	return strconv.Quote(text)
}

// quote says how a scalar becomes a text.
func quote(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode || strings.ContainsAny(n.Value, "\"\n") {
		return ""
	}
	return fmt.Sprintf(": write \"%s\", with the quotes", n.Value)
}

func what(path string) string {
	if path == "" {
		return "the object"
	}
	return path
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
