// Package scale plans changes of machine sets: up in batches that keep remediation open
// and zones balanced, down in an order that disturbs least. It sees values and does
// nothing.
package scale

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/machine"
)

// MaxBatch is how many machines are asked of a provider at once: source 002, section 3.1,
// and what its authors measured.
const MaxBatch = 50

// MaxMachines is to how many machines a plan leads at most: the nodes that Kubernetes is
// promised to bear (kubernetes/community, sig-scalability, thresholds.md). OpenShift is
// tested with 2,000 (source 002, section 9.1).
const MaxMachines = 5000

// ErrTooMany means that a plan would lead to more than MaxMachines.
var ErrTooMany = fmt.Errorf("want at most %d, the nodes that Kubernetes is promised to bear; OpenShift is tested with 2000", MaxMachines)

// joinTimeout is how long machines may take to join where no check says it.
const joinTimeout = 10 * time.Minute

// DefaultPatience is that of Input.
const DefaultPatience = 10 * time.Minute

// ErrNoMachines means that sets are to have machines of which there is no object, so that
// it is unknown what would go.
var ErrNoMachines = errors.New("there are no Machine objects")

// Input is all that a plan is made of.
type Input struct {
	Now time.Time
	// Sets are those that are changed, Machines and Nodes all of the cluster.
	Sets     []machine.Set
	Machines []machine.Machine
	Nodes    []core.Node
	// Pods are all of the cluster; they count on the way down.
	Pods    []core.Pod
	Budgets []policy.PodDisruptionBudget
	Checks  []machine.HealthCheck
	// Batch is the most machines at once; 0 stands for MaxBatch.
	Batch int
	// QPS and Burst are those of the client that drains; 0 stands for 5 and 10, which
	// cannot be changed on OpenShift.
	QPS, Burst int
	// JoinTimeout is how long the machines of a batch may take to join; 0 stands for the
	// nodeStartupTimeout of their check, or ten minutes where there is none.
	JoinTimeout time.Duration
	// Patience is how long the drain of a batch may take beyond the least that it takes,
	// and how long its machines then take to go; 0 is DefaultPatience.
	Patience time.Duration
	// Begun are rolls that have begun and are gone on with, by machine set.
	Begun map[string]Begun
}

// Step is one thing to do, after which is waited.
type Step struct {
	// Sets are the replicas that are set, by machine set, in the order of their names.
	Sets []Resize `json:"sets"`
	// Remove are the machines that are marked to be the ones that go.
	Remove []string `json:"remove"`
	// Until says what is waited for, and Timeout for how long at the most.
	Until    string  `json:"until"`
	TimeoutS float64 `json:"timeout_s"`
	// Remediation is the arithmetic of the checks while this step runs.
	Remediation []string `json:"remediation"`
	// AtLeastS is how long the step takes at the least, by the limits of the client that
	// evicts and by the time that pods have to end.
	AtLeastS float64 `json:"at_least_s"`
	// Evictions is how many pods have to go elsewhere.
	Evictions int `json:"evictions_count"`
}

// Resize is a change of the replicas of one set.
type Resize struct {
	Set string `json:"set"`
	// Zone is "" where it is not known.
	Zone string `json:"zone"`
	From int    `json:"from"`
	To   int    `json:"to"`
}

// Plan is what is to be done.
type Plan struct {
	From  int    `json:"machines_before"`
	To    int    `json:"machines_after"`
	Steps []Step `json:"steps"`
	// Blocked are why it cannot be carried through as things are.
	Blocked []string `json:"blocked"`
	// Notes are worth knowing.
	Notes []string `json:"notes"`
}

// pool is a set while it is planned.
type pool struct {
	set *machine.Set
	// zone is "" if it is unknown.
	zone     string
	replicas int
	machines []*machine.Machine
}

// planner is one plan in the making.
type planner struct {
	Input
	plan  *Plan
	pools []*pool
	nodes map[string]*core.Node
	// watched is the state of each check's machines.
	watched []*watch
	// zoned reports whether the zones of all sets are known, so that they can be kept even.
	zoned bool
}

// watch is a check and its machines as they are at a step.
type watch struct {
	check     *machine.HealthCheck
	selector  labels.Selector
	machines  int
	unhealthy int
	// ill are the machines that count as unhealthy, by name.
	ill map[string]bool
}

