// Package strict reads YAML or JSON into Go values and refuses what these have no place
// for, with file and line and what is allowed there.
//
// The fields of a struct are named by the tag yaml, and further spellings by the tag also;
// names are compared without regard to case, as viper does, through which the files of
// Cluster Loader were read. A field At of type string gets FILE:LINE of what the struct is
// read from.
package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxFile caps a file, in bytes.
const MaxFile = 16 << 20

// maxProblems caps how many mistakes of a file are told.
const maxProblems = 30

// Reader reads one file. Its problems come together; Err has them all.
type Reader struct {
	File string

	problems []error
	more     int
	nodes    int
}

// FaultAt notes what is wrong at FILE:LINE.
func (r *Reader) FaultAt(at, format string, args ...any) {
	r.fail(fmt.Errorf("%s: %w", at, fmt.Errorf(format, args...)))
}

// Fault notes what is wrong at a node.
func (r *Reader) Fault(n *yaml.Node, format string, args ...any) {
	r.fail(fmt.Errorf("%s: %w", r.At(n), fmt.Errorf(format, args...)))
}

func (r *Reader) fail(err error) {
	if len(r.problems) >= maxProblems {
		r.more++
		return
	}
	r.problems = append(r.problems, err)
}

// At is FILE:LINE of a node.
func (r *Reader) At(n *yaml.Node) string { return fmt.Sprintf("%s:%d", r.File, n.Line) }

// Err is all that is wrong with the file; nil for nothing.
func (r *Reader) Err() error {
	if r.more > 0 {
		return errors.Join(append(r.problems, fmt.Errorf("%s: and %d mistakes more", r.File, r.more))...)
	}
	return errors.Join(r.problems...)
}

// Documents are the documents of a text that are not empty. A text that is neither YAML
// nor JSON is a problem of the reader.
func (r *Reader) Documents(data []byte) []*yaml.Node {
	if len(data) > MaxFile {
		r.fail(fmt.Errorf("%s: larger than %d MiB", r.File, MaxFile>>20))
		return nil
	}
	var docs []*yaml.Node
	for dec := yaml.NewDecoder(bytes.NewReader(untabbed(data))); ; {
		n := &yaml.Node{}
		if err := dec.Decode(n); errors.Is(err, io.EOF) {
			return docs
		} else if err != nil {
			text := strings.TrimPrefix(err.Error(), "yaml: ")
			if line, rest, ok := strings.Cut(strings.TrimPrefix(text, "line "), ": "); ok && strings.HasPrefix(text, "line ") {
				r.fail(fmt.Errorf("%s:%s: %s", r.File, line, rest))
			} else {
				r.fail(fmt.Errorf("%s: %s", r.File, text))
			}
			return nil
		}
		if len(n.Content) == 1 && n.Content[0].ShortTag() != "!!null" {
			docs = append(docs, n.Content[0])
		}
	}
}

// untabbed makes JSON that is indented with tabs into what YAML reads as well.
func untabbed(data []byte) []byte {
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(data) {
		return bytes.ReplaceAll(data, []byte("\t"), []byte(" ")) // within texts of JSON a tab is written \t
	}
	return data
}

// Get is the value of a key of a mapping, or nil; names are compared without regard to
// case.
func Get(n *yaml.Node, key string) *yaml.Node {
	for i := 0; n != nil && n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if strings.EqualFold(n.Content[i].Value, key) {
			if value := n.Content[i+1]; value.Kind == yaml.AliasNode {
				return value.Alias
			}
			return n.Content[i+1]
		}
	}
	return nil
}

// maxNodes caps what aliases may make of a file.
const maxNodes = 1_000_000

// JSON is a node as JSON; numbers are as they are written. A key that is there twice and
// what is no JSON are problems.
func (r *Reader) JSON(n *yaml.Node) json.RawMessage {
	before := len(r.problems) + r.more
	r.nodes = 0
	v := r.plain(n, 0)
	if len(r.problems)+r.more > before {
		return nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		r.Fault(n, "%w", err)
		return nil
	}
	return text
}

func (r *Reader) plain(n *yaml.Node, depth int) any {
	if r.nodes++; r.nodes > maxNodes || depth > 200 {
		if r.nodes == maxNodes+1 || r.nodes <= maxNodes {
			r.Fault(n, "too much is nested or repeated here")
		}
		return nil
	}
	switch n.Kind {
	case yaml.AliasNode:
		return r.plain(n.Alias, depth+1)
	case yaml.MappingNode:
		m := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			switch _, twice := m[key.Value]; {
			case key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge":
				r.Fault(key, "want a name here, found %s", Found(key))
			case twice:
				r.Fault(key, "%q is there twice", key.Value)
			default:
				m[key.Value] = r.plain(n.Content[i+1], depth+1)
			}
		}
		return m
	case yaml.SequenceNode:
		s := make([]any, 0, len(n.Content))
		for _, c := range n.Content {
			s = append(s, r.plain(c, depth+1))
		}
		return s
	}
	var v any
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return json.Number(n.Value)
		}
		if err := n.Decode(&v); err != nil {
			r.Fault(n, "%w", err)
		}
		return v
	case "!!binary":
		r.Fault(n, "binary values are not read here: write the base64 text without its tag")
	}
	return n.Value
}
