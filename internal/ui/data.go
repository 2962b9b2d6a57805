package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Data prints a document as JSON or YAML with the exit code and the messages. doc must marshal
// to a JSON object with a "schema".
func Data(s *Screen, doc any, exitCode int) error {
	body, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	messages := s.Messages
	if messages == nil {
		messages = []string{}
	}
	tail, err := json.Marshal(struct {
		ExitCode int      `json:"exit_code"`
		Messages []string `json:"messages"`
	}{exitCode, messages})
	if err != nil {
		return err
	}
	if len(body) < 2 || body[0] != '{' {
		return fmt.Errorf("cannot encode %T as a JSON object", doc)
	}
	s.Printed = true
	all := append(bytes.TrimSuffix(body, []byte("}")), ',')
	if len(body) == 2 {
		all = []byte("{")
	}
	all = append(all, tail[1:]...)
	if s.Series {
		s.Messages = nil
	}
	if s.Format == YAML {
		if s.Series {
			if _, err := io.WriteString(s.Out, "---\n"); err != nil {
				return err
			}
		}
		return writeYAML(s.Out, all)
	}
	var out bytes.Buffer
	if s.Series {
		out.Write(all)
	} else if err := json.Indent(&out, all, "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err = out.WriteTo(s.Out)
	return err
}

// writeYAML converts JSON text to YAML and prints it. It keeps the order of keys.
func writeYAML(w io.Writer, text []byte) error {
	var n yaml.Node
	if err := yaml.Unmarshal(text, &n); err != nil {
		return err
	}
	yamlStyle(&n)
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(&n); err != nil {
		return err
	}
	return enc.Close()
}

// yamlStyle selects block style, and omits quotes if every YAML reader reads the text as a
// string. The encoder follows YAML 1.2. YAML 1.1 (https://yaml.org/type/) needs more quotes.
func yamlStyle(n *yaml.Node) {
	quoted := n.Style&yaml.DoubleQuotedStyle != 0
	n.Style = 0
	if quoted && n.Kind == yaml.ScalarNode && yaml11(n.Value) {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		yamlStyle(c)
	}
}

// yaml11 reports whether YAML 1.1 may read a text as other than a string: a boolean, null,
// number (also of base 60, 190:20:30), date, or the keys "=" and "<<".
func yaml11(text string) bool {
	switch strings.ToLower(text) {
	case "", "~", "null", "y", "n", "yes", "no", "on", "off", "true", "false", "=", "<<":
		return true
	}
	return strings.ContainsRune("+-.0123456789", rune(text[0])) && strings.Trim(text, "+-.:_ 0123456789abcdefxABCDEFXTtZzinIN") == ""
}
