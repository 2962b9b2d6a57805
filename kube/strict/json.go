package strict

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxNodes limits the nodes after expanding aliases.
const maxNodes = 1_000_000

// JSON returns a node as JSON, with numbers as written. For duplicate keys, and values that JSON
// cannot express, it records a problem and returns nil.
func (r *Reader) JSON(n *yaml.Node) json.RawMessage { return r.json(n, "") }

// json returns a node as JSON; path names it in messages.
func (r *Reader) json(n *yaml.Node, path string) json.RawMessage {
	before := len(r.problems) + r.more
	r.nodes = 0
	v := r.plain(n, path, 0)
	if len(r.problems)+r.more > before {
		return nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		r.Fault(n, "%s%w", lead(path), err)
		return nil
	}
	return text
}

func (r *Reader) plain(n *yaml.Node, path string, depth int) any {
	if r.nodes++; r.nodes > maxNodes || depth > 200 {
		if r.nodes == maxNodes+1 || r.nodes <= maxNodes {
			r.Fault(n, "%stoo deeply nested, or too many aliases", lead(path))
		}
		return nil
	}
	switch n.Kind {
	case yaml.AliasNode:
		if r.API {
			r.unaliased(n, path)
			return nil
		}
		return r.plain(n.Alias, path, depth+1)
	case yaml.MappingNode:
		m := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			switch _, twice := m[key.Value]; {
			case key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" || r.API && isTruth(key):
				r.Fault(key, "%swant a field name, found %s", lead(path), Found(key))
			case twice:
				r.Fault(key, "%s%q is given twice", lead(path), key.Value)
			default:
				m[key.Value] = r.plain(n.Content[i+1], path, depth+1)
			}
		}
		return m
	case yaml.SequenceNode:
		s := make([]any, 0, len(n.Content))
		for _, c := range n.Content {
			s = append(s, r.plain(c, path, depth+1))
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
		if r.API {
			r.Fault(n, "%swant a decimal number, found %s", lead(path), n.Value)
			return nil
		}
		if err := n.Decode(&v); err != nil {
			r.Fault(n, "%s%w", lead(path), err)
		}
		return v
	case "!!binary":
		r.Fault(n, "%sbinary values are not supported; write the base64 string without its tag", lead(path))
	}
	if r.API && isTruth(n) {
		r.Fault(n, "%skubectl reads %s as true or false: write true or false%s", lead(path), n.Value, strings.Replace(quote(n), ": write", ", or the text", 1))
	}
	return n.Value
}

// fromJSON converts valid JSON to YAML nodes.
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
		panic(fmt.Sprintf("valid JSON cannot be read: %v", err)) // json.Valid has accepted it
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

// Pair is a name and its text; Text is nil without a value.
type Pair struct {
	Name string
	Text *string
	At   string
}

// Pairs are names and texts in file order, from a mapping or a list of mappings.
type Pairs []Pair

// Map returns the pairs as a map; pairs without a value map to "".
func (p Pairs) Map() map[string]string {
	if len(p) == 0 {
		return nil
	}
	m := make(map[string]string, len(p))
	for _, x := range p {
		if m[x.Name] = ""; x.Text != nil {
			m[x.Name] = *x.Text
		}
	}
	return m
}

// pairs decodes names and texts from a mapping or a list of mappings.
func (r *Reader) pairs(n *yaml.Node, path string) Pairs {
	var out Pairs
	switch {
	case n.Kind == yaml.SequenceNode:
		for _, item := range n.Content {
			if item.Kind == yaml.AliasNode {
				item = item.Alias
			}
			if item.Kind != yaml.MappingNode {
				r.Fault(item, "%s: want NAME: TEXT, found %s", path, Found(item))
				continue
			}
			out = append(out, r.pairs(item, path)...)
		}
	case n.ShortTag() == "!!null":
		return nil
	case n.Kind != yaml.MappingNode:
		r.Fault(n, "%s: want a map of strings, found %s", path, Found(n))
		return nil
	default:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			if value.Kind == yaml.AliasNode {
				value = value.Alias
			}
			if key.Kind != yaml.ScalarNode || value.Kind != yaml.ScalarNode {
				r.Fault(value, "%s: want NAME: TEXT, found %s", path, Found(value))
				continue
			}
			p := Pair{Name: key.Value, At: r.At(key)}
			if value.ShortTag() != "!!null" {
				p.Text = &value.Value
			}
			out = append(out, p)
		}
	}
	for i, p := range out {
		if slices.ContainsFunc(out[:i], func(q Pair) bool { return q.Name == p.Name }) {
			r.Fault(n, "%s: %q is given twice", path, p.Name)
			return nil
		}
	}
	return out
}
