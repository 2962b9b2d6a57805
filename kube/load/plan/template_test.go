package plan

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

const sample = `apiVersion: v1
kind: Template
metadata: {name: t}
labels: {app: "${NAME}", fixed: yes}
parameters:
- {name: NAME, required: true}
- {name: REPLICAS, value: "2"}
- {name: SECRET, generate: expression, from: "u[a-z]{3}-[A-Z0-9]{4}"}
- {name: LATER, value: ""}
objects:
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: "${NAME}-${LATER}x", namespace: somewhere}
  spec: {replicas: "${{REPLICAS}}", paused: "${{NAME}}", note: "${UNKNOWN} $${NAME}", "${NAME}-key": 1}
- {apiVersion: v1, kind: Secret, metadata: {name: s, namespace: "${NAME}", labels: {app: own}}, stringData: {password: "${SECRET}"}}
`

func TestProcess(t *testing.T) {
	tpl, err := ParseObject("t.yaml", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]string{"NAME": "web"}
	if err := tpl.Check(given); err != nil {
		t.Fatal(err)
	}
	seed := func(string) func() uint64 { return rand.New(rand.NewPCG(1, 2)).Uint64 }
	values := tpl.Values(given, seed)
	text, err := json.Marshal(tpl.Process(values))
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"labels":{"app":"web","fixed":"yes"},"name":"web-x"},"spec":{"note":"${UNKNOWN} $web","paused":"web","replicas":2,"web-key":1}},` +
		`{"apiVersion":"v1","kind":"Secret","metadata":{"labels":{"app":"web","fixed":"yes"},"name":"s","namespace":"web"},"stringData":{"password":"` + values["SECRET"] + `"}}]`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	if !regexp.MustCompile(`^u[a-z]{3}-[A-Z0-9]{4}$`).MatchString(values["SECRET"]) {
		t.Errorf("generated %q", values["SECRET"])
	}
	if again := tpl.Values(given, seed); again["SECRET"] != values["SECRET"] {
		t.Errorf("with the same seed %q and %q", again["SECRET"], values["SECRET"])
	}
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"kind: Pod\napiVersion: v1":                                                                          "t.yaml:1: want an object of kind Template, found Pod",
		"kind: Template\napiVersion: v2":                                                                     "t.yaml:1: want apiVersion",
		"kind: Template\napiVersion: v1\nparameters:\n- {name: A, generate: x}":                              `t.yaml:4: parameter A: generate: want expression, found "x"`,
		"kind: Template\napiVersion: v1\nparameters:\n- {name: A, generate: expression, from: '[z-a]{3}'}":   "[z-a]: z-a is not a range such as a-z, A-Z or 0-9",
		"kind: Template\napiVersion: v1\nparameters:\n- {name: A, generate: expression, from: '[a-z]{300}'}": "want 1 to 255",
		"kind: Template\napiVersion: v1\nparameters:\n- {name: A, generate: expression, from: '[\\\\q]{3}'}": "]: want \\w, \\d, \\a or \\A after a backslash",
		"kind: Template\napiVersion: v1\nparameters:\n- {name: A}\n- {name: A}":                              "t.yaml:5: parameter A is given twice",
		"kind: Template\napiVersion: v1\nparameters:\n- {name: A-B}":                                         "want letters, digits and _",
		"kind: Template\napiVersion: v1\nobjects:\n- {metadata: {}}":                                         "t.yaml:4: objects[0] has no kind",
		"kind: Template\napiVersion: v1\nobjects:\n- {kind: A, kind: B}":                                     `"kind" is given twice`,
		"kind: Template\napiVersion: v1\nparameters: 3":                                                      "t.yaml:3: parameters: want a list, found 3 (int)",
		"kind: Template\napiVersion: v1\nobjects:\n- hello":                                                  `t.yaml:4: objects[0]: want an object with its fields, found "hello"`,
		"kind: Template\napiVersion: v1\nobjects: {}":                                                        "t.yaml:3: objects: want a list, found fields",
		"kind: Template\napiVersion: v1\nlabels: {a: 1}":                                                     "t.yaml:3: labels.a: want a string, found 1 (int); put it in quotes",
		"kind: Template\napiVersion: v1\nlabels: [a]":                                                        "t.yaml:3: labels: want a map of strings, found a list",
		"kind: Template\napiVersion: v1\nparameters:\n- {name: 1}":                                           "t.yaml:4: parameters[0].name: want a string, found 1 (int)",
		"kind: Template\napiVersion: v1\nparameters:\n- {name: A, required: 1}":                              "t.yaml:4: parameters[0].required: want true or false, found 1 (int)",
		"a: b: c": "t.yaml: mapping values",
	} {
		if _, err := ParseObject("t.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	tpl, err := ParseObject("t.yaml", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	if err := tpl.Check(map[string]string{"NAMES": "x"}); err == nil || !strings.Contains(err.Error(), `no parameter NAMES (did you mean "NAME"?)`) || !strings.Contains(err.Error(), "NAME is required") {
		t.Errorf("other values: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte("kind: Template\napiVersion: v1\nparameters: &a\n- {name: A, generate: expression, from: '[\\w]{3}'}\nobjects: *a"))
	f.Fuzz(func(t *testing.T, text []byte) {
		tpl, err := ParseObject("f", text)
		if err != nil {
			return
		}
		values := tpl.Values(nil, func(string) func() uint64 { return rand.New(rand.NewPCG(1, 2)).Uint64 })
		if _, err := json.Marshal(tpl.Process(values)); err != nil {
			t.Errorf("what was read cannot be written: %v", err)
		}
	})
}
