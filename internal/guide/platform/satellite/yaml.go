package satellite

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/product/conf"
)

// entry is a value of a YAML file: a scalar, and the line of its key.
type entry struct {
	text string
	line int
}

// entries flattens the first document of a YAML file, the only one that Ruby's YAML.load reads.
// Nested keys are joined by slashes, items of lists by blanks; nulls are omitted. A document that
// is not a map is an error.
func entries(text string) (map[string]entry, error) {
	var doc yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader([]byte(text))).Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) || strings.TrimSpace(text) == "" {
			return map[string]entry{}, nil // only comments
		}
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(doc.Content) > 0 {
		if top := conf.Aliased(doc.Content[0]); top.Kind != yaml.MappingNode && top.Tag != "!!null" {
			return nil, fmt.Errorf("line %d: want a map of keys and values, not a %s", top.Line, map[yaml.Kind]string{yaml.SequenceNode: "list", yaml.ScalarNode: "single value"}[top.Kind])
		}
	}
	w := flattening{out: map[string]entry{}, left: conf.MaxYAMLSteps}
	return w.out, w.walk("", &doc, 0, 0)
}

// flattening is the state of an entries call.
type flattening struct {
	out  map[string]entry
	left int // remaining steps, because nested aliases multiply
}

// words returns the scalars of a list, including nested lists.
func (w *flattening) words(n *yaml.Node, depth int) ([]string, error) {
	var words []string
	for _, c := range n.Content {
		if w.left--; depth > 20 || w.left < 0 {
			return nil, conf.ErrYAMLTooMuch
		}
		c = conf.Aliased(c)
		if c.Kind != yaml.SequenceNode {
			words = append(words, c.Value)
			continue
		}
		more, err := w.words(c, depth+1)
		if err != nil {
			return nil, err
		}
		words = append(words, more...)
	}
	return words, nil
}

func (w *flattening) walk(prefix string, n *yaml.Node, line, depth int) error {
	if w.left--; depth > 20 || w.left < 0 {
		return conf.ErrYAMLTooMuch
	}
	switch n.Kind {
	case yaml.DocumentNode:
		for _, c := range n.Content {
			if err := w.walk(prefix, c, line, depth+1); err != nil {
				return err
			}
		}
	case yaml.MappingNode:
		all, err := conf.Pairs(n, &w.left)
		if err != nil {
			return err
		}
		for _, p := range all {
			key := p.Key.Value
			if prefix != "" {
				key = prefix + "/" + key
			}
			if err := w.walk(key, p.Value, p.Key.Line, depth+1); err != nil {
				return err
			}
		}
	case yaml.SequenceNode:
		words, err := w.words(n, depth)
		if err != nil {
			return err
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
