package sizing

import (
	"bytes"
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
