package plan

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"text/template"
	"text/template/parse"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/strict"
)

// TextTemplate is a parsed template in Go's template language, as in kube-burner.
type TextTemplate struct {
	file string
	t    *template.Template
	// fixed reports whether the output depends only on the values.
	fixed bool

	mu     sync.Mutex // protects random, so one execution runs at a time
	random *rand.Rand
}

// maxText limits a template's output, in bytes.
const maxText = 4 << 20

// undefined matches the parser's error for an unknown function.
var undefined = regexp.MustCompile(`function "([^"]*)" not defined`)

// ParseText parses a template with the functions of Go, sprig and kube-burner. in provides what
// functions read from outside the template.
func ParseText(file, text string, in TextInputs) (*TextTemplate, error) {
	t := &TextTemplate{file: file}
	option := "missingkey=error"
	if in.MissingZero {
		option = "missingkey=zero"
	}
	functions := t.functions(in)
	parsed, err := template.New(file).Option(option).Funcs(functions).Parse(text)
	for _, h := range in.Helpers {
		if err != nil {
			break
		}
		_, err = parsed.New(h.Name).Parse(h.Text)
	}
	if err != nil {
		message := strings.TrimPrefix(err.Error(), "template: ")
		if name := undefined.FindStringSubmatch(message); name != nil {
			message += missing(name[1], functions)
		}
		return nil, errors.New(message)
	}
	t.t, t.fixed = parsed, !slices.ContainsFunc(parsed.Templates(), unsteady)
	return t, nil
}

// missing returns a hint for an unknown function.
func missing(name string, functions template.FuncMap) string {
	if why := removed[name]; why != "" {
		return "; this function of kube-burner is not supported: " + why
	}
	return text.Suggest(name, slices.Sorted(maps.Keys(functions))) + "; supported are the functions of Go, sprig 3.3 and kube-burner (" + strings.Join(own, ", ") + ")"
}

// limited is a buffer with a maximum size.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxText {
		return 0, fmt.Errorf("output larger than %d MiB", maxText>>20)
	}
	return l.Buffer.Write(p)
}

// Text executes the template. Random functions give the same results for the same seed.
func (t *TextTemplate) Text(values map[string]any, seed uint64) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.random = rand.New(rand.NewPCG(seed, randomStream))
	var out limited
	if err := t.t.Execute(&out, values); err != nil {
		return "", errors.New(strings.TrimPrefix(err.Error(), "template: "))
	}
	return out.String(), nil
}

// noEntry matches the template error for a missing variable.
var noEntry = regexp.MustCompile(`map has no entry for key "([^"]*)"`)

// Fixed reports whether the output depends only on the values.
func (t *TextTemplate) Fixed() bool { return t.fixed }

// MissingKey returns the missing variable in an error of Text, or "".
func MissingKey(err error) string {
	if err != nil {
		if found := noEntry.FindStringSubmatch(err.Error()); found != nil {
			return found[1]
		}
	}
	return ""
}

// randomStream is the second half of every seed; it separates these random numbers from other uses
// of a seed.
const randomStream = 0x676f74657874

// Objects executes the template and decodes the resulting objects.
func (t *TextTemplate) Objects(values map[string]any, seed uint64) ([]map[string]any, error) {
	return t.objects(values, seed, "apiVersion", "kind")
}

// Mapping executes the template and decodes the resulting mapping, such as a patch.
func (t *TextTemplate) Mapping(values map[string]any, seed uint64) (map[string]any, error) {
	all, err := t.objects(values, seed)
	if err == nil && len(all) != 1 {
		err = text.Errorf("%s: want one document, found %d", t.file, len(all))
	}
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

func (t *TextTemplate) objects(values map[string]any, seed uint64, fields ...string) ([]map[string]any, error) {
	text, err := t.Text(values, seed)
	if err != nil {
		return nil, err
	}
	r := &strict.Reader{File: t.file}
	var out []map[string]any
	for _, d := range r.Documents([]byte(text)) {
		whole := r.JSON(d)
		if r.Err() != nil {
			break
		}
		var o map[string]any
		err := decodeJSON(whole, &o)
		if err != nil || slices.ContainsFunc(fields, func(f string) bool { return o[f] == nil }) {
			r.Fault(d, "want an object with apiVersion and kind")
			break
		}
		out = append(out, o)
	}
	return out, r.Err()
}

// Plain reports whether the template only inserts the given fields, without other calls or random
// functions. Outputs for different values then differ only at the fields.
func (t *TextTemplate) Plain(fields ...string) bool {
	if len(t.t.Templates()) > 1 || !t.fixed {
		return false
	}
	for _, n := range t.t.Tree.Root.Nodes {
		text := n.String()
		if n.Type() == parse.NodeText || slices.ContainsFunc(fields, func(f string) bool { return text == "{{."+f+"}}" }) {
			continue
		}
		if whole := dotForm.MatchString(text); whole || slices.ContainsFunc(fields, func(f string) bool { return strings.Contains(text, f) }) {
			return false
		}
	}
	return true
}

// dotForm matches a dot that means all values rather than a field.
var dotForm = regexp.MustCompile(`\.([^a-zA-Z0-9_]|$)|\$`)

// unsteady reports whether a template calls random functions.
func unsteady(t *template.Template) bool {
	if t.Tree == nil {
		return false
	}
	for _, name := range wordForm.FindAllString(t.Root.String(), -1) {
		if slices.Contains(random, name) {
			return true
		}
	}
	return false
}

var wordForm = regexp.MustCompile(`[a-zA-Z0-9_]+`)

// Uses reports whether the template names one of the functions.
func (t *TextTemplate) Uses(names ...string) bool {
	return slices.ContainsFunc(t.t.Templates(), func(x *template.Template) bool {
		return x.Tree != nil && slices.ContainsFunc(wordForm.FindAllString(x.Root.String(), -1), func(w string) bool { return slices.Contains(names, w) })
	})
}
