package openshift

import (
	"errors"
	"slices"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/product/conf"
)

// merge resolves "<<" as oc and the installer do (sigs.k8s.io/yaml). If they would fail, it
// returns the error and its line. left is the remaining number of merge steps.
func merge(n *yaml.Node, left *int) (line int, err error) {
	for _, c := range n.Content { // an alias has none: its target is merged instead
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
			return p.Key.Line, errors.New(`"<<" needs a map, or a list of maps`)
		}
		n.Content = append(n.Content, p.Key, p.Value)
	}
	return 0, nil
}
