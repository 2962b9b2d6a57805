package strict

import (
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/text"
)

// unknown reports an unknown field: what it may have been meant to be, where it
// belongs, or which fields there are.
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
		hint += ": it belongs " + strings.Join(places, ", or ")
	}
	if hint == "" && len(names) > 0 {
		hint = ": there are " + strings.Join(names, ", ")
	}
	r.Fault(key, "%sunknown field %q%s", lead(path), key.Value, hint)
}

// mostPlaces caps how many places of a field are told: one that is nearly everywhere was not
// meant for any of them.
const mostPlaces = 3

// places are where in the file a field of that name belongs. Objects of an API have the same
// names at many places, of which none says what was meant.
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

// search goes through the structs below a type, which do not hold themselves.
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
