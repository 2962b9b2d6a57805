package deploy_test

import (
	"encoding/json"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/kube/deploy"
)

// value is a value of the Helm chart.
type value struct{ name, fallback, doc string }

// TestValues writes the values of the chart, with the comments of values.yaml, into the manual and
// the README of the chart.
func TestValues(t *testing.T) {
	var b strings.Builder
	b.WriteString("| value | default | meaning |\n|---|---|---|\n")
	for _, v := range values(t) {
		if v.doc == "" || strings.HasSuffix(v.doc, ".") {
			t.Errorf("%s: comment %q, want one without a full stop", v.name, v.doc)
		}
		b.WriteString("| " + v.name + " | `" + v.fallback + "` | " + root.Cell(v.doc) + " |\n")
	}
	for _, page := range []string{"kubernetes-helm.md", "../kube/deploy/README.md"} {
		root.Manual(t, page, root.Generated{Name: "values", Text: b.String()})
	}
}

// values reads values.yaml. A mapping without comments inside is one value.
func values(t *testing.T) (all []value) {
	t.Helper()
	var doc yaml.Node
	text, err := fs.ReadFile(deploy.FS, "values.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	var walk func(prefix string, n *yaml.Node)
	walk = func(prefix string, n *yaml.Node) {
		for i := 0; i < len(n.Content); i += 2 {
			key, at := n.Content[i], n.Content[i+1]
			name := prefix + key.Value
			if at.Kind == yaml.MappingNode && len(at.Content) > 0 && at.Content[0].HeadComment != "" {
				walk(name+".", at)
				continue
			}
			var v any
			if err := at.Decode(&v); err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(key.HeadComment, "\n")
			for i := range lines {
				lines[i] = strings.TrimPrefix(lines[i], "# ")
			}
			all = append(all, value{name, string(text), strings.Join(lines, " ")})
		}
	}
	walk("", doc.Content[0])
	return all
}

// TestSchemaHasValues tests that values.schema.json has the names of values.yaml, and no others but
// the global values, which Helm gives to a chart that is part of another one. test/helm tests what
// the schema refuses.
func TestSchemaHasValues(t *testing.T) {
	type schema struct {
		Properties           map[string]*schema
		AdditionalProperties *bool
	}
	var top schema
	text, err := fs.ReadFile(deploy.FS, "values.schema.json")
	if err == nil {
		err = json.Unmarshal(text, &top)
	}
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	var walk func(prefix string, s *schema)
	walk = func(prefix string, s *schema) {
		if s.AdditionalProperties == nil || *s.AdditionalProperties {
			t.Errorf("%s takes other names", prefix)
		}
		for name, p := range s.Properties {
			if len(p.Properties) > 0 {
				walk(prefix+name+".", p)
			} else if name != "global" {
				names = append(names, prefix+name)
			}
		}
	}
	walk("", &top)
	want := map[string]bool{}
	for _, v := range values(t) {
		want[v.name] = true
	}
	slices.Sort(names)
	if w := slices.Sorted(maps.Keys(want)); !slices.Equal(names, w) {
		t.Errorf("the schema has %v\nvalues.yaml has %v", names, w)
	}
}
