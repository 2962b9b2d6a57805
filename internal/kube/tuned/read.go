package tuned

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/spell"
)

// Objects are those of a file, in its order.
type Objects struct {
	Tuneds   []Tuned
	Profiles []Profile
}

// maxFile caps a file, in bytes: an API server takes a few megabytes of one
// object.
const maxFile = 32 << 20

// maxProblems caps how many mistakes of a file are told.
const maxProblems = 50

// Read reads the Tuned and Profile objects of a file, YAML documents or JSON,
// lists of objects included. It takes what an API server takes and nothing else:
// every field that there is not, every value of another type, every field that is
// missing is an error with file, line and field. So are texts that YAML 1.1 (and
// with it kubectl) takes for true or false, and aliases.
func Read(file string, data []byte) (Objects, error) {
	r := &reading{file: file}
	if len(data) > maxFile {
		return Objects{}, fmt.Errorf("%s: larger than %d MiB", file, maxFile>>20)
	}
	docs, err := documents(data)
	if err != nil {
		return Objects{}, fmt.Errorf("%s: %w", file, err)
	}
	for _, d := range docs {
		r.document(d, "", "")
	}
	if len(r.problems) > maxProblems {
		more := len(r.problems) - maxProblems
		r.problems = append(r.problems[:maxProblems], fmt.Errorf("%s: and %d mistakes more", file, more))
	}
	if err := errors.Join(r.problems...); err != nil {
		return Objects{}, err
	}
	return r.Objects, nil
}

func documents(data []byte) ([]*yaml.Node, error) {
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(data) {
		return []*yaml.Node{fromJSON(data)}, nil
	}
	var docs []*yaml.Node
	for dec := yaml.NewDecoder(bytes.NewReader(data)); ; {
		n := &yaml.Node{}
		if err := dec.Decode(n); errors.Is(err, io.EOF) {
			return docs, nil
		} else if err != nil {
			return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
		}
		if len(n.Content) == 1 && n.Content[0].ShortTag() != "!!null" { // "---" with nothing behind it
			docs = append(docs, n.Content[0])
		}
	}
}

// reading is one call of Read.
type reading struct {
	Objects
	file     string
	problems []error
}

func (r *reading) fault(n *yaml.Node, format string, args ...any) {
	r.problems = append(r.problems, fmt.Errorf("%s:%d: %w", r.file, n.Line, fmt.Errorf(format, args...)))
}

// document reads an object or a list. The items of a list of one kind need not
// repeat the list's kind and version.
func (r *reading) document(n *yaml.Node, kind, version string) {
	if n.Kind != yaml.MappingNode {
		r.fault(n, "want an object, found %s", found(n))
		return
	}
	if k := get(n, "kind"); k != nil {
		kind = k.Value
	}
	if v := get(n, "apiVersion"); v != nil {
		version = v.Value
	}
	ours := GroupVersion.String()
	switch {
	case kind == "List" && version == "v1":
		r.list(n, "", "")
	case version == ours && (kind == "TunedList" || kind == "ProfileList"):
		r.list(n, strings.TrimSuffix(kind, "List"), version)
	case version == ours && kind == "Tuned":
		var t Tuned
		r.into(n, reflect.ValueOf(&t).Elem(), "", "")
		r.named(n, t.Name)
		t.Kind, t.APIVersion = kind, version
		r.Tuneds = append(r.Tuneds, t)
	case version == ours && kind == "Profile":
		var p Profile
		r.into(n, reflect.ValueOf(&p).Elem(), "", "")
		r.named(n, p.Name)
		p.Kind, p.APIVersion = kind, version
		r.Profiles = append(r.Profiles, p)
	case kind == "" || version == "":
		r.fault(n, "apiVersion or kind is missing: want %s and Tuned or Profile", ours)
	default:
		r.fault(n, "%s of %s: want Tuned or Profile of %s%s", kind, version, ours, spell.Suggest(kind, []string{"Tuned", "Profile"}))
	}
}

func (r *reading) named(n *yaml.Node, name string) {
	if name == "" {
		r.fault(n, "metadata.name is missing")
	}
}

func (r *reading) list(n *yaml.Node, kind, version string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch key, value := n.Content[i], n.Content[i+1]; key.Value {
		case "apiVersion", "kind", "metadata":
		case "items":
			if value.Kind != yaml.SequenceNode {
				r.fault(value, "items: want a list, found %s", found(value))
				continue
			}
			for _, item := range value.Content {
				if k := get(item, "kind"); k != nil && strings.HasSuffix(k.Value, "List") {
					r.fault(item, "a list in a list")
					continue
				}
				r.document(item, kind, version)
			}
		default:
			r.fault(key, "a list has no %q", key.Value)
		}
	}
}

// get is the value of a key of a mapping, or nil.
func get(n *yaml.Node, key string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// fromJSON turns valid JSON into the nodes that YAML has.
func fromJSON(data []byte) *yaml.Node {
	j := &jsonNodes{Decoder: json.NewDecoder(bytes.NewReader(data)), data: data, line: 1}
	j.UseNumber()
	return j.node()
}

type jsonNodes struct {
	*json.Decoder
	data     []byte
	at, line int
}

func (j *jsonNodes) node() *yaml.Node {
	token, err := j.Token()
	if err != nil {
		panic(fmt.Sprintf("valid JSON cannot be read: %v", err)) // json.Valid has seen it
	}
	end := int(j.InputOffset())
	j.line += bytes.Count(j.data[j.at:end], []byte("\n"))
	j.at = end
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: j.line}
	switch t := token.(type) {
	case json.Delim:
		n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		if t == '{' {
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
		}
		for j.More() {
			n.Content = append(n.Content, j.node())
		}
		_, _ = j.Token()
	case string:
		n.Tag, n.Value, n.Style = "!!str", t, yaml.DoubleQuotedStyle
	case json.Number:
		n.Tag, n.Value = "!!int", t.String()
		if strings.ContainsAny(n.Value, ".eE") {
			n.Tag = "!!float"
		}
	case bool:
		n.Tag, n.Value = "!!bool", fmt.Sprint(t)
	default:
		n.Tag, n.Value = "!!null", "null"
	}
	return n
}
