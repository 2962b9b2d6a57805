// Package strict decodes YAML or JSON files into Go values. It rejects everything unknown, with
// file, line and the allowed alternatives.
//
// The tag yaml names a struct's field, the tag also lists further spellings. Case is ignored, as in
// viper, which Cluster Loader used. A string field At receives the FILE:LINE of its struct. Objects
// reads Kubernetes API objects like an API server.
package strict

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/text"
)

// MaxFile is the default maximum size of a file, in bytes.
const MaxFile = 16 << 20

// MaxProblems limits the reported problems of a file.
const MaxProblems = 50

// Reader decodes one file and collects its problems; Err returns them.
type Reader struct {
	File string
	// Max limits the file, in bytes; 0 means MaxFile.
	Max int
	// API accepts only what an API server accepts: JSON field names with case, required fields
	// (without omitempty), and exact types. Null fields are dropped. Texts that kubectl reads as
	// booleans, null list items, and aliases are rejected.
	API bool
	// Empty are the fields of an API object below which null is allowed everywhere, because
	// programs write them.
	Empty []string

	// root is the type into which the whole file is decoded.
	root     reflect.Type
	problems []error
	more     int
	nodes    int
}

// Objects returns a reader for Kubernetes API objects; max limits the file, in bytes.
func Objects(file string, max int) *Reader {
	return &Reader{File: file, Max: max, API: true, Empty: []string{"metadata", "status"}}
}

// FaultAt records a problem at FILE:LINE.
func (r *Reader) FaultAt(at, format string, args ...any) {
	r.fail(fmt.Errorf("%s: %w", at, text.Errorf(format, args...)))
}

// Fault records a problem at a node.
func (r *Reader) Fault(n *yaml.Node, format string, args ...any) {
	r.fail(fmt.Errorf("%s: %w", r.At(n), text.Errorf(format, args...)))
}

func (r *Reader) fail(err error) {
	if len(r.problems) >= MaxProblems {
		r.more++
		return
	}
	r.problems = append(r.problems, err)
}

// At returns the FILE:LINE of a node.
func (r *Reader) At(n *yaml.Node) string { return fmt.Sprintf("%s:%d", r.File, n.Line) }

// Err returns all problems of the file, or nil.
func (r *Reader) Err() error {
	if r.more > 0 {
		return errors.Join(append(r.problems, fmt.Errorf("%s: and %s", r.File, text.Count(r.more, "more mistake")))...)
	}
	return errors.Join(r.problems...)
}

// Documents returns the nonempty documents of a text. It records a problem for a text that is not
// YAML or JSON.
func (r *Reader) Documents(data []byte) []*yaml.Node {
	most := MaxFile
	if r.Max > 0 {
		most = r.Max
	}
	if len(data) > most {
		r.fail(fmt.Errorf("%s: larger than %d MiB", r.File, most>>20))
		return nil
	}
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(data) {
		return []*yaml.Node{fromJSON(data)}
	}
	var docs []*yaml.Node
	for dec := yaml.NewDecoder(bytes.NewReader(data)); ; {
		n := &yaml.Node{}
		if err := dec.Decode(n); errors.Is(err, io.EOF) {
			return docs
		} else if err != nil {
			r.fail(Typed(r.File, data, err))
			return nil
		}
		if len(n.Content) == 1 && n.Content[0].ShortTag() != "!!null" {
			docs = append(docs, n.Content[0])
		}
	}
}

// Get returns the value of a mapping's key, or nil; it ignores case.
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

// Head returns an API object's version and kind, "" if missing. If the node is not a mapping, it
// records a problem; ok is false.
func (r *Reader) Head(n *yaml.Node) (version, kind string, ok bool) {
	if n.Kind != yaml.MappingNode {
		r.Fault(n, "want an object, found %s", Found(n))
		return "", "", false
	}
	if v := Get(n, "apiVersion"); v != nil {
		version = v.Value
	}
	if k := Get(n, "kind"); k != nil {
		kind = k.Value
	}
	return version, kind, true
}

// Object decodes an API object. An object without a name is a problem.
func (r *Reader) Object(n *yaml.Node, o interface{ GetName() string }) {
	r.Into(n, o)
	if o.GetName() == "" {
		r.Fault(n, "metadata.name is missing")
	}
}

// Item is an API object of a file, with its version and kind; "" if missing.
type Item struct {
	*yaml.Node
	Version, Kind string
}

// Items returns the objects of a file, with the items of each List in its place. typed are the
// versions and kinds of further lists, whose items may omit both.
func (r *Reader) Items(data []byte, typed ...Item) (out []Item) {
	for _, n := range r.Documents(data) {
		version, kind, ok := r.Head(n)
		switch {
		case !ok:
		case version == "v1" && kind == "List":
			out = append(out, r.items(n, Item{})...)
		case slices.Contains(typed, Item{nil, version, kind}):
			out = append(out, r.items(n, Item{nil, version, strings.TrimSuffix(kind, "List")})...)
		default:
			out = append(out, Item{n, version, kind})
		}
	}
	return out
}

// items returns the items of a list; those without version or kind get those of like.
func (r *Reader) items(list *yaml.Node, like Item) (out []Item) {
	seen := map[string]bool{}
	for i := 0; i+1 < len(list.Content); i += 2 {
		key, value := list.Content[i], list.Content[i+1]
		twice := seen[key.Value]
		seen[key.Value] = true
		switch {
		case twice:
			r.Fault(key, "%q is given twice", key.Value)
		case slices.Contains([]string{"apiVersion", "kind", "metadata"}, key.Value):
		case key.Value != "items":
			r.Fault(key, "%q is not a field of a list; want items", key.Value)
		case value.Kind != yaml.SequenceNode:
			r.Fault(value, "items: want a list, found %s", Found(value))
		default:
			for _, n := range value.Content {
				version, kind, ok := r.Head(n)
				switch {
				case !ok:
				case strings.HasSuffix(kind, "List"):
					r.Fault(n, "items: a list must not contain another list")
				default:
					out = append(out, Item{n, cmp.Or(version, like.Version), cmp.Or(kind, like.Kind)})
				}
			}
		}
	}
	return out
}
