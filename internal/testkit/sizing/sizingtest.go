// Package sizing is what the tests of every wish share.
package sizing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/rules"
)

// Figures are those of the catalogue.
func Figures(t testing.TB) sizing.Figures {
	t.Helper()
	files, err := rule.Embedded(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	c, err := rule.Tables(files)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Words cuts "pods=2200 version=4.4" into names and values in turn.
func Words(said string) []string {
	var out []string
	for w := range strings.FieldsSeq(said) {
		name, value, _ := strings.Cut(w, "=")
		out = append(out, name, value)
	}
	return out
}

// Ask says things of a wish, name and value in turn, and sizes it.
func Ask(f sizing.Figures, w sizing.Wish, said ...string) (*sizing.Result, error) {
	for i := 0; i+1 < len(said); i += 2 {
		known := false
		for _, in := range w.Inputs() {
			if in.Name == said[i] {
				known = true
				if err := in.Set(said[i+1]); err != nil {
					return nil, &sizing.InputError{Input: in.Name, Err: err}
				}
			}
		}
		if !known {
			return nil, fmt.Errorf("there is no input %s", said[i])
		}
	}
	return w.Size(context.Background(), f)
}

// Sized is Ask of a wish that has a sound answer.
func Sized(t testing.TB, f sizing.Figures, w sizing.Wish, said ...string) *sizing.Result {
	t.Helper()
	r, err := Ask(f, w, said...)
	if err != nil {
		t.Fatalf("%s: %v", said, err)
	}
	Sound(t, r)
	return r
}

// Refused says lines to a new wish each, cut by words: every one is to be refused
// as an input that is wrong, with an error that has the text behind it.
func Refused[W sizing.Wish](t *testing.T, newWish func() W, words func(string) []string, lines map[string]string) {
	t.Helper()
	f := Figures(t)
	for said, want := range lines {
		r, err := Ask(f, newWish(), words(said)...)
		if err == nil {
			t.Errorf("%s: nothing is wrong: %+v", said, r.Inputs)
		} else if !strings.Contains(err.Error(), want) || !BadInput(err) {
			t.Errorf("%s: %v, want %q", said, err, want)
		}
	}
}

// Fuzz says any line to a new wish: it is refused, or its answer is sound and holds
// what check asks of it.
func Fuzz[W sizing.Wish](f *testing.F, newWish func() W, seeds []string, check func(*testing.T, *sizing.Result)) {
	figures := Figures(f)
	for _, said := range seeds {
		f.Add(said)
	}
	f.Fuzz(func(t *testing.T, said string) {
		r, err := Ask(figures, newWish(), Words(said)...)
		if err != nil {
			return
		}
		Sound(t, r)
		check(t, r)
	})
}

// ReadBack reads documents by their names into the structs that they are made of,
// refuses a key too many, and returns the artefacts that are not among them.
func ReadBack(t testing.TB, r *sizing.Result, into map[string]any) []sizing.Artefact {
	t.Helper()
	var others []sizing.Artefact
	for _, a := range r.Files {
		document, ok := into[a.Name]
		if !ok {
			others = append(others, a)
		} else if err := ReadYAML(a.Content, document); err != nil {
			t.Fatalf("%s: %v\n%s", a.Name, err, a.Content)
		}
	}
	return others
}

// Want checks values: group/name, and the value as it is printed.
func Want(t *testing.T, r *sizing.Result, want map[string]string) {
	t.Helper()
	for key, value := range want {
		found := false
		for _, v := range r.Values {
			if v.Group+"/"+v.Name == key {
				found = true
				if got := fmt.Sprint(v.Value); got != value {
					t.Errorf("%s is %s, want %s (%s)", key, got, value, v.Why)
				}
			}
		}
		if !found {
			t.Errorf("there is no %s", key)
		}
	}
}

// Sound checks what holds for every answer: each value has a reason, each name is
// there once, and nothing is written outside.
func Sound(t testing.TB, r *sizing.Result) {
	t.Helper()
	seen := map[string]bool{}
	for _, v := range r.Values {
		key := v.Group + "/" + v.Name
		if v.Why == "" || v.Group == "" || v.Name == "" || v.Value == nil || seen[key] {
			t.Errorf("value %s: without a reason, or there twice: %+v", key, v)
		}
		seen[key] = true
	}
	for _, a := range r.Files {
		if a.What == "" || a.Checked == "" || a.Content == "" || seen[a.Name] {
			t.Errorf("artefact %q: without a word, or there twice", a.Name)
		}
		seen[a.Name] = true
	}
	for _, l := range r.Limits {
		if l.Over != (l.Wanted > l.Maximum) || l.UsedPercent < 0 {
			t.Errorf("limit %+v", l)
		}
	}
	for _, b := range r.Budgets {
		if b.Left < 0 {
			t.Errorf("%s does not suffice: %+v", b.Name, b)
		}
	}
	for _, s := range r.Steps {
		if s.Do == "" {
			t.Error("a step does nothing")
		}
	}
}

// BadInput is true for an error about an input.
func BadInput(err error) bool {
	var bad *sizing.InputError
	return errors.As(err, &bad)
}

// ReadYAML reads one document into a struct and refuses keys that it does not
// have, keys twice, and a second document.
func ReadYAML(text string, into any) error {
	dec := yaml.NewDecoder(strings.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(into); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("it is empty")
		}
		return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	var rest yaml.Node
	if err := dec.Decode(&rest); !errors.Is(err, io.EOF) {
		return fmt.Errorf("line %d: want one document", rest.Line)
	}
	return nil
}
