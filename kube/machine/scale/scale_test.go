package scale

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"fettle.dev/fettle/kube/machine"
)

// setLabel is the name of a machine's machine set.
const setLabel = "machine.openshift.io/cluster-api-machineset"

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fleet returns sets, each in its own zone, with the given numbers of machines, and a check of all.
func fleet(limit string, replicas ...int) Input {
	in := Input{Now: now}
	yes := true
	for i, number := range replicas {
		n := int32(number)
		name, zone := fmt.Sprintf("set-%c", 'a'+i), fmt.Sprintf("zone-%c", 'a'+i)
		in.Sets = append(in.Sets, machine.Set{
			ObjectMeta: meta.ObjectMeta{Namespace: machine.Namespace, Name: name},
			Spec:       machine.SetSpec{Replicas: &n, Selector: meta.LabelSelector{MatchLabels: map[string]string{setLabel: name}}},
		})
		for j := range number {
			m := machine.Machine{ObjectMeta: meta.ObjectMeta{
				Namespace: machine.Namespace, Name: fmt.Sprintf("%s-%02d", name, j), Labels: map[string]string{setLabel: name, machine.RoleLabel: "worker", machine.ZoneLabel: zone},
				OwnerReferences: []meta.OwnerReference{{Kind: "MachineSet", Name: name, Controller: &yes}},
			}}
			m.Status.NodeRef = &core.ObjectReference{Name: "node-" + m.Name}
			node := core.Node{ObjectMeta: meta.ObjectMeta{Name: "node-" + m.Name}}
			node.Status.Conditions = []core.NodeCondition{{Type: core.NodeReady, Status: core.ConditionTrue}}
			in.Machines, in.Nodes = append(in.Machines, m), append(in.Nodes, node)
		}
	}
	if limit != "" {
		c := machine.HealthCheck{ObjectMeta: meta.ObjectMeta{Namespace: machine.Namespace, Name: "all"}}
		m := intstr.Parse(limit)
		c.Spec.MaxUnhealthy = &m
		c.Spec.UnhealthyConditions = []machine.UnhealthyCondition{{Type: core.NodeReady, Status: core.ConditionFalse, Timeout: meta.Duration{Duration: time.Minute}}}
		c.Spec.NodeStartupTimeout = &meta.Duration{Duration: 20 * time.Minute}
		in.Checks = []machine.HealthCheck{c}
	}
	return in
}

func plan(t *testing.T, in Input, machines int) *Plan {
	t.Helper()
	p, err := To(in, machines)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// outline formats a plan: the replicas of the sets after each step.
func outline(p *Plan) string {
	var out []string
	for _, s := range p.Steps {
		var sets []string
		for _, r := range s.Sets {
			sets = append(sets, fmt.Sprintf("%s %d-%d", strings.TrimPrefix(r.Set, "set-"), r.From, r.To))
		}
		out = append(out, strings.Join(sets, " "))
	}
	return strings.Join(out, ", ")
}

// TestNeverJoined tests that a machine that never joined counts against the limit of its check,
// even if it may take any time to join (nodeStartupTimeout 0).
func TestNeverJoined(t *testing.T) {
	in := fleet("40%", 10)
	in.Checks[0].Spec.NodeStartupTimeout = &meta.Duration{}
	for i := range 3 {
		in.Machines[i].Status.NodeRef = nil
	}
	// 3 + N <= 40 % of 10 + N: 1 at a time, and then 2.
	if got := outline(plan(t, in, 13)); got != "a 10-11, a 11-13" {
		t.Error(got)
	}
}

func TestUp(t *testing.T) {
	for name, c := range map[string]struct {
		in   Input
		to   int
		want string
	}{
		// 30 machines, 40 %: at the most 20 at once, then 33, and the batch is 50.
		"as remediation allows":  {fleet("40%", 30), 150, "a 30-50, a 50-83, a 83-133, a 133-150"},
		"as the provider allows": {fleet("100%", 30), 150, "a 30-80, a 80-130, a 130-150"},
		"without a check":        {fleet("", 30), 81, "a 30-80, a 80-81"},
		"zones are balanced":     {fleet("100%", 4, 1, 2), 12, "b 1-4 c 2-4"},
		"a number":               {fleet("3", 10), 18, "a 10-13, a 13-16, a 16-18"},
	} {
		p := plan(t, c.in, c.to)
		if got := outline(p); got != c.want || len(p.Blocked) > 0 {
			t.Errorf("%s: %s, want %s; %q", name, got, c.want, p.Blocked)
		}
	}
	p := plan(t, fleet("40%", 30), 150)
	if s := p.Steps[0]; s.TimeoutS != 1200 || len(s.Remediation) != 1 || s.Remediation[0] != "all: 40 % of 50 machines is 20; 20 are unhealthy: remediation is allowed" {
		t.Errorf("%+v", s)
	}
	if p := plan(t, fleet("", 3), 4); len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "no MachineHealthCheck covers machine set set-a") || p.Steps[0].TimeoutS != 600 {
		t.Errorf("%+v", p)
	}
}

