package scale

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/machine"
)

// up plans additional machines in batches. Each batch starts after the previous one has joined.
func (p *planner) up(more int) {
	for _, x := range p.pools {
		if has := len(x.machines); has < x.replicas {
			p.note("machine set %s: want %s, has %d; first waiting for the missing machines", x.set.Name, text.Count(x.replicas, "machine"), has)
		}
		if !slices.ContainsFunc(p.watched, func(w *watch) bool { return w.covers(x) }) {
			p.note("no MachineHealthCheck covers machine set %s, so a machine that does not start is not replaced", x.set.Name)
		}
	}
	for more > 0 {
		before := p.replicas()
		added := map[*watch]int{}
		size := 0
		for size < min(more, p.Batch) {
			x := p.emptiest(added)
			if x == nil {
				break
			}
			x.replicas++
			size++
			for _, w := range p.watched {
				if w.covers(x) {
					added[w]++
				}
			}
		}
		if size == 0 {
			p.closed(more)
			return
		}
		p.plan.Steps = append(p.plan.Steps, p.join(size, added, p.resizes(before)))
		more -= size
	}
}

// join returns the step in which a batch is created and joins; added counts new machines by check.
func (p *planner) join(size int, added map[*watch]int, sets []Resize) Step {
	s := Step{Sets: sets, Remove: []string{}, Remediation: []string{}, Until: joined(size) + "; if not, stop here"}
	for _, w := range p.watched {
		n := added[w]
		if n == 0 {
			continue
		}
		w.machines += n
		limit := machine.LimitOf(w.check.Spec.MaxUnhealthy, w.machines)
		s.Remediation = append(s.Remediation, w.check.Name+": "+limit.Sentence(w.unhealthy+n))
	}
	timeout := time.Duration(0)
	for _, x := range p.pools {
		if slices.ContainsFunc(sets, func(r Resize) bool { return r.Set == x.set.Name }) {
			timeout = max(timeout, p.joins(x))
		}
	}
	s.TimeoutS = timeout.Seconds()
	return s
}

// joins returns the time limit for a set's machines to join: from the options, or the longest of
// its checks.
func (p *planner) joins(x *pool) time.Duration {
	if p.JoinTimeout > 0 {
		return p.JoinTimeout
	}
	longest := time.Duration(0)
	for _, w := range p.watched {
		if !w.covers(x) {
			continue
		}
		wait := joinTimeout
		if t := w.check.Spec.NodeStartupTimeout; t != nil && t.Duration > 0 {
			wait = t.Duration
		}
		longest = max(longest, wait)
	}
	return cmp.Or(longest, joinTimeout)
}

// JoinTimeouts returns the time limit for the machines of each set to join, by name.
func JoinTimeouts(in Input) (map[string]time.Duration, error) {
	p, err := newPlanner(in)
	if err != nil {
		return nil, err
	}
	out := map[string]time.Duration{}
	for _, x := range p.pools {
		out[x.set.Name] = p.joins(x)
	}
	return out, nil
}

func joined(n int) string {
	if n == 1 {
		return "1 machine has joined and is Ready"
	}
	return text.Sprintf("%d machines have joined and are Ready", n)
}

// emptiest returns the set that gets the next machine: the smallest set in the zone with the fewest
// machines, among sets whose checks stay open.
func (p *planner) emptiest(added map[*watch]int) *pool {
	zones := p.byZone()
	var best *pool
	for _, x := range p.pools {
		if !p.open(x, added) {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(zones[x.zone], zones[best.zone]), cmp.Compare(x.replicas, best.replicas)) < 0 {
			best = x
		}
	}
	return best
}

// open reports whether a set's remediation stays open with one more joining machine.
func (p *planner) open(x *pool, added map[*watch]int) bool {
	for _, w := range p.watched {
		n := added[w] + 1
		if w.covers(x) && !machine.LimitOf(w.check.Spec.MaxUnhealthy, w.machines+n).Open(w.unhealthy+n) {
			return false
		}
	}
	return true
}

// closed notes why no machine can be added without closing remediation.
func (p *planner) closed(more int) {
	var reasons []string
	for _, w := range p.watched {
		if !slices.ContainsFunc(p.pools, w.covers) {
			continue
		}
		limit := machine.LimitOf(w.check.Spec.MaxUnhealthy, w.machines+1)
		if !limit.Open(w.unhealthy + 1) {
			reasons = append(reasons, w.check.Name+": "+limit.Sentence(w.unhealthy+1))
		}
	}
	p.block("%s cannot be added: one more joining machine would stop remediation (%s). Repair the unhealthy machines, or raise maxUnhealthy during the scaling", text.Count(more, "machine"), strings.Join(reasons, "; "))
}

// zoneLabel is the zone label of a node.
const zoneLabel = "topology.kubernetes.io/zone"

// zoneOf returns a set's zone from its machines, their nodes, or its template; "" if unknown.
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

// unzoned notes the sets with unknown zones, if there are several sets to balance.
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
	p.note("zone of %s unknown (no label %s on machines, none %s on nodes); machines are balanced over sets, not zones", strings.Join(names, ", "), machine.ZoneLabel, zoneLabel)
}

// byZone returns the number of machines by zone, or nil if a set's zone is unknown: then only sets
// are balanced.
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
