package scale

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/machine"
)

// errKilled is the answer to every call of a killed run.
var errKilled = errors.New("killed")

// sim is a simulated cluster: sets that keep their numbers of machines, machines that take a while
// to join and to be removed, and a clock that moves only when a test waits. test/cluster uses a
// real API server.
type sim struct {
	t        *testing.T
	now      time.Time
	sets     []machine.Set
	machines []machine.Machine
	nodes    []core.Node
	pods     []core.Pod
	budgets  []policy.PodDisruptionBudget
	checks   []machine.HealthCheck

	made int
	mu   sync.Mutex // drains are at once
	// ops counts the changes. The run is killed before or after the change with number kill.
	ops, kill   int
	after, dead bool
	// stuck reports whether a new machine never joins, unmovable whether a node cannot be drained.
	stuck     func(made int) bool
	unmovable func(node string) bool
	// idle reports whether no machine is being made.
	idle bool
	// drained are the nodes whose pods were evicted since their cordon.
	drained map[string]bool
	// least is the minimum number of Ready machines, most the maximum number of all machines, and
	// closed how often remediation was stopped.
	least, most, closed int
}

// joining is how long a machine takes to join, leaving how long its removal takes.
const joining, leaving = 90 * time.Second, 20 * time.Second

func newSim(t *testing.T, limit string, replicas ...int) *sim {
	s := &sim{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), kill: -1, drained: map[string]bool{}, least: 1 << 30}
	for i, n := range replicas {
		r := int32(n)
		name := fmt.Sprintf("set-%c", 'a'+i)
		s.sets = append(s.sets, machine.Set{
			ObjectMeta: meta.ObjectMeta{Namespace: machine.Namespace, Name: name, UID: types.UID("uid-" + name), Annotations: map[string]string{}},
			Spec:       machine.SetSpec{Replicas: &r, Selector: meta.LabelSelector{MatchLabels: map[string]string{setLabel: name}}},
		})
		for range n {
			s.make(&s.sets[i], true)
		}
	}
	if limit != "" {
		m := intstr.Parse(limit)
		c := machine.HealthCheck{ObjectMeta: meta.ObjectMeta{Namespace: machine.Namespace, Name: "all"}}
		c.Spec.MaxUnhealthy = &m
		c.Spec.UnhealthyConditions = []machine.UnhealthyCondition{{Type: core.NodeReady, Status: core.ConditionFalse, Timeout: meta.Duration{Duration: time.Minute}}}
		c.Spec.NodeStartupTimeout = &meta.Duration{Duration: 10 * time.Minute}
		s.checks = append(s.checks, c)
	}
	return s
}

func (s *sim) make(set *machine.Set, joined bool) {
	yes := true
	s.made++
	m := machine.Machine{ObjectMeta: meta.ObjectMeta{
		Namespace: set.Namespace, Name: fmt.Sprintf("%s-%02d", set.Name, s.made), UID: types.UID(fmt.Sprint(s.made)), CreationTimestamp: meta.NewTime(s.now),
		Labels: map[string]string{setLabel: set.Name, machine.ZoneLabel: "zone" + set.Name[len(set.Name)-2:]}, Annotations: map[string]string{},
		OwnerReferences: []meta.OwnerReference{{Kind: "MachineSet", Name: set.Name, Controller: &yes}},
	}}
	s.machines = append(s.machines, m)
	if joined {
		s.join(&s.machines[len(s.machines)-1])
	}
}

func (s *sim) join(m *machine.Machine) {
	m.Status.NodeRef = &core.ObjectReference{Name: "node-" + m.Name}
	n := core.Node{ObjectMeta: meta.ObjectMeta{Name: "node-" + m.Name, Annotations: map[string]string{}}}
	n.Status.Conditions = []core.NodeCondition{{Type: core.NodeReady, Status: core.ConditionTrue, LastTransitionTime: meta.NewTime(s.now)}}
	s.nodes = append(s.nodes, n)
}

// pod adds a pod of a Deployment to a machine's node; a bare one has no controller.
func (s *sim) pod(name string, of int, bare bool) {
	yes := true
	p := core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: "app", Name: name, Labels: map[string]string{"app": "web"}}}
	p.Spec.NodeName, p.Status.Phase = s.nodes[of].Name, core.PodRunning
	if !bare {
		p.OwnerReferences = []meta.OwnerReference{{Kind: "ReplicaSet", Name: "web", Controller: &yes}}
	}
	s.pods = append(s.pods, p)
}

// tick does what the controllers of the cluster do as time passes.
func (s *sim) tick(d time.Duration) {
	for end := s.now.Add(d); s.now.Before(end); {
		s.now = s.now.Add(min(5*time.Second, end.Sub(s.now)))
		for i := range s.sets {
			s.keep(&s.sets[i])
		}
		for i := range s.machines {
			m := &s.machines[i]
			stuck := s.stuck != nil && s.stuck(int(m.UID[0]-'0')) // of the first nine
			if m.Status.NodeRef == nil && m.DeletionTimestamp == nil && !stuck && s.now.Sub(m.CreationTimestamp.Time) >= joining {
				s.join(m)
			}
		}
		s.machines = slices.DeleteFunc(s.machines, func(m machine.Machine) bool {
			gone := m.DeletionTimestamp != nil && s.now.Sub(m.DeletionTimestamp.Time) >= leaving
			if gone {
				s.nodes = slices.DeleteFunc(s.nodes, func(n core.Node) bool { return n.Name == m.Node() })
			}
			return gone
		})
		s.look()
	}
}

