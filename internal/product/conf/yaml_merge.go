package conf

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/text"
)

// MaxYAMLSteps is the maximum number of keys of one file that Pairs reads.
const MaxYAMLSteps = 20000

// ErrYAMLTooMuch is returned if a file has more than MaxYAMLSteps keys, counting aliases.
var ErrYAMLTooMuch = text.Errorf("more than %d keys, counting those of aliases; shorten the file", MaxYAMLSteps)

// Pair is a key of a map with its value.
type Pair struct{ Key, Value *yaml.Node }

// Pairs returns the pairs of a map, each key once. A later key replaces an earlier one, and "<<"
// merges other maps at its position; in a list of maps the first takes precedence. Ruby's Psych and
// version 2 of Go's library (Kubernetes, etcd, Prometheus) do the same. Pairs subtracts the number
// of keys from left.
func Pairs(m *yaml.Node, left *int) ([]Pair, error) { return pairs(m, left, 0) }

func pairs(m *yaml.Node, left *int, depth int) ([]Pair, error) {
	var out []Pair
	at := map[string]int{}
	put := func(p Pair) {
		if i, ok := at[p.Key.Value]; ok {
			out[i] = p
			return
		}
		at[p.Key.Value] = len(out)
		out = append(out, p)
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		if *left--; *left < 0 || depth > maxYAMLDepth {
			return nil, ErrYAMLTooMuch
		}
		key, value := Aliased(m.Content[i]), m.Content[i+1]
		others := merged(key, value)
		if others == nil {
			put(Pair{key, value})
		}
		for _, other := range others {
			more, err := pairs(other, left, depth+1)
			if err != nil {
				return nil, err
			}
			for _, p := range more {
				put(p)
			}
		}
	}
	return out, nil
}

// merged returns the maps that "<<" merges, the one with precedence last; nil for any other key.
func merged(key, value *yaml.Node) []*yaml.Node {
	if key.Value != "<<" {
		return nil
	}
	if to := Aliased(value); to.Kind == yaml.MappingNode {
		return []*yaml.Node{to}
	}
	if value.Kind != yaml.SequenceNode {
		return nil
	}
	var all []*yaml.Node
	for _, c := range slices.Backward(value.Content) {
		if c = Aliased(c); c.Kind != yaml.MappingNode {
			return nil
		}
		all = append(all, c)
	}
	return all
}

// Aliased returns the node of an alias, or the node itself, which may be nil.
func Aliased(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}
