package strict

import (
	"encoding/json"
	"errors"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestTyped(t *testing.T) {
	type into struct {
		Name  string
		Open  *bool
		Spec  struct{ Items []struct{ Image, Port any } }
		Names map[string]string
		Rows  []struct {
			Text string
			Port int32
		}
	}
	for text, want := range map[string]string{
		"just words\n":              `f:1: want fields, found "just words"`,
		"\n- a\n":                   "f:2: want fields, found a list",
		"name: a\n\tb: c\n":         "f:2: found a tab character that violates indentation",
		"name: a\nopen: perhaps":    `f:2: open: want true or false, found "perhaps"`,
		"names: {a: b, c.d/e: 5}\n": "f:1: names.c.d/e: want text, found 5 (int)",
		"rows:\n- text: a\n  port: 1\n- text: b\n  port: many\n": `f:5: rows[1].port: want a whole number, found "many"`,
		"rows:\n- port: 1\n- port: 2\n  text:\n    a: b\n":       "f:5: rows[1].text: want text, found fields",
		"rows: 7\n":          "f:1: rows: want a list, found 7 (int)",
		"spec: []\n":         "f:1: spec: want fields, found a list",
		"name: a\nname: b\n": `f:2: "name" is given twice`,
	} {
		var v into
		body, err := yaml.YAMLToJSONStrict([]byte(text))
		if err == nil {
			err = json.Unmarshal(body, &v)
		}
		if err == nil {
			t.Errorf("%q is read: %+v", text, v)
			continue
		}
		if got := Typed("f", []byte(text), err); got.Error() != want {
			t.Errorf("%q: %v, want %s (of %v)", text, got, want, err)
		}
	}
	if err := Typed("f", []byte("a: b"), errors.New("something else")); err.Error() != "f: something else" {
		t.Error(err)
	}
	if err := Typed("f", nil, json.Unmarshal(nil, new(into))); err.Error() != "f: the file is empty" {
		t.Error(err)
	}
	if err := Typed("f", nil, nil); err != nil {
		t.Error(err)
	}
}
