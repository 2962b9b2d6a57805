package ui

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"time"
)

// Schema generates the JSON Schema (draft 2020-12) of a document from its Go type. `fettle schema
// KIND` prints it, and tests validate all JSON output against it. Fields without omitempty are
// required. Additional properties are allowed, because documents may get more fields.
func Schema(id string, doc any) ([]byte, error) {
	_, partial := doc.(PartialDocument)
	g := generator{defs: map[string]any{}, names: map[reflect.Type]string{}, partial: partial}
	root := g.object(reflect.TypeOf(doc))
	props := root["properties"].(map[string]any)
	props["schema"] = map[string]any{"const": id}
	if _, body := doc.(Body); !body {
		props["exit_code"] = map[string]any{"type": "integer"}
		props["messages"] = map[string]any{"type": "array", "items": map[string]any{"type": "string"}}
		root["required"] = append(root["required"].([]string), "exit_code", "messages")
	}
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = id
	if len(g.defs) > 0 {
		root["$defs"] = g.defs
	}
	return json.MarshalIndent(root, "", "  ")
}

// JSONTyper is a type that has the same JSON form as another type.
type JSONTyper interface{ JSONType() reflect.Type }

// PartialDocument is a document in which nested structs and JSONTypers are optional.
type PartialDocument interface{ JSONPartial() }

// SchemaProvider is a type that provides its own JSON Schema.
type SchemaProvider interface{ JSONShape() map[string]any }

// Body is a document within another document, such as the body of a run. It has no exit code
// and no messages.
type Body interface{ JSONBody() }

type generator struct {
	defs  map[string]any
	names map[reflect.Type]string
	// partial reports whether the document is a PartialDocument.
	partial bool
}

func (g *generator) of(t reflect.Type) map[string]any {
	zero := reflect.New(t)
	if s, ok := zero.Interface().(SchemaProvider); ok {
		return s.JSONShape()
	}
	if j, ok := zero.Interface().(JSONTyper); ok {
		return nullable(g.of(j.JSONType()))
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[json.RawMessage](), t.Kind() == reflect.Interface:
		return map[string]any{}
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()), zero.Type().Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return map[string]any{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return nullable(g.of(t.Elem()))
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string"}
		}
		return nullable(map[string]any{"type": "array", "items": g.of(t.Elem())})
	case reflect.Map:
		return nullable(map[string]any{"type": "object", "additionalProperties": g.of(t.Elem())})
	case reflect.Struct:
		return g.ref(t)
	}
	return map[string]any{}
}

func nullable(s map[string]any) map[string]any {
	if typ, ok := s["type"].(string); ok {
		s["type"] = []string{typ, "null"}
		return s
	}
	if len(s) == 0 || s["anyOf"] != nil {
		return s
	}
	return map[string]any{"anyOf": []any{s, map[string]any{"type": "null"}}}
}

func (g *generator) ref(t reflect.Type) map[string]any {
	name, ok := g.names[t]
	if !ok {
		name = t.Name()
		if _, taken := g.defs[name]; taken || name == "" {
			name = strings.NewReplacer("/", "_", ".", "_", "[", "_", "]", "").Replace(t.String())
		}
		g.names[t] = name
		g.defs[name] = map[string]any{} // placeholder for recursive types
		g.defs[name] = g.object(t)
	}
	return map[string]any{"$ref": "#/$defs/" + name}
}

func (g *generator) object(t reflect.Type) map[string]any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	props, required := map[string]any{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		if !f.IsExported() || f.Anonymous || len(f.Index) > 1 && shadowed(t, f) {
			continue
		}
		tag, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == "-" {
			continue
		}
		if tag == "" {
			tag = f.Name
		}
		props[tag] = g.of(f.Type)
		if !strings.Contains(opts, "omit") && !(g.partial && isBranch(f.Type)) {
			required = append(required, tag)
		}
	}
	return map[string]any{"type": "object", "properties": props, "required": required}
}

// isBranch reports whether a field is optional in a PartialDocument.
func isBranch(t reflect.Type) bool {
	_, typed := reflect.New(t).Interface().(JSONTyper)
	return typed || t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]()
}

// shadowed reports whether the JSON of an embedded struct's field is nested, because the
// struct has a JSON name.
func shadowed(t reflect.Type, f reflect.StructField) bool {
	for _, i := range f.Index[:len(f.Index)-1] {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		e := t.Field(i)
		if tag, _, _ := strings.Cut(e.Tag.Get("json"), ","); tag != "" {
			return true
		}
		t = e.Type
	}
	return false
}
