package sizing

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// YAML writes documents one behind the other, with a comment above the first. Each
// is a struct of ours, so that a key that it does not have cannot be written.
func YAML(comment string, docs ...any) (string, error) {
	var b bytes.Buffer
	for line := range strings.Lines(comment) {
		b.WriteString("# " + strings.TrimSuffix(line, "\n") + "\n")
	}
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	for _, d := range docs {
		if err := enc.Encode(d); err != nil {
			return "", err
		}
	}
	if err := enc.Close(); err != nil {
		return "", err
	}
	return b.String(), nil
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
