package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/kube/load/plan"
	"fettle.dev/fettle/kube/strict"
)

// text reads the template of an object and its variables.
func (o *object) text(r *strict.Reader, l *plan.Load, j *job, from Options) (name, text string, variables json.RawMessage, ok bool) {
	name, raw, err := open(r.File, o.ObjectTemplate, from.Read)
	if err != nil {
		r.FaultAt(o.At, "%w", err)
		return "", "", nil, false
	}
	variables = json.RawMessage("{}")
	if o.InputVars != nil {
		if o.InputVars.Kind != yaml.MappingNode {
			r.Fault(o.InputVars, "inputVars: want names and values, found %s", strict.Found(o.InputVars))
			return "", "", nil, false
		}
		variables = r.JSON(o.InputVars)
	}
	return name, string(raw), variables, true
}

func open(of, name string, read func(string) ([]byte, error)) (string, []byte, error) {
	if strings.Contains(name, "://") {
		return "", nil, fmt.Errorf("%s: templates are read from files only: save it next to %s", name, of)
	}
	text, err := read(filepath.Clean(name))
	if errors.Is(err, fs.ErrNotExist) && !filepath.IsAbs(name) {
		sibling := filepath.Join(filepath.Dir(of), name)
		if text, err = read(sibling); err == nil {
			return sibling, text, nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, fmt.Errorf("%s not found, neither here nor next to %s", name, of)
	}
	return filepath.Clean(name), text, err
}