// TestUpKeepsRemediationOpen tests many plans: in every step remediation stays allowed while its
// machines join, by the check's own arithmetic. One machine more would exceed the limit or the
// batch size, except in the last step.
func TestUpKeepsRemediationOpen(t *testing.T) {
	for _, limit := range []string{"10%", "33%", "40%", "50%", "100%", "1", "5"} {
		for machines := 2; machines < 40; machines += 5 {
			in := fleet(limit, machines, machines/2)
			total := machines + machines/2
			p := plan(t, in, total+97)
			max := in.Checks[0].Spec.MaxUnhealthy
			for i, s := range p.Steps {
				n := 0
				for _, r := range s.Sets {
					n += r.To - r.From
				}
				total += n
				if !machine.LimitOf(max, total).Open(n) {
					t.Errorf("%s of %d, step %d: %d on their way close remediation", limit, total, i, n)
				}
				if last := i == len(p.Steps)-1; !last && n < MaxBatch && machine.LimitOf(max, total+1).Open(n+1) {
					t.Errorf("%s of %d, step %d: %d, and one more would do", limit, total, i, n)
				}
			}
			if blocked := len(p.Blocked) > 0; blocked != (total != machines+machines/2+97) {
				t.Errorf("%s: %d machines in the end, blocked %q", limit, total, p.Blocked)
			}
		}
	}
}

func TestUpIsBlocked(t *testing.T) {
	in := fleet("40%", 5)
	for i := range 2 {
		in.Nodes[i].Status.Conditions[0].Status = core.ConditionFalse
	}
	p := plan(t, in, 10)
	if len(p.Steps) != 0 || len(p.Blocked) != 1 || !strings.Contains(p.Blocked[0], "all: 40 % of 6 machines is 2 (2.4 rounded down); 3 are unhealthy: nothing is remediated") {
		t.Errorf("%+v", p)
	}
}

// pods adds pods to a node.
func pods(in *Input, node string, number int, edit func(*core.Pod)) {
	for i := range number {
		p := core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: "app", Name: fmt.Sprintf("%s-%d", node, i), Labels: map[string]string{"app": "web"}}}
		p.Spec.NodeName = node
		if edit != nil {
			edit(&p)
		}
		in.Pods = append(in.Pods, p)
	}
}

// TestDownOrder tests that machines without pods are removed first, then marked, not Ready and
// cordoned ones, then those with the fewest pods.
func TestDownOrder(t *testing.T) {
	in := fleet("", 7)
	yes := true
	failedPhase := machine.PhaseFailed
	in.Machines[6].Status.Phase = &failedPhase
	in.Machines[5].Annotations = map[string]string{machine.DeleteAnnotation: "true"}
	in.Nodes[4].Status.Conditions[0].Status = core.ConditionUnknown
	in.Nodes[3].Spec.Unschedulable = true
	pods(&in, "node-set-a-00", 2, nil)
	pods(&in, "node-set-a-01", 3, nil)
	pods(&in, "node-set-a-02", 1, nil)
	pods(&in, "node-set-a-02", 9, func(p *core.Pod) {
		p.OwnerReferences = []meta.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: &yes}}
	})
	pods(&in, "node-set-a-02", 9, func(p *core.Pod) { p.Annotations = map[string]string{core.MirrorPodAnnotationKey: "x"} })
	pods(&in, "node-set-a-02", 9, func(p *core.Pod) { p.Status.Phase = core.PodSucceeded })
	p := plan(t, in, 1)
	if got := fmt.Sprint(p.Steps[0].Remove, p.Steps[1].Remove); got != "[set-a-06] [set-a-05 set-a-04 set-a-03 set-a-02 set-a-00]" || p.Steps[0].Evictions != 0 || p.Steps[1].Evictions != 3 || len(p.Blocked) != 0 {
		t.Errorf("%s, %d evictions, %q", got, p.Steps[1].Evictions, p.Blocked)
	}
}

