package format

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/kube/load/plan"
	"fettle.dev/fettle/kube/strict"
)

// expand is the text of a configuration with what is in {{ }} replaced. Its variables are
// those of the environment, those of the user's file, which override these, and UUID
// (kube-burner 2.7.3, pkg/config: its documentation has the environment before the file).
func (o *Options) expand(name string, text []byte) ([]byte, error) {
	if !strings.Contains(string(text), "{{") {
		return text, nil
	}
	values := map[string]any{}
	for _, e := range o.Env {
		key, value, _ := strings.Cut(e, "=")
		values[key] = value
	}
	if o.UserData != "" {
		of, err := o.userData()
		if err != nil {
			return nil, err
		}
		maps.Copy(values, of)
	}
	values["UUID"] = o.UUID
	t, err := plan.ParseText(name, string(text), plan.TextInputs{MissingZero: o.AllowMissing, Env: o.lookup, Now: time.Now().UTC()})
	if err != nil {
		return nil, err
	}
	out, err := t.Text(values, 0)
	if err != nil {
		if variable := plan.MissingKey(err); variable != "" {
			return nil, fmt.Errorf("%w: neither the environment nor --user-data has it; set it (%s=VALUE kubectl fettle load ...), or --allow-missing leaves it empty", err, variable)
		}
		if strings.Contains(err.Error(), "incompatible types for comparison") {
			err = fmt.Errorf("%w: variables of the environment are texts; --user-data FILE gives them types", err)
		}
		return nil, err
	}
	return []byte(out), nil
}

// lookup is a variable of the environment, "" for one that is not set.
func (o *Options) lookup(name string) (string, error) {
	for _, e := range o.Env {
		if key, value, _ := strings.Cut(e, "="); key == name {
			return value, nil
		}
	}
	return "", nil
}

// userData are the variables of the user's file, of JSON or of YAML.
func (o *Options) userData() (map[string]any, error) {
	text, err := o.Read(filepath.Clean(o.UserData))
	if err != nil {
		return nil, fmt.Errorf("--user-data: %w", err)
	}
	r := &strict.Reader{File: o.UserData}
	docs := r.Documents(text)
	if err := r.Err(); err != nil {
		return nil, err
	}
	if len(docs) != 1 || docs[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("--user-data %s: want one document of names and values", o.UserData)
	}
	raw := r.JSON(docs[0])
	if err := r.Err(); err != nil {
		return nil, err
	}
	values, err := plan.Variables(raw)
	if err != nil {
		return nil, err
	}
	return values(), nil
}

// set puts the values of --set into a configuration.
func (o *Options) set(r *strict.Reader, doc *yaml.Node) error {
	for _, pair := range o.Set {
		path, value, ok := strings.Cut(pair, "=")
		if path = strings.TrimSpace(path); !ok || path == "" {
			return fmt.Errorf("--set %s: want KEY=VALUE, as jobs.0.qps=20", pair)
		}
		var n yaml.Node
		if err := yaml.Unmarshal([]byte(value), &n); err != nil || len(n.Content) == 0 {
			n.Content = []*yaml.Node{{Kind: yaml.ScalarNode, Value: value, Style: yaml.DoubleQuotedStyle}}
		}
		n.Content[0].Line = doc.Line
		if err := put(doc, strings.Split(path, "."), n.Content[0]); err != nil {
			return fmt.Errorf("--set %s: %w", pair, err)
		}
	}
	return nil
}

// put sets the field of a path, and makes the mappings on the way that there are not.
func put(n *yaml.Node, path []string, value *yaml.Node) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	at := -1
	switch n.Kind {
	case yaml.SequenceNode:
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || i >= len(n.Content) {
			return fmt.Errorf("%s: want a number below %d, the length of the list", path[0], len(n.Content))
		}
		at = i
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == path[0] {
				at = i + 1
			}
		}
		if at < 0 {
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: path[0], Tag: "!!str", Line: n.Line}, &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: n.Line})
			at = len(n.Content) - 1
		}
	default:
		return fmt.Errorf("%s: there is %s, which has no fields", path[0], strict.Found(n))
	}
	if len(path) == 1 {
		n.Content[at] = value
		return nil
	}
	return put(n.Content[at], path[1:], value)
}

// keepInputs keeps with the load what its texts read of the environment and of files, so
// that a run can be resumed when those have changed.
func keepInputs(l *plan.Load, o Options) error {
	l.Env, l.Files = map[string]string{}, map[string]string{}
	in := plan.TextInputs{
		Helpers: l.Helpers, Now: l.ReadAt,
		Env: func(name string) (string, error) {
			value, err := o.lookup(name)
			l.Env[name] = value
			return value, err
		},
		File: func(name string) (string, error) {
			if !filepath.IsLocal(name) {
				return "", fmt.Errorf("ReadFile %s: files below the working directory or next to %s only: copy it there", name, l.File)
			}
			_, text, err := open(l.File, name, o.Read)
			l.Files[name] = string(text)
			return string(text), err
		},
	}
	var all []error
	for i := range l.Stages {
		s := &l.Stages[i]
		for _, text := range plan.Texts(l, s) {
			in.MissingZero = text.MissingZero
			t, err := plan.ParseText(text.File, text.Text, in)
			if err == nil && t.Uses("env", "expandenv", "ReadFile") {
				err = text.Render(t)
			}
			if err != nil {
				all = append(all, fmt.Errorf("%s: %w", text.At, err))
			}
		}
	}
	return errors.Join(all...)
}
