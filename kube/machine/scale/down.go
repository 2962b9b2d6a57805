package scale

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/machine"
)

// routerLabel is a label of the pods of OpenShift's routers.
const routerLabel = "ingresscontroller.operator.openshift.io/deployment-ingresscontroller"

// leaver is a machine to remove, and the pods that must leave it first.
type leaver struct {
	m    *machine.Machine
	node *core.Node
	pods []*core.Pod
	rank int
}

// Ranks of machines, in removal order. Failed and unjoined machines keep the order of the machine
// sets' controller, to which failed ones count as marked too (openshift/machine-api-operator,
// pkg/controller/machineset/delete_policy.go).
const (
	unmade    = iota // requested, not created yet
	failed           // no pod runs on it
	unjoined         // no node
	marked           // marked by an annotation
	notReady         // its pods are moved anyway
	unwilling        // cordoned
	serving
)

// idle reports whether the machine can be removed without moving pods.
func (l *leaver) idle() bool { return l.rank <= unjoined && len(l.pods) == 0 }

// down plans the removal of machines. Machines without pods go first, in separate steps without a
// drain.
func (p *planner) down(fewer int) {
	ready := p.leavers()
	for fewer > 0 {
		before := p.replicas()
		var batch []*leaver
		for len(batch) < min(fewer, p.Batch) {
			x := p.fullest(ready)
			l := ready[x][0]
			if len(batch) > 0 && l.idle() != batch[0].idle() {
				break
			}
			x.replicas--
			batch, ready[x] = append(batch, l), ready[x][1:]
		}
		p.plan.Steps = append(p.plan.Steps, p.drain(batch, p.resizes(before)))
		fewer -= len(batch)
	}
	p.routers()
	p.together()
	p.rivals(ready)
}

// rivals notes machines that are marked for deletion but stay in this plan: the controller of their
// shrinking set may remove them instead.
func (p *planner) rivals(ready map[*pool][]*leaver) {
	shrinks := map[string]bool{}
	for _, s := range p.plan.Steps {
		for _, r := range s.Sets {
			shrinks[r.Set] = true
		}
	}
	for _, x := range p.pools {
		for _, l := range ready[x] {
			if l.rank == marked && shrinks[x.set.Name] {
				p.note("machine %s is marked for deletion (%s), and machine set %s may remove it instead of a planned one; to keep it, remove the annotation", l.m.Name, machine.DeleteAnnotation, x.set.Name)
			}
		}
	}
}

// leavers returns each set's machines in removal order, including machines not created yet.
func (p *planner) leavers() map[*pool][]*leaver {
	evictable := p.evictable()
	ready := map[*pool][]*leaver{}
	for _, x := range p.pools {
		for _, m := range x.machines {
			if m.DeletionTimestamp == nil {
				ready[x] = append(ready[x], p.leaver(m, evictable))
			}
		}
		for len(ready[x]) < x.replicas {
			ready[x] = append(ready[x], &leaver{rank: unmade})
		}
		slices.SortStableFunc(ready[x], func(a, b *leaver) int {
			if a.m == nil || b.m == nil {
				return cmp.Compare(a.rank, b.rank)
			}
			return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(len(a.pods), len(b.pods)), strings.Compare(a.m.Name, b.m.Name))
		})
	}
	return ready
}

// leaver returns a machine with its rank and its evictable pods.
func (p *planner) leaver(m *machine.Machine, evictable map[string][]*core.Pod) *leaver {
	l := &leaver{m: m, node: p.nodes[m.Node()], rank: serving}
	if l.node != nil {
		l.pods = evictable[l.node.Name]
	}
	_, wanted := m.Annotations[machine.DeleteAnnotation]
	switch {
	case m.Phase() == machine.PhaseFailed:
		if l.rank = failed; l.node != nil && !cluster.Ready(l.node) {
			l.pods = nil // no kubelet there would end them
		}
	case l.node == nil:
		l.rank = unjoined
	case wanted:
		l.rank = marked
	case !cluster.Ready(l.node):
		l.rank = notReady
	case l.node.Spec.Unschedulable:
		l.rank = unwilling
	}
	return l
}

