package sizing

import (
	"bytes"
	"errors"
	"strings"

	"go.yaml.in/yaml/v3"
)

// YAML returns a document as YAML with a comment above it.
func YAML(comment string, document any) (string, error) {
	b := bytes.NewBufferString(Comment(comment))
	enc := yaml.NewEncoder(b)
	enc.SetIndent(2)
	err := errors.Join(enc.Encode(document), enc.Close())
	return b.String(), err
}

// Comment returns the lines of a text as comments of YAML.
func Comment(text string) string {
	if text == "" {
		return ""
	}
	return "# " + strings.ReplaceAll(text, "\n", "\n# ") + "\n"
}
