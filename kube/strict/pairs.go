package strict

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// Pair is a name and its text. Text is nil where the file has no value.
type Pair struct {
	Name string
	Text *string
	At   string
}

// Pairs are names and texts in the file's order: a mapping, or a list of mappings.
type Pairs []Pair

// Map are the pairs; those without a value are empty.
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

// pairs reads names and texts.
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
		r.Fault(n, "%s: want names and texts, found %s", path, Found(n))
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
			r.Fault(n, "%s: %q is there twice", path, p.Name)
			return nil
		}
	}
	return out
}
