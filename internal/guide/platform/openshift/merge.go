package openshift

import (
	"errors"
	"slices"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/product/conf"
)

// merge puts the pairs of other maps in where "<<" asks for them, as oc and the
// installer do (sigs.k8s.io/yaml). What they would refuse is an error, with its line.
// left are the steps that merges may still take.
func merge(n *yaml.Node, left *int) (line int, err error) {
	for _, c := range n.Content { // an alias has none: what it stands for is merged at its own place
		if line, err := merge(c, left); err != nil {
			return line, err
		}
	}
	asks := func(key *yaml.Node) bool { return key.Kind == yaml.ScalarNode && key.Tag == "!!merge" }
	if n.Kind != yaml.MappingNode || !slices.ContainsFunc(n.Content, asks) {
		return 0, nil
	}
	all, err := conf.Pairs(n, left)
	if err != nil {
		return n.Line, err
	}
	n.Content = nil
	for _, p := range all {
		if asks(p.Key) {
			return p.Key.Line, errors.New(`"<<" has to have a map, or a list of maps`)
		}
		n.Content = append(n.Content, p.Key, p.Value)
	}
	return 0, nil
}
