package openshift

import (
	"slices"
	"strings"
	"testing"

	guidesizing "fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/testkit/sizing"
)

// apps are the source's example (002, 9.4).
const apps = `
- {name: apache, quantity: 100, memory: 500 MB, cpu: 0.5, storage: 1 GB}
- {name: node.js, quantity: 200, memory: 1 GB, cpu: 1, storage: 1 GB}
- {name: postgresql, quantity: 100, memory: 1 GB, cpu: 2, storage: 10 GB}
- {name: JBoss EAP, quantity: 100, memory: 1 GB, cpu: 1, storage: 1 GB}
`

// A table of applications is read strictly.
func TestApps(t *testing.T) {
	f := sizing.Figures(t)
	for text, want := range map[string]string{
		"- {name: a, quantity: 1, cpu: 1}":                            `line 1: application "a" lacks memory`,
		"# x\n- {name: a, quantity: 0, cpu: 1, memory: 1G}":           `line 2: quantity: "0": want a whole number`,
		"- name: a\n  quantity: -1\n  cpu: 1\n  memory: 1G":           `line 2: quantity: "-1"`,
		"- {name: a, quantity: 1, cpu: 1, memory: 1Q}":                `line 1: memory: quantity "1Q": unknown unit "Q"`,
		"- {name: a, quantity: 1, cpu: 1, memory: 1G, kind: x}":       "line 1",
		"- {name: a, quantity: 1,\n  cpu: 1, memory: 1G, storge: 1G}": `line 2: unknown key "storge" (did you mean "storage"?)`,
		"- {name: a, quantity: 1, cpu: 1, memory: 1G}\n---\n- 1":      "one list",
		"- {name: a, name: b, quantity: 1, cpu: 1, memory: 1G}":       `"name" is set twice`,
		"- {name: a, quantity: [1], cpu: 1, memory: 1G}":              "line 1: quantity: want a single value",
		"- {name: a, quantity: 1, cpu: 1, memory: 1G, overcommit: x}": `overcommit: "x": want true or false`,
		"- a\n":                  "line 1: want an application",
		"- {name: a}\n- b: \x00": "line 2: control character 0x00",
		"- {name: \xff\xfe}":     "line 1: invalid UTF-8 byte 0xff",
		"{":                      "line 1: ",
		" ":                      "the file is empty",
		"#":                      "line 1: the table is empty",
		"42":                     "line 1: want a list",
	} {
		_, err := sizing.Ask(f, New(), "apps", text)
		if err == nil || !strings.Contains(err.Error(), want) || !sizing.BadInput(err) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	// A file that is named is named with the mistake, and in the answer.
	w := New()
	_ = w.input("apps").SetFile("my/apps.yaml", "\n- {name: a, quantity: 1, cpu: 1}")
	if _, err := w.Size(t.Context(), f); err == nil || err.Error() != `--apps: my/apps.yaml:2: application "a" lacks memory` {
		t.Error(err)
	}
	w = New()
	_ = w.input("apps").SetFile("my/apps.yaml", "- &a {name: a, quantity: 1, cpu: 1, memory: 1G}\n- {<<: *a, name: b, quantity: 2}")
	r, err := w.Size(t.Context(), f)
	if err != nil || r.Value("applications", "pods").Value != 3 || !slices.Contains(r.Inputs, guidesizing.InputValue{Name: "apps", Value: "my/apps.yaml", From: "asked"}) {
		t.Errorf("%v %+v", err, r)
	}
	// What must not be overcommitted is not.
	r = sizing.Sized(t, f, New(), "apps", "- {name: java, quantity: 75, cpu: 1, memory: 1G, overcommit: false}", "overcommit", "100")
	sizing.Want(t, r, map[string]string{"nodes/for_cores": "10"})
	r = sizing.Sized(t, f, New(), "apps", "- {name: web, quantity: 75, cpu: 1, memory: 1G}", "overcommit", "100")
	sizing.Want(t, r, map[string]string{"nodes/for_cores": "5"})
}

func FuzzApps(f *testing.F) {
	figures := sizing.Figures(f)
	f.Add(apps)
	f.Add("- {name: a, quantity: 99999999, cpu: 999999, memory: 1P, storage: 1e9}")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := sizing.Ask(figures, New(), "apps", text, "node-cores", "4096", "node-ram", "1048576")
		if err == nil {
			sizing.Sound(t, r)
		}
	})
}