// TestDownZones tests that the zones stay balanced, and that requests for machines that were never
// created are canceled first.
func TestDownZones(t *testing.T) {
	in := fleet("", 5, 2, 3)
	if got := outline(plan(t, in, 5)); got != "a 5-1 c 3-2" {
		t.Errorf("%s", got)
	}
	nine := int32(9)
	in.Sets[0].Spec.Replicas = &nine
	p := plan(t, in, 10)
	if got := outline(p); got != "a 9-5" || len(p.Steps[0].Remove) != 0 || p.Steps[0].Until != "nothing: the removed machines were never created" || !strings.Contains(p.Notes[0], "requested machines that were never created: 4;") {
		t.Errorf("%s: %+v", got, p)
	}
	if got := outline(plan(t, in, 8)); got != "a 9-5, a 5-3" {
		t.Error(got)
	}
}

// TestDownTakesTime tests the duration with QPS 5 and burst 10: 250 pods need 500 requests, ten of
// them without a wait.
func TestDownTakesTime(t *testing.T) {
	in := fleet("", 2)
	seconds := int64(30)
	pods(&in, "node-set-a-00", 250, func(p *core.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds })
	pods(&in, "node-set-a-01", 300, nil)
	p := plan(t, in, 1)
	if s := p.Steps[0]; s.Evictions != 250 || s.AtLeastS != 98+30 {
		t.Errorf("%+v", s)
	}
	if throttled(10, 5, 10) != 0 || throttled(11, 5, 10) != 0.2 {
		t.Error("the burst is free")
	}
	in.QPS, in.Burst = 50, 100
	if s := plan(t, in, 1).Steps[0]; s.AtLeastS != 8+30 {
		t.Errorf("%+v", s)
	}
}

func TestDownIsBlocked(t *testing.T) {
	budget := func(name string, allowed int32) policy.PodDisruptionBudget {
		b := policy.PodDisruptionBudget{ObjectMeta: meta.ObjectMeta{Namespace: "app", Name: name}}
		b.Spec.Selector = &meta.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		b.Status.DisruptionsAllowed = allowed
		return b
	}
	for name, c := range map[string]struct {
		budgets []policy.PodDisruptionBudget
		to      int
		router  bool
		blocked string
		note    string
	}{
		"nothing in the way":   {nil, 1, false, "", ""},
		"a budget of none":     {[]policy.PodDisruptionBudget{budget("web", 0)}, 1, false, "PodDisruptionBudget app/web allows no disruption now, 3 of its pods have to move", ""},
		"a budget of few":      {[]policy.PodDisruptionBudget{budget("web", 2)}, 1, false, "", "PodDisruptionBudget app/web allows 2 disruptions at once, 3 of its pods have to move"},
		"a budget of enough":   {[]policy.PodDisruptionBudget{budget("web", 3)}, 1, false, "", ""},
		"two budgets":          {[]policy.PodDisruptionBudget{budget("web", 9), budget("other", 9)}, 1, false, "has 2 PodDisruptionBudgets", ""},
		"routers on the last":  {nil, 0, true, "machine set set-a would lose its last machine, but routers run there: openshift-ingress/router", ""},
		"routers on one of it": {nil, 1, true, "", ""},
		"no workers at all":    {nil, 0, false, "no schedulable node except those of the control plane would be left", ""},
	} {
		in := fleet("", 2)
		in.Budgets = c.budgets
		pods(&in, "node-set-a-00", 3, nil)
		pods(&in, "node-set-a-01", 4, nil)
		if c.router {
			pods(&in, "node-set-a-01", 1, func(p *core.Pod) {
				p.Namespace, p.Name, p.Labels = "openshift-ingress", "router", map[string]string{routerLabel: "default"}
			})
		}
		p := plan(t, in, c.to)
		blocked, notes := strings.Join(p.Blocked, "\n"), strings.Join(p.Notes, "\n")
		if !strings.Contains(blocked, c.blocked) || c.blocked == "" && blocked != "" || !strings.Contains(notes, c.note) || c.note == "" && strings.Contains(notes, "Budget") {
			t.Errorf("%s: blocked %q, notes %q", name, blocked, notes)
		}
	}
}

