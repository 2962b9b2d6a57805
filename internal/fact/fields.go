package fact

import (
	"reflect"
	"slices"
	"strings"
	"time"
)

// Field describes a possible fact: the type of its value, and its name, with "*" for the name
// of an item in a set ("disk.*.scheduler").
type Field struct {
	Name string
	Type reflect.Type
}

// Fields returns all fields in the order of the tree, and the names of the sets ("disk",
// "numa.node").
func Fields() (fields []Field, sets []string) {
	var walk func(prefix string, t reflect.Type)
	walk = func(prefix string, t reflect.Type) {
		for field := range t.Fields() {
			tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if tag == "" || tag == "-" {
				continue
			}
			name := prefix + tag
			zero := reflect.New(field.Type).Interface()
			_, isLeaf := zero.(leaf)
			_, isSet := zero.(container)
			switch {
			case isSet:
				sets = append(sets, name)
				walk(name+".*.", zero.(typed).JSONType().Elem())
			case isLeaf:
				fields = append(fields, Field{name, zero.(typed).JSONType()})
			case field.Type.Kind() == reflect.Struct && field.Type != reflect.TypeFor[time.Time]():
				walk(name+".", field.Type)
			}
		}
	}
	walk("", reflect.TypeFor[Facts]())
	return slices.Clip(fields), slices.Clip(sets)
}

// typed is a Fact or a Set.
type typed interface{ JSONType() reflect.Type }
