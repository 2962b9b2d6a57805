package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/strict"
)

// ObjectTemplate is a Template of OpenShift. Process creates its objects like oc process, but
// without a server: parameters with values, generated parameters, and the labels of the template
// (OpenShift documentation, Images, Using templates).
type ObjectTemplate struct {
	Parameters []Parameter
	Labels     map[string]string
	Objects    []map[string]any
}

// Parameter is a parameter of a template.
type Parameter struct {
	Name  string
	Value string
	// From is the expression that generates the value; "" for a fixed value.
	From     string
	Required bool
}

// ParseObject reads a Template; JSON or YAML. Errors have file and line.
func ParseObject(file string, text []byte) (*ObjectTemplate, error) {
	r := &strict.Reader{File: file}
	docs := r.Documents(text)
	if err := r.Err(); err != nil {
		return nil, err
	}
	if len(docs) != 1 {
		return nil, fmt.Errorf("%s: want one Template, found %d documents", file, len(docs))
	}
	d := docs[0]
	kind, version := strict.Get(d, "kind"), strict.Get(d, "apiVersion")
	switch {
	case kind == nil || kind.Value != "Template":
		found := &yaml.Node{Value: "none"}
		return nil, fmt.Errorf("%s: want an object of kind Template, found %s", r.At(d), cmp.Or(kind, found).Value)
	case version == nil || version.Value != "v1" && version.Value != "template.openshift.io/v1":
		return nil, fmt.Errorf("%s: want apiVersion template.openshift.io/v1, or v1", r.At(d))
	}
	var in struct {
		Parameters []struct {
			Name, DisplayName, Description, Generate, From string
			Value                                          any
			Required                                       bool
		}
		Labels  map[string]string
		Objects []map[string]any
	}
	shape(r, d)
	whole := r.JSON(d)
	if err := r.Err(); err != nil {
		return nil, err
	}
	if err := decodeJSON(whole, &in); err != nil {
		return nil, fmt.Errorf("%s: %w", r.At(d), err)
	}
	t := &ObjectTemplate{Labels: in.Labels, Objects: in.Objects}
	at := strict.Get(d, "parameters")
	for i, p := range in.Parameters {
		where := r.At(at.Content[i])
		switch {
		case !nameForm.MatchString(p.Name):
			return nil, fmt.Errorf("%s: parameter %q: want letters, digits and _ as its name", where, p.Name)
		case p.Generate != "" && p.Generate != "expression":
			return nil, fmt.Errorf("%s: parameter %s: generate: want expression, found %q", where, p.Name, p.Generate)
		case p.Generate == "" && p.From != "":
			return nil, fmt.Errorf("%s: parameter %s: from is only valid with generate: expression", where, p.Name)
		}
		if p.Generate != "" {
			if _, err := parseExpression(p.From); err != nil {
				return nil, fmt.Errorf("%s: parameter %s: from: %w", where, p.Name, err)
			}
		}
		value := ""
		switch v := p.Value.(type) {
		case nil:
		case string:
			value = v
		case json.Number, bool:
			value = fmt.Sprint(v)
		default:
			return nil, fmt.Errorf("%s: parameter %s: value: want a string", where, p.Name)
		}
		if slices.ContainsFunc(t.Parameters, func(q Parameter) bool { return q.Name == p.Name }) {
			return nil, fmt.Errorf("%s: parameter %s is given twice", where, p.Name)
		}
		t.Parameters = append(t.Parameters, Parameter{Name: p.Name, Value: value, From: p.From, Required: p.Required})
	}
	for i, o := range t.Objects {
		if _, ok := o["kind"].(string); !ok {
			return nil, fmt.Errorf("%s: objects[%d] has no kind", r.At(strict.Get(d, "objects").Content[i]), i)
		}
	}
	return t, nil
}

var nameForm = regexp.MustCompile(`^[a-zA-Z0-9_]+$`)

