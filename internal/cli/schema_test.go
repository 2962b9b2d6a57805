package cli

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"fettle.dev/fettle/internal/ui"
)

// valid FILE holds a JSON output against the schema of its kind, as
// `fettle schema` prints it.
func valid(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		err := validate([]byte(ts.ReadFile(name)))
		if (err != nil) != neg {
			ts.Fatalf("%s: valid: %v", name, err)
		}
	}
}

func validate(text []byte) error {
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		return err
	}
	id, _ := doc["schema"].(string)
	kind := strings.TrimSuffix(strings.TrimPrefix(id, "fettle/"), "/v1")
	typ, ok := documents[kind]
	if !ok {
		return fmt.Errorf("schema %q is not in the table of documents", id)
	}
	schemaText, err := ui.Schema(id, typ)
	if err != nil {
		return err
	}
	var schema map[string]any
	if err := json.Unmarshal(schemaText, &schema); err != nil {
		return err
	}
	defs, _ := schema["$defs"].(map[string]any)
	return conforms(doc, schema, defs, "$")
}

// conforms knows the part of JSON Schema that report.Schema writes.
func conforms(v any, schema, defs map[string]any, at string) error {
	if ref, ok := schema["$ref"].(string); ok {
		return conforms(v, defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any), defs, at)
	}
	if c, ok := schema["const"]; ok && !reflect.DeepEqual(c, v) {
		return fmt.Errorf("%s is %v, want %v", at, v, c)
	}
	if any, ok := schema["anyOf"].([]any); ok {
		var last error
		for _, s := range any {
			if last = conforms(v, s.(map[string]interface{}), defs, at); last == nil {
				return nil
			}
		}
		return last
	}
	if t, ok := schema["type"]; ok && !isType(v, t) {
		return fmt.Errorf("%s is %T, want %v", at, v, t)
	}
	switch v := v.(type) {
	case map[string]any:
		props, _ := schema["properties"].(map[string]any)
		required, _ := schema["required"].([]any)
		for _, r := range required {
			if _, ok := v[r.(string)]; !ok {
				return fmt.Errorf("%s has no %q", at, r)
			}
		}
		for k, x := range v {
			if strings.ToLower(k) != k && props != nil && schema["additionalProperties"] == nil {
				return fmt.Errorf("%s.%s is not snake_case", at, k)
			}
			s, ok := props[k].(map[string]any)
			if !ok {
				if s, ok = schema["additionalProperties"].(map[string]any); !ok {
					if props != nil {
						return fmt.Errorf("%s.%s is not in the schema", at, k)
					}
					continue
				}
			}
			if err := conforms(x, s, defs, at+"."+k); err != nil {
				return err
			}
		}
	case []any:
		if items, ok := schema["items"].(map[string]any); ok {
			for i, x := range v {
				if err := conforms(x, items, defs, fmt.Sprintf("%s[%d]", at, i)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func isType(v any, want any) bool {
	names, ok := want.([]any)
	if !ok {
		names = []any{want}
	}
	is := "null"
	switch v := v.(type) {
	case string:
		is = "string"
	case bool:
		is = "boolean"
	case map[string]any:
		is = "object"
	case []any:
		is = "array"
	case float64:
		is = "number"
		if v == math.Trunc(v) && slices.Contains(names, "integer") {
			is = "integer"
		}
	}
	return slices.Contains(names, any(is))
}