// evictable returns the pods to evict by node, without DaemonSet pods, static pods and ended pods.
func (p *planner) evictable() map[string][]*core.Pod {
	out := map[string][]*core.Pod{}
	for i := range p.Pods {
		pod := &p.Pods[i]
		if pod.Spec.NodeName == "" || cluster.Stays(pod) || cluster.Ended(pod) {
			continue
		}
		out[pod.Spec.NodeName] = append(out[pod.Spec.NodeName], pod)
	}
	return out
}

// fullest returns the set that loses the next machine. Sets whose next machine to remove is idle
// come first, and among them those with machines that were never created. Other sets are compared
// by the machines of their zone, then by their own number of machines: the largest loses one.
func (p *planner) fullest(ready map[*pool][]*leaver) *pool {
	zones := p.byZone()
	class := func(x *pool) int {
		if l := ready[x][0]; l.idle() {
			return min(l.rank, failed)
		}
		return serving
	}
	var best *pool
	for _, x := range p.pools {
		if x.replicas == 0 {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(class(best), class(x)), cmp.Compare(zones[x.zone], zones[best.zone]), cmp.Compare(x.replicas, best.replicas)) > 0 {
			best = x
		}
	}
	return best
}

// drain returns the step that drains and removes a batch.
func (p *planner) drain(batch []*leaver, sets []Resize) Step {
	s := Step{Sets: sets, Remove: []string{}, Remediation: []string{}, Until: "the machines are gone; if a drain stalls, stop here"}
	p.leaving(batch, &s)
	p.idlers(batch, &s)
	grace := time.Duration(0)
	moved := map[*policy.PodDisruptionBudget]int{}
	for _, l := range batch {
		s.Evictions += len(l.pods)
		for _, pod := range l.pods {
			if t := pod.Spec.TerminationGracePeriodSeconds; t != nil {
				grace = max(grace, time.Duration(*t)*time.Second)
			}
			p.budgets(pod, moved)
		}
	}
	for _, b := range slices.SortedFunc(maps.Keys(moved), func(a, b *policy.PodDisruptionBudget) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	}) {
		have := text.Sprintf("%d of its pods have", moved[b])
		if moved[b] == 1 {
			have = "1 of its pods has"
		}
		switch allowed := int(b.Status.DisruptionsAllowed); {
		case allowed == 0:
			p.block("PodDisruptionBudget %s/%s allows no disruption now, %s to move; the drain waits until one is allowed", b.Namespace, b.Name, have)
		case moved[b] > allowed:
			p.note("PodDisruptionBudget %s/%s allows %s at once, %s to move; the drain waits until replacements are Ready", b.Namespace, b.Name, text.Count(allowed, "disruption"), have)
		}
	}
	// Each pod takes at least two requests: the eviction, and a check that it is gone.
	s.AtLeastS = throttled(2*s.Evictions, p.QPS, p.Burst)
	if s.Evictions > 0 {
		s.AtLeastS += grace.Seconds()
		p.note("%s: pods to evict: %d; at %s/s (burst %d) at least %.0f s, and each pod may take up to %.0f s to end", step(len(p.plan.Steps)), s.Evictions, text.Count(p.QPS, "request"), p.Burst, throttled(2*s.Evictions, p.QPS, p.Burst), grace.Seconds())
	}
	switch {
	case slices.ContainsFunc(batch, func(l *leaver) bool { return !l.idle() }):
		s.TimeoutS = (s.Drained(p.Patience) + p.Patience).Seconds()
	case len(s.Remove) > 0:
		s.TimeoutS = p.Patience.Seconds()
	}
	return s
}

// Drained returns the time limit for a step's drain.
func (s *Step) Drained(patience time.Duration) time.Duration {
	return patience + 2*time.Duration(s.AtLeastS*float64(time.Second))
}

// leaving adds a batch's machines to a step, and to the checks, for which a machine in deletion is
// unhealthy.
func (p *planner) leaving(batch []*leaver, s *Step) {
	for _, l := range batch {
		if l.m != nil {
			s.Remove = append(s.Remove, l.m.Name)
		}
	}
	for _, w := range p.watched {
		n, healthy := 0, 0
		for _, l := range batch {
			if l.m != nil && w.selects(l.m) {
				if n++; !w.ill[l.m.Name] {
					healthy++
				}
			}
		}
		if n > 0 {
			s.Remediation = append(s.Remediation, w.check.Name+": "+machine.LimitOf(w.check.Spec.MaxUnhealthy, w.machines).Sentence(w.unhealthy+healthy))
			w.machines, w.unhealthy = w.machines-n, w.unhealthy-(n-healthy)
		}
	}
}