// Has reports whether the template has a parameter.
func (t *ObjectTemplate) Has(name string) bool {
	return slices.ContainsFunc(t.Parameters, func(p Parameter) bool { return p.Name == name })
}

// Check returns an error for values that belong to no parameter of the template, and for
// required parameters without a value.
func (t *ObjectTemplate) Check(given map[string]string) error {
	var names []string
	for _, p := range t.Parameters {
		names = append(names, p.Name)
	}
	var all []error
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !t.Has(name) {
			near := text.Suggest(name, names)
			if near == "" {
				near = ": it has " + strings.Join(names, ", ")
			}
			all = append(all, fmt.Errorf("the template has no parameter %s%s", name, near))
		}
	}
	for _, p := range t.Parameters {
		if value, ok := given[p.Name]; p.Required && p.From == "" && (ok && value == "" || !ok && p.Value == "") {
			all = append(all, fmt.Errorf("the template's parameter %s is required and has no value", p.Name))
		}
	}
	return errors.Join(all...)
}

// Values returns the values of all parameters: given, the template's own, or generated. number
// returns a parameter's source of 64 random bits.
func (t *ObjectTemplate) Values(given map[string]string, number func(parameter string) func() uint64) map[string]string {
	all := make(map[string]string, len(t.Parameters))
	for _, p := range t.Parameters {
		value, ok := given[p.Name]
		switch {
		case ok:
		case p.Value != "" || p.From == "":
			value = p.Value
		default:
			e, _ := parseExpression(p.From) // Parse has validated it
			value = e.generate(number(p.Name))
		}
		all[p.Name] = value
	}
	return all
}

// Generated returns the names of the parameters whose values are generated.
func (t *ObjectTemplate) Generated(given map[string]string) []string {
	var names []string
	for _, p := range t.Parameters {
		if _, ok := given[p.Name]; !ok && p.Value == "" && p.From != "" {
			names = append(names, p.Name)
		}
	}
	return names
}

// Process returns the template's objects with all values substituted. It drops namespaces unless a
// parameter sets them, because the caller decides the namespace.
func (t *ObjectTemplate) Process(values map[string]string) []map[string]any {
	out := make([]map[string]any, 0, len(t.Objects))
	for _, o := range t.Objects {
		meta, _ := o["metadata"].(map[string]any)
		own, _ := meta["namespace"].(string)
		made := substitute(o, values).(map[string]any)
		meta = metadata(made)
		if own != "" && !stringForm.MatchString(own) {
			delete(meta, "namespace")
		}
		for name, value := range t.Labels {
			label(meta, "labels", templateText(name, values), templateText(value, values))
		}
		out = append(out, made)
	}
	return out
}

var (
	// ${NAME} is replaced within a text. A text that is exactly ${{NAME}} becomes the value's
	// number, boolean or list.
	stringForm = regexp.MustCompile(`\$\{([a-zA-Z0-9_]+)\}`)
	valueForm  = regexp.MustCompile(`^\$\{\{([a-zA-Z0-9_]+)\}\}$`)
)

func templateText(s string, values map[string]string) string {
	if !strings.Contains(s, "${") {
		return s
	}
	return stringForm.ReplaceAllStringFunc(s, func(place string) string {
		if value, ok := values[place[2:len(place)-1]]; ok {
			return value
		}
		return place
	})
}

func substitute(v any, values map[string]string) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for key, value := range v {
			m[templateText(key, values)] = substitute(value, values)
		}
		return m
	case []any:
		s := make([]any, len(v))
		for i, value := range v {
			s[i] = substitute(value, values)
		}
		return s
	case string:
		if place := valueForm.FindStringSubmatch(v); place != nil {
			if value, ok := values[place[1]]; ok {
				var out any
				if decodeJSON([]byte(value), &out) == nil {
					return out
				}
				return value
			}
			return v
		}
		return templateText(v, values)
	}
	return v
}
