package plan

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/kube/strict"
)

// shape notes what of a Template is of another sort than it has to be.
func shape(r *strict.Reader, d *yaml.Node) {
	list(r, d, "objects", func(*yaml.Node, string) {})
	list(r, d, "parameters", func(p *yaml.Node, path string) {
		for i := 0; i+1 < len(p.Content); i += 2 {
			name, value := p.Content[i].Value, resolved(p.Content[i+1])
			switch strings.ToLower(name) {
			case "name", "displayname", "description", "generate", "from":
				wantText(r, value, path+"."+name)
			case "required":
				if tag := value.ShortTag(); tag != "!!bool" && tag != "!!null" {
					r.Fault(value, "%s.%s: want true or false, found %s", path, name, strict.Found(value))
				}
			}
		}
	})
	labels := strict.Get(d, "labels")
	switch {
	case labels == nil || labels.ShortTag() == "!!null":
	case labels.Kind != yaml.MappingNode:
		r.Fault(labels, "labels: want names and texts, found %s", strict.Found(labels))
	default:
		for i := 0; i+1 < len(labels.Content); i += 2 {
			wantText(r, resolved(labels.Content[i+1]), "labels."+labels.Content[i].Value)
		}
	}
}

// list calls each for the mappings of a list.
func list(r *strict.Reader, d *yaml.Node, field string, each func(item *yaml.Node, path string)) {
	n := strict.Get(d, field)
	if n == nil || n.ShortTag() == "!!null" {
		return
	}
	if n.Kind != yaml.SequenceNode {
		r.Fault(n, "%s: want a list, found %s", field, strict.Found(n))
		return
	}
	for i, item := range n.Content {
		path := fmt.Sprintf("%s[%d]", field, i)
		if item = resolved(item); item.Kind != yaml.MappingNode {
			r.Fault(item, "%s: want an object with its fields, found %s", path, strict.Found(item))
			continue
		}
		each(item, path)
	}
}

func wantText(r *strict.Reader, n *yaml.Node, path string) {
	if tag := n.ShortTag(); tag != "!!str" && tag != "!!null" {
		r.Fault(n, "%s: want a text, found %s: write it in quotes", path, strict.Found(n))
	}
}

func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}
