package satellite

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// entry is one value of a YAML file: a scalar, and the line of its key.
type entry struct {
	text string
	line int
}

// entries flattens the first document of a YAML file, which is all that Ruby's
// YAML.load reads: the keys of maps one below the other, joined by slashes; a list
// is its items' text with blanks between. What is null is left out.
func entries(text string) (map[string]entry, error) {
	var doc yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader([]byte(text))).Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) || strings.TrimSpace(text) == "" {
			return map[string]entry{}, nil // nothing but comments
		}
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	w := flattening{out: map[string]entry{}}
	return w.out, w.walk("", &doc, 0, 0)
}

// flattening is entries under way.
type flattening struct {
	out   map[string]entry
	steps int // aliases of aliases make much of little
}

var errTooMuch = errors.New("too much is in it")

func (w *flattening) step(depth int) error {
	if w.steps++; depth > 20 || w.steps > 20000 {
		return errTooMuch
	}
	return nil
}

func (w *flattening) walk(prefix string, n *yaml.Node, line, depth int) error {
	if err := w.step(depth); err != nil {
		return err
	}
	switch n.Kind {
	case yaml.DocumentNode:
		for _, c := range n.Content {
			if err := w.walk(prefix, c, line, depth+1); err != nil {
				return err
			}
		}
	case yaml.MappingNode:
		all, err := w.pairs(n, depth)
		if err != nil {
			return err
		}
		for _, p := range all {
			key := p.key.Value
			if prefix != "" {
				key = prefix + "/" + key
			}
			if err := w.walk(key, p.value, p.key.Line, depth+1); err != nil {
				return err
			}
		}
	case yaml.SequenceNode:
		var words []string
		for _, c := range n.Content {
			words = append(words, aliased(c).Value)
		}
		w.out[prefix] = entry{strings.Join(words, " "), line}
	case yaml.ScalarNode:
		if prefix != "" && n.Tag != "!!null" {
			w.out[prefix] = entry{n.Value, line}
		}
	case yaml.AliasNode:
		return w.walk(prefix, n.Alias, line, depth+1)
	}
	return nil
}

// pair is a key of a map with its value.
type pair struct{ key, value *yaml.Node }

// pairs are those of a map, each key once, as Ruby's Psych makes a Hash of it: the
// later one counts, and "<<" puts the pairs of other maps in at its place, over
// what stands before it. Of a list of maps the first one counts.
func (w *flattening) pairs(m *yaml.Node, depth int) ([]pair, error) {
	var out []pair
	at := map[string]int{}
	put := func(p pair) {
		if i, ok := at[p.key.Value]; ok {
			out[i] = p
			return
		}
		at[p.key.Value] = len(out)
		out = append(out, p)
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		if err := w.step(depth); err != nil {
			return nil, err
		}
		key, value := aliased(m.Content[i]), m.Content[i+1]
		for _, other := range merged(key, value) {
			more, err := w.pairs(other, depth+1)
			if err != nil {
				return nil, err
			}
			for _, p := range more {
				put(p)
			}
		}
		if merged(key, value) == nil {
			put(pair{key, value})
		}
	}
	return out, nil
}

// merged are the maps that a key puts into its own, the one that counts last; nil
// for any other key.
func merged(key, value *yaml.Node) []*yaml.Node {
	if key.Value != "<<" {
		return nil
	}
	if to := aliased(value); to.Kind == yaml.MappingNode {
		return []*yaml.Node{to}
	}
	if value.Kind != yaml.SequenceNode {
		return nil
	}
	var all []*yaml.Node
	for _, c := range slices.Backward(value.Content) {
		if c = aliased(c); c.Kind != yaml.MappingNode {
			return nil
		}
		all = append(all, c)
	}
	return all
}

func aliased(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}