// keep creates and deletes machines of a set, marked ones first, then any.
func (s *sim) keep(set *machine.Set) {
	var mine []int
	for i, m := range s.machines {
		if m.Set() == set.Name && m.DeletionTimestamp == nil {
			mine = append(mine, i)
		}
	}
	for range int(*set.Spec.Replicas) - len(mine) {
		if s.idle {
			break
		}
		s.make(set, false)
	}
	slices.SortStableFunc(mine, func(a, b int) int {
		return len(s.machines[b].Annotations[machine.DeleteAnnotation]) - len(s.machines[a].Annotations[machine.DeleteAnnotation])
	})
	for _, i := range mine[:max(0, len(mine)-int(*set.Spec.Replicas))] {
		m := &s.machines[i]
		at := meta.NewTime(s.now)
		m.DeletionTimestamp = &at
		for _, p := range s.pods {
			if p.Spec.NodeName == m.Node() {
				s.t.Errorf("machine %s is deleted, and pod %s runs there", m.Name, p.Name)
			}
		}
		if m.Node() != "" && !s.drained[m.Node()] {
			s.t.Errorf("machine %s is deleted, and its node was not drained", m.Name)
		}
	}
}

// look records the extremes so far.
func (s *sim) look() {
	ready := 0
	for _, m := range s.machines {
		if m.Node() != "" && m.DeletionTimestamp == nil {
			ready++
		}
	}
	s.least, s.most = min(s.least, ready), max(s.most, len(s.machines))
	for i := range s.checks {
		in := machine.Input{Now: s.now, Check: &s.checks[i], Machines: s.machines, Nodes: s.nodes, Checks: s.checks}
		if d, err := machine.Decide(in); err != nil || !d.Limit.Open(d.Unhealthy) {
			s.closed++
		}
	}
}

// op is called before each change; an error means that the run is killed.
func (s *sim) op(change func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return errKilled
	}
	s.ops++
	if s.ops == s.kill {
		s.dead = true
		if !s.after {
			return errKilled
		}
	}
	err := change()
	if s.dead {
		return errKilled
	}
	return err
}

func (s *sim) Read(context.Context, bool) (*Input, error) {
	if s.dead {
		return nil, errKilled
	}
	in := &Input{Checks: s.checks, Pods: slices.Clone(s.pods), Budgets: s.budgets, Nodes: slices.Clone(s.nodes)}
	for i := range s.sets {
		in.Sets = append(in.Sets, *s.sets[i].DeepCopy())
	}
	for i := range s.machines {
		in.Machines = append(in.Machines, *s.machines[i].DeepCopy())
	}
	return in, nil
}

func (s *sim) set(name string) *machine.Set {
	return &s.sets[slices.IndexFunc(s.sets, func(x machine.Set) bool { return x.Name == name })]
}

func (s *sim) Resize(_ context.Context, x *machine.Set, replicas int) error {
	return s.op(func() error {
		now := s.set(x.Name)
		if *now.Spec.Replicas != *x.Spec.Replicas {
			return errors.New("conflict")
		}
		r := int32(replicas)
		now.Spec.Replicas = &r
		return nil
	})
}

func (s *sim) Annotate(_ context.Context, x *machine.Set, name, value string) error {
	return s.op(func() error {
		if s.set(x.Name).Annotations[name] = value; value == "" {
			delete(s.set(x.Name).Annotations, name)
		}
		return nil
	})
}

func (s *sim) Mark(_ context.Context, x *machine.Machine, goes bool) error {
	return s.op(func() error {
		for i := range s.machines {
			if m := &s.machines[i]; m.UID == x.UID && goes {
				m.Annotations[machine.DeleteAnnotation] = Mine
			} else if m.UID == x.UID {
				delete(m.Annotations, machine.DeleteAnnotation)
			}
		}
		return nil
	})
}

func (s *sim) node(name string, do func(*core.Node)) error {
	return s.op(func() error {
		for i := range s.nodes {
			if s.nodes[i].Name == name {
				do(&s.nodes[i])
			}
		}
		return nil
	})
}

func (s *sim) Cordon(_ context.Context, node, why string) error {
	return s.node(node, func(n *core.Node) {
		if !n.Spec.Unschedulable {
			n.Spec.Unschedulable, n.Annotations[cluster.Cordoned] = true, why
		}
	})
}

func (s *sim) Uncordon(_ context.Context, node string) error {
	return s.node(node, func(n *core.Node) {
		if n.Annotations[cluster.Cordoned] != "" {
			n.Spec.Unschedulable = false
			delete(n.Annotations, cluster.Cordoned)
			s.drained[node] = false
		}
	})
}

func (s *sim) Drain(_ context.Context, node string, _ time.Duration) error {
	return s.node(node, func(n *core.Node) {
		if s.unmovable != nil && s.unmovable(node) {
			return
		}
		if !n.Spec.Unschedulable {
			s.t.Errorf("%s is drained, and takes pods", node)
		}
		s.drained[node] = true
		s.pods = slices.DeleteFunc(s.pods, func(p core.Pod) bool { return p.Spec.NodeName == node })
	})
}
