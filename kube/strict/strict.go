// Package strict reads YAML or JSON into Go values and refuses what these have no place
// for, with file and line and what is allowed there.
//
// The fields of a struct are named by the tag yaml, and further spellings by the tag also;
// names are compared without regard to case, as viper does, through which the files of
// Cluster Loader were read. A field At of type string gets FILE:LINE of what the struct is
// read from. Objects of a Kubernetes API are read as an API server takes them: see Objects.
package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxFile caps a file, in bytes, where a reader says nothing else.
const MaxFile = 16 << 20

// MaxProblems caps how many mistakes of a file are told.
const MaxProblems = 50

// Reader reads one file. Its problems come together; Err has them all.
type Reader struct {
	File string
	// Max caps the file, in bytes; 0 is MaxFile.
	Max int
	// API takes what an API server takes and nothing else: fields are named by the tag
	// json, in their own case, and have to be there unless the tag says that they may be
	// omitted; values have the type that is wanted. A field that is null is left out, as an
	// API server does. Texts that kubectl takes for true or false, items of a list that are
	// null, and aliases are refused.
	API bool
	// Empty are the fields of an object of an API in which every value may be null, since
	// others than the user write it.
	Empty []string

	// root is what the whole file is read into.
	root     reflect.Type
	problems []error
	more     int
	nodes    int
}

// Objects is a reader of objects of a Kubernetes API; max caps the file, in bytes.
func Objects(file string, max int) *Reader {
	return &Reader{File: file, Max: max, API: true, Empty: []string{"metadata", "status"}}
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
	if len(r.problems) >= MaxProblems {
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

// Head are the version and the kind of an object of an API, "" for those that are not
// there. False, and a problem of the reader, if the node is not a mapping.
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

// Object reads an object of an API, which has to have a name.
func (r *Reader) Object(n *yaml.Node, o interface{ GetName() string }) {
	r.Into(n, o)
	if o.GetName() == "" {
		r.Fault(n, "metadata.name is missing")
	}
}
