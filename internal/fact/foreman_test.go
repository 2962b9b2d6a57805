package fact

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
)

// TestForeman: the facts of each recorded machine have what Foreman 3.13 requires
// (StructuredFactImporter, PuppetFactParser), and only values that its database can store.
func TestForeman(t *testing.T) {
	archives, err := filepath.Glob("../../testdata/hosts/*.txt")
	if err != nil || len(archives) < 10 {
		t.Fatalf("%d machines, %v", len(archives), err)
	}
	for _, name := range archives {
		h, err := host.OpenArchive(name)
		if err != nil {
			t.Fatal(err)
		}
		f := Collect(h)
		all, _ := f.Select()
		var out bytes.Buffer
		left, err := all.Foreman(&out, "web1.example.org")
		if err != nil || left > 0 {
			t.Errorf("%s: %d left out, %v", name, left, err)
			continue
		}
		var body struct {
			Name  string
			Facts map[string]any
		}
		strict := json.NewDecoder(&out)
		strict.DisallowUnknownFields()
		if err := strict.Decode(&body); err != nil {
			t.Fatal(err)
		}
		os, _ := body.Facts["os"].(map[string]any)
		if os["name"] == nil || body.Facts["_type"] != "fettle" || body.Facts["_timestamp"] == nil || body.Name != "web1.example.org" {
			t.Errorf("%s: %v, %v", name, body.Name, os)
		}
		if len(body.Facts) > 100 { // maximum_structured_facts: the rest would be dropped
			t.Errorf("%s: %d facts at the top", name, len(body.Facts))
		}
		leaves := 0
		var visit func(at string, v any)
		visit = func(at string, v any) {
			switch v := v.(type) {
			case map[string]any:
				if len(v) == 0 || at == "::fettle" && len(v) > 100 {
					t.Errorf("%s: %s has %d facts", name, at, len(v))
				}
				for key, below := range v {
					visit(at+"::"+key, below)
				}
			case string:
				leaves++
				if strings.ContainsFunc(at+v, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
					t.Errorf("%s: %q = %q", name, at, v)
				}
			case float64, bool:
				leaves++
			default:
				t.Errorf("%s: %s is a %T", name, at, v)
			}
		}
		visit("", body.Facts)
		known := len(slices.DeleteFunc(all.List(), func(it Item) bool { return it.Value == nil }))
		if leaves < known {
			t.Errorf("%s: %d of %d facts", name, leaves, known)
		}
	}
}

// TestForemanNames: names that are too long are left out and counted, control characters replaced.
func TestForemanNames(t *testing.T) {
	tree := map[string]any{"a": map[string]any{strings.Repeat("x", 260): "1", "b\x00c": "d\x1be", "none": nil, "list": []any{"x", json.Number("2")}}}
	if left := forForeman("", tree); left != 1 {
		t.Errorf("%d left out", left)
	}
	text, err := json.Marshal(tree)
	if want := `{"a":{"b�c":"d�e","list":"x, 2"}}`; err != nil || string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
}
