// Package sizing contains helpers for the tests of all sizings.
package sizing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/rules"
)

// Figures returns the tables of the catalog.
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

// Words splits a text such as "pods=2200 version=4.4" into names and values in turn.
func Words(said string) []string {
	var out []string
	for w := range strings.FieldsSeq(said) {
		name, value, _ := strings.Cut(w, "=")
		out = append(out, name, value)
	}
	return out
}

// Ask sets inputs of a request, given as names and values in turn, and sizes it.
func Ask(f sizing.Figures, w sizing.Request, inputs ...string) (*sizing.Result, error) {
	for i := 0; i+1 < len(inputs); i += 2 {
		at := slices.IndexFunc(w.Inputs(), func(in *sizing.Input) bool { return in.Name == inputs[i] })
		if at < 0 {
			return nil, fmt.Errorf("unknown input %s", inputs[i])
		}
		if err := w.Inputs()[at].Set(inputs[i+1]); err != nil {
			return nil, &sizing.InputError{Input: inputs[i], Err: err}
		}
	}
	return w.Size(context.Background(), f)
}

// Sized sizes a request like Ask, and expects a sound result.
func Sized(t testing.TB, f sizing.Figures, w sizing.Request, inputs ...string) *sizing.Result {
	t.Helper()
	r, err := Ask(f, w, inputs...)
	if err != nil {
		t.Fatalf("%s: %v", inputs, err)
	}
	Sound(t, r)
	return r
}

// Refused sets the inputs of each line, split by words, in a new request. Each must fail with
// an InputError that contains the text of the line.
func Refused[R sizing.Request](t *testing.T, newRequest func() R, words func(string) []string, lines map[string]string) {
	t.Helper()
	f := Figures(t)
	for line, want := range lines {
		r, err := Ask(f, newRequest(), words(line)...)
		if err == nil {
			t.Errorf("%s: no error: %+v", line, r.Inputs)
		} else if !strings.Contains(err.Error(), want) || !BadInput(err) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

// Fuzz sets the inputs of arbitrary lines in a new request. Sizing must fail, or its result
// must be sound and pass check.
func Fuzz[R sizing.Request](f *testing.F, newRequest func() R, seeds []string, check func(*testing.T, *sizing.Result)) {
	figures := Figures(f)
	for _, line := range seeds {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		r, err := Ask(figures, newRequest(), Words(line)...)
		if err != nil {
			return
		}
		Sound(t, r)
		check(t, r)
	})
}

// Want checks printed values by group/name.
func Want(t *testing.T, r *sizing.Result, want map[string]string) {
	t.Helper()
	for key, value := range want {
		group, name, _ := strings.Cut(key, "/")
		if v := r.Value(group, name); v == nil {
			t.Errorf("no value %s", key)
		} else if got := fmt.Sprint(v.Value); got != value {
			t.Errorf("%s is %s, want %s (%s)", key, got, value, v.Why)
		}
	}
}

// Sound checks what applies to every result: each value has a reason, names are unique, each
// YAML file is one valid document, and budgets suffice.
func Sound(t testing.TB, r *sizing.Result) {
	t.Helper()
	seen := map[string]bool{}
	for _, v := range r.Values {
		key := v.Group + "/" + v.Name
		if v.Why == "" || v.Group == "" || v.Name == "" || v.Value == nil || seen[key] {
			t.Errorf("value %s: no reason, or twice: %+v", key, v)
		}
		seen[key] = true
	}
	for _, a := range r.Files {
		if a.What == "" || a.Checked == "" || a.Content == "" || seen[a.Name] {
			t.Errorf("file %q: empty field, or twice", a.Name)
		}
		if ext := path.Ext(a.Name); ext == ".yaml" || ext == ".yml" {
			if err := ReadYAML(a.Content, &map[string]any{}); err != nil {
				t.Errorf("%s: %v\n%s", a.Name, err, a.Content)
			}
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

// BadInput reports whether an error is an InputError.
func BadInput(err error) bool {
	var bad *sizing.InputError
	return errors.As(err, &bad)
}

// ReadYAML decodes one document. It rejects unknown and duplicate keys, and a second document.
func ReadYAML(text string, into any) error {
	dec := yaml.NewDecoder(strings.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(into); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("empty document")
		}
		return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	var rest yaml.Node
	if err := dec.Decode(&rest); !errors.Is(err, io.EOF) {
		return fmt.Errorf("line %d: want one document", rest.Line)
	}
	return nil
}
