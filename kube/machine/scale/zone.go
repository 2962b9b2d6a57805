package scale

import (
	"strings"

	"fettle.dev/fettle/kube/machine"
)

// zoneLabel is a node's.
const zoneLabel = "topology.kubernetes.io/zone"

// zoneOf is the zone of the machines of a set, or of their nodes, or of those that it would
// make; "" if it is unknown.
func (p *planner) zoneOf(x *pool) string {
	for _, m := range x.machines {
		if zone := m.Labels[machine.ZoneLabel]; zone != "" {
			return zone
		}
		if n := p.nodes[m.Node()]; n != nil && n.Labels[zoneLabel] != "" {
			return n.Labels[zoneLabel]
		}
	}
	return x.set.Spec.Template.Labels[machine.ZoneLabel]
}

// unzoned says of which sets the zone is not known, where there is something to keep even.
func (p *planner) unzoned() {
	if p.zoned || len(p.pools) < 2 {
		return
	}
	var names []string
	for _, x := range p.pools {
		if x.zone == "" {
			names = append(names, x.set.Name)
		}
	}
	p.note("the zone of %s is not known (no label %s on their machines, and none %s on the nodes): machines are kept even over the sets, and not over zones", strings.Join(names, ", "), machine.ZoneLabel, zoneLabel)
}

// byZone is how many machines each zone has; nothing where not all zones are known: then
// the sets alone are kept even.
func (p *planner) byZone() map[string]int {
	zones := map[string]int{}
	if !p.zoned {
		return zones
	}
	for _, x := range p.pools {
		zones[x.zone] += x.replicas
	}
	return zones
}