// idlers notes a step's machines that need no drain, and why.
func (p *planner) idlers(batch []*leaver, s *Step) {
	never := 0
	var nodeless []string
	for _, l := range batch {
		switch l.rank {
		case unmade:
			never++
		case unjoined:
			nodeless = append(nodeless, l.m.Name)
		}
	}
	if never > 0 {
		p.note("%s: requested machines that were never created: %d; only their set's replicas are reduced", step(len(p.plan.Steps)), never)
	}
	if len(nodeless) > 0 {
		p.note("%s: no node, so no pods to move: %s", step(len(p.plan.Steps)), strings.Join(nodeless, ", "))
	}
	switch {
	case len(s.Remove) == 0:
		s.Until = "nothing: the removed machines were never created"
	case len(batch) > 0 && batch[0].idle():
		s.Until = "the machines are gone; if not, stop here"
	}
}

func step(done int) string { return fmt.Sprintf("step %d", done+1) }

// throttled returns how long a rate-limited client takes for a number of requests, in seconds.
func throttled(requests, qps, burst int) float64 {
	return float64(max(requests-burst, 0)) / float64(qps)
}

// budgets subtracts a pod from its disruption budget. The eviction API rejects pods with two
// budgets.
func (p *planner) budgets(pod *core.Pod, moved map[*policy.PodDisruptionBudget]int) {
	var mine []*policy.PodDisruptionBudget
	for i := range p.Budgets {
		b := &p.Budgets[i]
		if b.Namespace != pod.Namespace || b.Spec.Selector == nil {
			continue
		}
		if s, err := meta.LabelSelectorAsSelector(b.Spec.Selector); err == nil && s.Matches(labels.Set(pod.Labels)) {
			mine = append(mine, b)
			moved[b]++
		}
	}
	if len(mine) > 1 {
		p.block("pod %s/%s has %d PodDisruptionBudgets; the API server does not evict a pod with more than one", pod.Namespace, pod.Name, len(mine))
	}
}

// routers blocks a plan that would leave OpenShift's routers without a node.
func (p *planner) routers() {
	gone := map[string]bool{}
	for _, s := range p.plan.Steps {
		for _, name := range s.Remove {
			gone[name] = true
		}
	}
	away := map[string]bool{} // nodes to remove, and control-plane nodes
	for i := range p.Machines {
		m := &p.Machines[i]
		if n := p.nodes[m.Node()]; n != nil && (gone[m.Name] || m.ControlPlane(n)) {
			away[n.Name] = true
		}
	}
	left := 0 // other nodes that accept pods, with or without a machine
	for name, n := range p.nodes {
		if !away[name] && !(&machine.Machine{}).ControlPlane(n) && !n.Spec.Unschedulable && cluster.Ready(n) {
			left++
		}
	}
	for _, x := range p.pools {
		if x.replicas > 0 {
			continue
		}
		var names []string
		for i := range p.Pods {
			pod := &p.Pods[i]
			_, router := pod.Labels[routerLabel]
			if router && slices.ContainsFunc(x.machines, func(m *machine.Machine) bool { return m.Node() != "" && m.Node() == pod.Spec.NodeName }) {
				names = append(names, pod.Namespace+"/"+pod.Name)
			}
		}
		if len(names) > 0 {
			p.block("machine set %s would lose its last machine, but routers run there: %s. Move them first (spec.nodePlacement of their IngressController)", x.set.Name, strings.Join(names, ", "))
		}
	}
	if left == 0 && len(gone) > 0 {
		p.block("no schedulable node except those of the control plane would be left")
	}
}

// together adds the note that machines are removed by shrinking their set rather than by name.
func (p *planner) together() {
	if slices.ContainsFunc(p.plan.Steps, func(s Step) bool { return len(s.Remove) > 0 }) {
		p.note("before a set shrinks, the machines to remove get the annotation %s, so that the set removes these first", machine.DeleteAnnotation)
	}
}
