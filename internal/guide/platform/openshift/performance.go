package openshift

import (
	"cmp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// performanceProfile reads a PerformanceProfile (performance.openshift.io). From it the Node
// Tuning Operator renders Tuned, KubeletConfig, MachineConfig and RuntimeClass objects for the
// selected nodes.
func (t *collector) performanceProfile(d document) {
	where := d.get("spec", "nodeSelector")
	var labels []string
	for i := 0; where != nil && where.Kind == yaml.MappingNode && i+1 < len(where.Content); i += 2 {
		label := where.Content[i].Value
		if value := where.Content[i+1].Value; value != "" {
			label += "=" + value
		}
		labels = append(labels, label)
	}
	slices.Sort(labels)
	words := d.text("metadata", "name") + ": nodes with " + cmp.Or(strings.Join(labels, ", "), "no label")
	var cpus []string
	for _, use := range []string{"isolated", "reserved"} {
		if n := d.get("spec", "cpu", use); n != nil && n.Kind == yaml.ScalarNode && n.Value != "" {
			cpus = append(cpus, use+" "+n.Value)
		}
	}
	if len(cpus) > 0 {
		words += " (CPUs " + strings.Join(cpus, ", ") + ")"
	}
	t.performs = append(t.performs, words)
	t.performsAt = cmp.Or(t.performsAt, d.at(d.get("spec")))
}