// TestRoll tests that every machine is replaced once: as many new machines as remediation allows
// join first, then as many old ones are removed.
func TestRoll(t *testing.T) {
	in := fleet("40%", 5, 2)
	p, err := Roll(in)
	if err != nil {
		t.Fatal(err)
	}
	// 4 of 11 are 40 %, and of set-a one is left then.
	if got := outline(p); got != "a 5-9, a 9-5, a 5-6, a 6-5, b 2-4, b 4-2" || len(p.Blocked) > 0 || p.From != 7 || p.To != 7 {
		t.Errorf("%s, %q", got, p.Blocked)
	}
	gone := map[string]int{}
	for i, s := range p.Steps {
		for _, name := range s.Remove {
			gone[name]++
		}
		if len(s.Remediation) != 1 || !strings.HasSuffix(s.Remediation[0], "remediation is allowed") {
			t.Errorf("step %d: %q", i, s.Remediation)
		}
		if joins := len(s.Remove) == 0; joins != (i%2 == 0) {
			t.Errorf("step %d removes %v", i, s.Remove)
		}
	}
	for _, m := range in.Machines {
		if gone[m.Name] != 1 {
			t.Errorf("machine %s goes %d times", m.Name, gone[m.Name])
		}
	}
	in = fleet("10%", 5)
	if p, err = Roll(in); err != nil || len(p.Steps) != 0 || len(p.Blocked) != 1 {
		t.Errorf("%+v %v", p, err)
	}
	in = fleet("", 3)
	in.Batch = 1
	if p, err = Roll(in); err != nil || outline(p) != "a 3-4, a 4-3, a 3-4, a 4-3, a 3-4, a 4-3" {
		t.Errorf("%s %v", outline(p), err)
	}
}

// TestDownSaysRemediation tests that a plan reports that remediation stops while a set shrinks and
// its machines leave.
func TestDownSaysRemediation(t *testing.T) {
	p := plan(t, fleet("40%", 10), 4)
	if s := p.Steps[0]; len(s.Remediation) != 1 || s.Remediation[0] != "all: 40 % of 10 machines is 4; 6 are unhealthy: nothing is remediated" {
		t.Errorf("%+v", s)
	}
}

func TestRefused(t *testing.T) {
	if _, err := To(Input{}, 3); err == nil || !strings.Contains(err.Error(), "at least one machine set") {
		t.Error(err)
	}
	in := fleet("", 1)
	if _, err := To(in, -1); err == nil || !strings.Contains(err.Error(), "-1 machines") {
		t.Error(err)
	}
	in.Batch = -2
	if _, err := To(in, 3); err == nil || !strings.Contains(err.Error(), "batch -2, ") {
		t.Error(err)
	}
	in = fleet("40%", 1)
	in.Checks[0].Spec.Selector.MatchExpressions = []meta.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}
	if _, err := To(in, 3); err == nil || !strings.Contains(err.Error(), "MachineHealthCheck all: spec.selector") {
		t.Error(err)
	}
	// Sets that are beyond what a cluster is promised to bear can shrink, and grow no more.
	large := fleet("", MaxMachines+3)
	for _, more := range []int{MaxMachines + 4, math.MaxInt} {
		if _, err := To(large, more); !errors.Is(err, ErrTooMany) {
			t.Errorf("%d: %v", more, err)
		}
	}
	if p := plan(t, large, MaxMachines+1); p.To != MaxMachines+1 || len(p.Steps) == 0 {
		t.Errorf("%+v", p.Steps)
	}
	if p := plan(t, fleet("", 3), 3); len(p.Steps) != 0 || !strings.Contains(p.Notes[0], "already have 3 machines in total; nothing to do") {
		t.Errorf("%+v", p)
	}
}
