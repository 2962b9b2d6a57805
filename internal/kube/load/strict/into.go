package strict

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/spell"
)

// Pair is a name and its text. Text is nil where the file has no value.
type Pair struct {
	Name string
	Text *string
	At   string
}

// Pairs are names and texts in the file's order: a mapping, or a list of mappings.
type Pairs []Pair

// Map are the pairs; those without a value are empty.
func (p Pairs) Map() map[string]string {
	if len(p) == 0 {
		return nil
	}
	m := make(map[string]string, len(p))
	for _, x := range p {
		if m[x.Name] = ""; x.Text != nil {
			m[x.Name] = *x.Text
		}
	}
	return m
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	pairsType    = reflect.TypeFor[Pairs]()
	nodeType     = reflect.TypeFor[*yaml.Node]()
)

// Into reads a node into what v points to: a struct, or what a field may be of: string,
// int, float64, bool, time.Duration (a number without unit is in that of the tag unit, s
// or ms; without that tag it has to be 0), Pairs, *yaml.Node (as it is), pointers to and
// lists of these. A tag min is the least number that is allowed, oneof the words.
func (r *Reader) Into(n *yaml.Node, v any) { r.into(n, reflect.ValueOf(v).Elem(), "", "") }

func (r *Reader) into(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) {
	if v.Type() == nodeType {
		v.Set(reflect.ValueOf(n))
		return
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if v.Type() == pairsType {
		v.Set(reflect.ValueOf(r.pairs(n, path)))
		return
	}
	if n.ShortTag() == "!!null" {
		return // nothing is written: the field keeps its default
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
		if n.Kind != yaml.SequenceNode {
			r.Fault(n, "%s: want a list, found %s", path, Found(n))
			return
		}
		s := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
		for i, item := range n.Content {
			if item.ShortTag() == "!!null" {
				r.Fault(item, "%s[%d]: there is nothing", path, i)
				continue
			}
			r.into(item, s.Index(i), fmt.Sprintf("%s[%d]", path, i), tag)
		}
		v.Set(s)
	default:
		r.scalar(n, v, path, tag)
	}
}

// place is a field of a struct.
type place struct {
	names []string
	index int
	tag   reflect.StructTag
}

func places(t reflect.Type) []place {
	var out []place
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("yaml")
		if name == "" || name == "-" {
			continue
		}
		names := []string{name}
		if also := f.Tag.Get("also"); also != "" {
			names = append(names, strings.Split(also, ",")...)
		}
		out = append(out, place{names, i, f.Tag})
	}
	return out
}

func (r *Reader) object(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		r.Fault(n, "%swant fields, found %s", lead(path), Found(n))
		return
	}
	if at := v.FieldByName("At"); at.IsValid() && at.Kind() == reflect.String {
		at.SetString(r.At(n))
	}
	all := places(v.Type())
	seen := map[int]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		k := slices.IndexFunc(all, func(p place) bool {
			return key.Kind == yaml.ScalarNode && slices.ContainsFunc(p.names, func(s string) bool { return strings.EqualFold(s, key.Value) })
		})
		if k < 0 {
			var names []string
			for _, p := range all {
				names = append(names, p.names[0])
			}
			near := spell.Suggest(strings.ToLower(key.Value), names)
			if near == "" {
				near = ": there are " + strings.Join(names, ", ")
			}
			r.Fault(key, "%sthere is no field %q%s", lead(path), key.Value, near)
			continue
		}
		if old, twice := seen[k]; twice {
			r.Fault(key, "%s%q is there twice (%s)", lead(path), key.Value, old)
			continue
		}
		seen[k] = r.At(key)
		r.into(value, v.Field(all[k].index), join(path, all[k].names[0]), all[k].tag)
	}
}