func newPlanner(in Input) (*planner, error) {
	p := &planner{Input: in, plan: &Plan{Steps: []Step{}, Blocked: []string{}, Notes: []string{}}, nodes: map[string]*core.Node{}, zoned: true}
	p.Patience = cmp.Or(in.Patience, DefaultPatience)
	p.Batch, p.QPS, p.Burst = cmp.Or(in.Batch, MaxBatch), cmp.Or(in.QPS, 5), cmp.Or(in.Burst, 10)
	if p.Batch < 1 || p.QPS < 1 || p.Burst < 1 {
		return nil, fmt.Errorf("a batch of %d, %d requests a second and a burst of %d: want at least 1 of each", p.Batch, p.QPS, p.Burst)
	}
	if p.Patience < 0 || in.JoinTimeout < 0 {
		return nil, fmt.Errorf("%s for a drain, %s to join: want more than nothing", p.Patience, in.JoinTimeout)
	}
	if len(in.Sets) == 0 {
		return nil, fmt.Errorf("no machine set is named")
	}
	for i := range in.Nodes {
		p.nodes[in.Nodes[i].Name] = &in.Nodes[i]
	}
	for i := range in.Sets {
		s := &in.Sets[i]
		x := &pool{set: s, replicas: replicas(s)}
		for j := range in.Machines {
			m := &in.Machines[j]
			if m.Namespace == s.Namespace && m.Set() == s.Name {
				x.machines = append(x.machines, m)
			}
		}
		x.zone = p.zoneOf(x)
		p.zoned = p.zoned && x.zone != ""
		p.pools = append(p.pools, x)
		p.plan.From += x.replicas
	}
	slices.SortFunc(p.pools, func(a, b *pool) int { return strings.Compare(a.set.Name, b.set.Name) })
	for i := range in.Checks {
		c := &in.Checks[i]
		if c.Unread != "" {
			p.note("MachineHealthCheck %s cannot be read, and is not part of the plan: %s", c.Name, c.Unread)
			continue
		}
		selector, err := meta.LabelSelectorAsSelector(&c.Spec.Selector)
		if err != nil {
			return nil, fmt.Errorf("MachineHealthCheck %s: spec.selector: %w", c.Name, err)
		}
		w := &watch{check: c, selector: selector, ill: map[string]bool{}}
		for j := range in.Machines {
			m := &in.Machines[j]
			if !w.selects(m) {
				continue
			}
			w.machines++
			if machine.Judge(c, m, p.nodes[m.Node()], time.Time{}, in.Now).State != machine.Healthy {
				w.unhealthy++
				w.ill[m.Name] = true
			}
		}
		p.watched = append(p.watched, w)
	}
	return p, nil
}

// selects reports whether a machine is a check's.
func (w *watch) selects(m *machine.Machine) bool {
	return w.check.Namespace == m.Namespace && w.selector.Matches(labels.Set(m.Labels))
}

// covers reports whether the machines that a set makes are a check's: by those that it has,
// or by the labels that it selects them by.
func (w *watch) covers(x *pool) bool {
	if w.check.Namespace != x.set.Namespace {
		return false
	}
	if len(x.machines) > 0 {
		return w.selector.Matches(labels.Set(x.machines[0].Labels))
	}
	return w.selector.Matches(labels.Set(x.set.Spec.Selector.MatchLabels))
}

// known is ErrNoMachines where sets are to have machines and none of them has one, and
// their controller has not looked at them either: then what would go is not known. A set
// that its controller has looked at has none indeed.
func (p *planner) known() error {
	var names []string
	for _, x := range p.pools {
		if len(x.machines) > 0 {
			return nil
		}
		if x.replicas > 0 && x.set.Status.ObservedGeneration == 0 {
			names = append(names, fmt.Sprintf("%s is to have %d", x.set.Name, x.replicas))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%w of the machine sets in %s, of which %s: which nodes would go is not known", ErrNoMachines, p.pools[0].set.Namespace, strings.Join(names, " and "))
}

// resizes are the changes of the sets since before.
func (p *planner) resizes(before []int) (out []Resize) {
	for i, x := range p.pools {
		if x.replicas != before[i] {
			out = append(out, Resize{x.set.Name, x.zone, before[i], x.replicas})
		}
	}
	return out
}

func (p *planner) replicas() (out []int) {
	for _, x := range p.pools {
		out = append(out, x.replicas)
	}
	return out
}

func (p *planner) note(format string, args ...any) {
	p.plan.Notes = append(p.plan.Notes, fmt.Sprintf(format, args...))
}

func (p *planner) block(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(p.plan.Blocked, text) {
		p.plan.Blocked = append(p.plan.Blocked, text)
	}
}

// To plans a change to a number of machines, over all sets together. More of them than
// MaxMachines is ErrTooMany, but on the way down.
func To(in Input, machines int) (*Plan, error) {
	if machines < 0 {
		return nil, fmt.Errorf("%s: want at least 0", internaltext.Count(machines, "machine"))
	}
	p, err := newPlanner(in)
	if err != nil {
		return nil, err
	}
	if machines > MaxMachines && machines > p.plan.From {
		return nil, fmt.Errorf("%d machines: %w", machines, ErrTooMany)
	}
	p.plan.To = machines
	p.unzoned()
	switch {
	case machines > p.plan.From:
		p.up(machines - p.plan.From)
	case machines < p.plan.From:
		if err := p.known(); err != nil {
			return nil, err
		}
		p.down(p.plan.From - machines)
	default:
		p.note("the sets are to have %s together already: nothing is to be done%s", internaltext.Count(machines, "machine"), p.coming())
	}
	return p.plan, nil
}

// coming says which machines of the sets have not come: they have not joined, or were never
// made; "" where all have.
func (p *planner) coming() (text string) {
	var names []string
	unmade := 0
	for _, x := range p.pools {
		has := 0
		for _, m := range x.machines {
			if m.DeletionTimestamp != nil {
				continue
			}
			has++
			if p.nodes[m.Node()] == nil {
				names = append(names, fmt.Sprintf("%s (phase %s)", m.Name, cmp.Or(m.Phase(), "not said")))
			}
		}
		unmade += max(0, x.replicas-has)
	}
	slices.Sort(names)
	if len(names) > 0 {
		text = "; not joined yet: " + strings.Join(names, ", ")
	}
	if unmade > 0 {
		text += fmt.Sprintf("; not made yet: %s", internaltext.Count(unmade, "machine"))
	}
	return text
}
