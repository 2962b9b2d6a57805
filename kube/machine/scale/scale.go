// Package scale plans and executes changes of machine sets: up in batches that keep remediation
// open and zones balanced, down in the least disruptive order. kubectl fettle scale uses it.
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

// MaxBatch is the maximum number of machines requested from a provider at once (OpenShift 4.4
// Scalability and Performance, section 3.1, and its authors' measurements).
const MaxBatch = 50

// MaxMachines is the maximum number of machines in a plan: Kubernetes' maximum number of nodes
// (kubernetes/community, sig-scalability, thresholds.md). OpenShift is tested with 2,000 (OpenShift
// 4.4 Scalability and Performance, section 9.1).
const MaxMachines = 5000

// ErrTooMany means that a plan would exceed MaxMachines.
var ErrTooMany = internaltext.Errorf("want at most %d, the nodes that Kubernetes supports (OpenShift is tested with 2,000)", MaxMachines)

// joinTimeout limits the time to join for machines without a health check.
const joinTimeout = 10 * time.Minute

// DefaultPatience is the default of Input.Patience.
const DefaultPatience = 10 * time.Minute

// ErrNoMachines means that sets have replicas but no Machine objects, so the machines to remove are
// unknown.
var ErrNoMachines = errors.New("no Machine objects found")

// Input is the input of a plan.
type Input struct {
	Now time.Time
	// Sets are the sets to change, Machines and Nodes those of the whole cluster.
	Sets     []machine.Set
	Machines []machine.Machine
	Nodes    []core.Node
	// Pods are all pods of the cluster; only scaling down needs them.
	Pods    []core.Pod
	Budgets []policy.PodDisruptionBudget
	Checks  []machine.HealthCheck
	// Batch is the maximum number of machines at once; 0 means MaxBatch.
	Batch int
	// QPS and Burst are the rate limits of the draining client; 0 means 5 and 10, which are fixed
	// on OpenShift.
	QPS, Burst int
	// JoinTimeout limits the wait for a batch's machines to join; 0 means their check's
	// nodeStartupTimeout, or ten minutes without a check.
	JoinTimeout time.Duration
	// Patience is the extra time for a batch's drain beyond its minimum, and the time limit for its
	// machines to disappear; 0 means DefaultPatience.
	Patience time.Duration
	// Begun are the rollouts to continue, by machine set.
	Begun map[string]Begun
}

// Step is a change of sets, followed by a wait.
type Step struct {
	// Sets are the new replicas by machine set, ordered by name.
	Sets []Resize `json:"sets"`
	// Remove are the machines to remove, which are marked first.
	Remove []string `json:"remove"`
	// Until is the condition to wait for, and TimeoutS the time limit.
	Until    string  `json:"until"`
	TimeoutS float64 `json:"timeout_s"`
	// Remediation explains the checks' limits during the step.
	Remediation []string `json:"remediation"`
	// AtLeastS is the minimum duration of the step, from the rate limits of the evicting client
	// and the pods' grace periods.
	AtLeastS float64 `json:"at_least_s"`
	// Evictions is the number of pods to evict.
	Evictions int `json:"evictions_count"`
}

// Resize is a change of the replicas of one set.
type Resize struct {
	Set string `json:"set"`
	// Zone is "" if unknown.
	Zone string `json:"zone"`
	From int    `json:"from"`
	To   int    `json:"to"`
}

// Plan is the list of steps.
type Plan struct {
	From  int    `json:"machines_before"`
	To    int    `json:"machines_after"`
	Steps []Step `json:"steps"`
	// Blocked are the reasons that the plan cannot be executed now.
	Blocked []string `json:"blocked"`
	// Notes are warnings.
	Notes []string `json:"notes"`
}

// pool is the state of a set during planning.
type pool struct {
	set *machine.Set
	// zone is "" if it is unknown.
	zone     string
	replicas int
	machines []*machine.Machine
}

// planner builds one plan.
type planner struct {
	Input
	plan  *Plan
	pools []*pool
	nodes map[string]*core.Node
	// watched is the state of each check's machines.
	watched []*watch
	// zoned reports whether the zones of all sets are known, so that they can be balanced.
	zoned bool
}

// watch is the state of a check and its machines at a step.
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
		return nil, internaltext.Errorf("batch %d, eviction rate %d/s, burst %d: each must be at least 1", p.Batch, p.QPS, p.Burst)
	}
	if p.Patience < 0 || in.JoinTimeout < 0 {
		return nil, fmt.Errorf("drain timeout %s, join timeout %s: both must be above 0", p.Patience, in.JoinTimeout)
	}
	if len(in.Sets) == 0 {
		return nil, fmt.Errorf("name at least one machine set")
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

// selects reports whether the check selects a machine.
func (w *watch) selects(m *machine.Machine) bool {
	return w.check.Namespace == m.Namespace && w.selector.Matches(labels.Set(m.Labels))
}

// covers reports whether the check selects a set's machines, by their labels or, without machines,
// the set's selector.
func (w *watch) covers(x *pool) bool {
	if w.check.Namespace != x.set.Namespace {
		return false
	}
	if len(x.machines) > 0 {
		return w.selector.Matches(labels.Set(x.machines[0].Labels))
	}
	return w.selector.Matches(labels.Set(x.set.Spec.Selector.MatchLabels))
}

// known returns ErrNoMachines if sets have replicas, no machines, and an inactive controller,
// because the machines to remove are then unknown.
func (p *planner) known() error {
	var names []string
	for _, x := range p.pools {
		if len(x.machines) > 0 {
			return nil
		}
		if x.replicas > 0 && x.set.Status.ObservedGeneration == 0 {
			names = append(names, internaltext.Sprintf("%s is to have %d", x.set.Name, x.replicas))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%w for the machine sets in %s (%s); cannot tell which nodes would be removed", ErrNoMachines, p.pools[0].set.Namespace, strings.Join(names, " and "))
}

// resizes returns the changes of the sets since before.
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
	p.plan.Notes = append(p.plan.Notes, internaltext.Sprintf(format, args...))
}

func (p *planner) block(format string, args ...any) {
	text := internaltext.Sprintf(format, args...)
	if !slices.Contains(p.plan.Blocked, text) {
		p.plan.Blocked = append(p.plan.Blocked, text)
	}
}

// To plans a change to a total number of machines over all sets. It returns ErrTooMany above
// MaxMachines, except when scaling down.
func To(in Input, machines int) (*Plan, error) {
	if machines < 0 {
		return nil, fmt.Errorf("%s in total: want 0 or more", internaltext.Count(machines, "machine"))
	}
	p, err := newPlanner(in)
	if err != nil {
		return nil, err
	}
	if machines > MaxMachines && machines > p.plan.From {
		return nil, internaltext.Errorf("%d machines: %w", machines, ErrTooMany)
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
		p.note("the sets already have %s in total; nothing to do%s", internaltext.Count(machines, "machine"), p.coming())
	}
	return p.plan, nil
}

// coming names the sets' machines that have not joined or were never created, or returns "".
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
				names = append(names, fmt.Sprintf("%s (phase %s)", m.Name, cmp.Or(m.Phase(), "unknown")))
			}
		}
		unmade += max(0, x.replicas-has)
	}
	slices.Sort(names)
	if len(names) > 0 {
		text = "; not joined yet: " + strings.Join(names, ", ")
	}
	if unmade > 0 {
		text += fmt.Sprintf("; not created yet: %s", internaltext.Count(unmade, "machine"))
	}
	return text
}
