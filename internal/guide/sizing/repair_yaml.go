package sizing

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// dotted splits the path of a field: "systemReserved.cpu".
func dotted(l line) []string { return strings.Split(l.Name, ".") }

// yaml returns a document with the fields in head and the lines. way returns the path of a line.
func (f *file) yaml(head [][2]string, way func(line) []string, what string) (string, error) {
	root := &yaml.Node{Kind: yaml.MappingNode}
	for _, h := range head {
		root.Content = append(root.Content, repairText(h[0]), repairText(h[1]))
	}
	for _, l := range f.lines {
		at := root
		keys := way(l)
		for _, k := range keys[:len(keys)-1] {
			next := field(at, k)
			if next == nil {
				next = &yaml.Node{Kind: yaml.MappingNode}
				at.Content = append(at.Content, repairText(k), next)
			}
			if next.Kind != yaml.MappingNode {
				return "", fmt.Errorf("%s: cannot be added below %s, which already has a single value (not a mapping)", l.Name, k)
			}
			at = next
		}
		key := repairText(keys[len(keys)-1])
		key.HeadComment = "# " + l.why
		at.Content = append(at.Content, key, scalar(l.Value))
	}
	return YAML(written+"\n"+what, root)
}

// field returns the value of a key of a mapping, or nil.
func field(m *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == name {
			return m.Content[i+1]
		}
	}
	return nil
}

func repairText(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	return n
}

// scalar returns a value with the type that YAML gives the text: 64 is a number, 4096MB a string.
func scalar(s string) *yaml.Node {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(s), &doc); err == nil && len(doc.Content) == 1 && doc.Content[0].Kind == yaml.ScalarNode && doc.Content[0].Value == s {
		return doc.Content[0]
	}
	return repairText(s)
}
