// Package gotext turns a template in Go's language, as kube-burner has them, into objects.
package gotext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"

	"fettle.dev/fettle/internal/kube/strict"
)

// Template is a parsed one.
type Template struct {
	file string
	t    *template.Template
}

// maxText caps what one template makes, in bytes.
const maxText = 4 << 20

// Parse parses a template. Of the functions there are Go's own and those of Functions.
func Parse(file, text string) (*Template, error) {
	t, err := template.New(file).Option("missingkey=error").Funcs(functions).Parse(text)
	if err != nil {
		message := strings.TrimPrefix(err.Error(), "template: ")
		if strings.Contains(message, "not defined") {
			message += "; there are Go's own functions and " + strings.Join(Functions(), ", ")
		}
		return nil, errors.New(message)
	}
	return &Template{file, t}, nil
}

// Functions are those of sprig that there are.
func Functions() []string { return slices.Sorted(maps.Keys(functions)) }

var functions = template.FuncMap{
	"add": func(all ...any) (int64, error) {
		sum := int64(0)
		for _, v := range all {
			n, err := whole(v)
			if err != nil {
				return 0, err
			}
			sum += n
		}
		return sum, nil
	},
	"sub": arithmetic(func(a, b int64) (int64, error) { return a - b, nil }),
	"mul": arithmetic(func(a, b int64) (int64, error) { return a * b, nil }),
	"div": arithmetic(func(a, b int64) (int64, error) {
		if b == 0 {
			return 0, errors.New("division by 0")
		}
		return a / b, nil
	}),
	"mod": arithmetic(func(a, b int64) (int64, error) {
		if b == 0 {
			return 0, errors.New("division by 0")
		}
		return a % b, nil
	}),
	"int":   whole,
	"quote": func(v any) string { return strconv.Quote(fmt.Sprint(v)) },
	"upper": strings.ToUpper,
	"lower": strings.ToLower,
	"default": func(fallback, v any) any {
		if v == nil || v == "" || v == 0 || v == false {
			return fallback
		}
		return v
	},
	"ternary": func(yes, no any, which bool) any {
		if which {
			return yes
		}
		return no
	},
}

func arithmetic(f func(a, b int64) (int64, error)) func(a, b any) (int64, error) {
	return func(a, b any) (int64, error) {
		x, err := whole(a)
		if err != nil {
			return 0, err
		}
		y, err := whole(b)
		if err != nil {
			return 0, err
		}
		return f(x, y)
	}
}

// whole is a number, or the number that a text is.
func whole(v any) (int64, error) {
	switch v := v.(type) {
	case int:
		return int64(v), nil
	case int64:
		return v, nil
	case float64:
		return int64(v), nil
	case string:
		return strconv.ParseInt(strings.TrimSpace(v), 10, 64)
	}
	return 0, fmt.Errorf("%v is no number", v)
}

// limited is a buffer that does not grow for ever.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxText {
		return 0, fmt.Errorf("it makes more than %d MiB", maxText>>20)
	}
	return l.Buffer.Write(p)
}

// Text executes the template.
func (t *Template) Text(values map[string]any) (string, error) {
	var out limited
	if err := t.t.Execute(&out, values); err != nil {
		return "", errors.New(strings.TrimPrefix(err.Error(), "template: "))
	}
	return out.String(), nil
}

// Objects executes the template and reads the objects that it makes.
func (t *Template) Objects(values map[string]any) ([]map[string]any, error) {
	text, err := t.Text(values)
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
		dec := json.NewDecoder(bytes.NewReader(whole))
		dec.UseNumber()
		if err := dec.Decode(&o); err != nil || o["kind"] == nil || o["apiVersion"] == nil {
			r.Fault(d, "want an object with apiVersion and kind")
			break
		}
		out = append(out, o)
	}
	return out, r.Err()
}

// Plain says that the template only writes these fields where they are named, each by
// itself, so that what it makes for one value differs from what it makes for another in
// nothing but the values.
func (t *Template) Plain(fields ...string) bool {
	if len(t.t.Templates()) > 1 {
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

// dotForm finds a dot that is all of the values, and not the beginning of a field.
var dotForm = regexp.MustCompile(`\.([^a-zA-Z0-9_]|$)|\$`)