// pairs reads names and texts.
func (r *Reader) pairs(n *yaml.Node, path string) Pairs {
	var out Pairs
	switch {
	case n.Kind == yaml.SequenceNode:
		for _, item := range n.Content {
			if item.Kind == yaml.AliasNode {
				item = item.Alias
			}
			if item.Kind != yaml.MappingNode {
				r.Fault(item, "%s: want NAME: TEXT, found %s", path, Found(item))
				continue
			}
			out = append(out, r.pairs(item, path)...)
		}
	case n.ShortTag() == "!!null":
		return nil
	case n.Kind != yaml.MappingNode:
		r.Fault(n, "%s: want names and texts, found %s", path, Found(n))
		return nil
	default:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			if value.Kind == yaml.AliasNode {
				value = value.Alias
			}
			if key.Kind != yaml.ScalarNode || value.Kind != yaml.ScalarNode {
				r.Fault(value, "%s: want NAME: TEXT, found %s", path, Found(value))
				continue
			}
			p := Pair{Name: key.Value, At: r.At(key)}
			if value.ShortTag() != "!!null" {
				p.Text = &value.Value
			}
			out = append(out, p)
		}
	}
	for i, p := range out {
		if slices.ContainsFunc(out[:i], func(q Pair) bool { return q.Name == p.Name }) {
			r.Fault(n, "%s: %q is there twice", path, p.Name)
			return nil
		}
	}
	return out
}

func (r *Reader) scalar(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) {
	if n.Kind != yaml.ScalarNode {
		r.Fault(n, "%s: want %s, found %s", path, wanted(v), Found(n))
		return
	}
	switch v.Kind() {
	case reflect.String:
		if words := tag.Get("oneof"); words != "" && !slices.Contains(strings.Split(words, ","), n.Value) {
			r.Fault(n, "%s: want %s, found %q%s", path, strings.ReplaceAll(words, ",", " or "), n.Value, spell.Suggest(n.Value, strings.Split(words, ",")))
			return
		}
		v.SetString(n.Value)
	case reflect.Bool:
		switch strings.ToLower(n.Value) {
		case "true", "yes", "on":
			v.SetBool(true)
		case "false", "no", "off":
			v.SetBool(false)
		default:
			r.Fault(n, "%s: want true or false, found %s", path, Found(n))
		}
	case reflect.Float64:
		x, err := strconv.ParseFloat(n.Value, 64)
		if err != nil || !(x >= 0) || math.IsInf(x, 0) {
			r.Fault(n, "%s: want a number of 0 or more, found %s", path, Found(n))
			return
		}
		v.SetFloat(x)
	default:
		least := int64(0)
		if text := tag.Get("min"); text != "" {
			least, _ = strconv.ParseInt(text, 10, 64)
		}
		x, err := strconv.ParseInt(n.Value, 10, 32)
		if err != nil || x < least {
			r.Fault(n, "%s: want a whole number of %d or more, found %s", path, least, Found(n))
			return
		}
		v.SetInt(x)
	}
}

func (r *Reader) duration(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) {
	unit := time.Duration(0)
	switch tag.Get("unit") {
	case "s":
		unit = time.Second
	case "ms":
		unit = time.Millisecond
	}
	d, ok := ParseDuration(n.Value, unit)
	if n.Kind != yaml.ScalarNode || !ok {
		how := "a time with its unit, as 250ms, 10s, 2m"
		if unit != 0 {
			how = fmt.Sprintf("a whole number (of %s), or a time with its unit, as 250ms, 10 s, 2m", tag.Get("unit"))
		}
		r.Fault(n, "%s: want %s, found %s", path, how, Found(n))
		return
	}
	v.SetInt(int64(d))
}

// ParseDuration reads a time: digits are in unit (only 0 where that is 0), others as Go
// writes them, also with spaces, and with sec and min. False for what is none, is negative
// or longer than a year.
func ParseDuration(text string, unit time.Duration) (time.Duration, bool) {
	text = strings.Join(strings.Fields(text), "")
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if n < 0 || n > 0 && (unit == 0 || n > int64(longest/unit)) {
			return 0, false
		}
		return time.Duration(n) * unit, true
	}
	for long, short := range map[string]string{"min": "m", "sec": "s", "msec": "ms"} {
		if digits, ok := strings.CutSuffix(text, long); ok && digits != "" && digits[len(digits)-1] <= '9' {
			text = digits + short
			break
		}
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d >= 0 && d <= longest
}

const longest = 366 * 24 * time.Hour

// Found says what stands at a node.
func Found(n *yaml.Node) string {
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
	if n.ShortTag() == "!!null" {
		return "nothing"
	}
	return strconv.Quote(text)
}

func wanted(v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	}
	return "a number"
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
