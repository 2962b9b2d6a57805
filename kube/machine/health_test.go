package machine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var healthNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// check is the example of the OpenShift guide.
func check(limit string) *HealthCheck {
	c := &HealthCheck{ObjectMeta: meta.ObjectMeta{Namespace: Namespace, Name: "example"}}
	c.Spec.Selector.MatchLabels = map[string]string{RoleLabel: "worker"}
	for _, s := range []core.ConditionStatus{core.ConditionFalse, core.ConditionUnknown} {
		c.Spec.UnhealthyConditions = append(c.Spec.UnhealthyConditions, UnhealthyCondition{Type: core.NodeReady, Status: s, Timeout: meta.Duration{Duration: 5 * time.Minute}})
	}
	c.Spec.MaxUnhealthy = maximum(limit)
	return c
}

// aMachine returns a worker of a set whose node has had its Ready status for some time.
func aMachine(name string, status core.ConditionStatus, since time.Duration) (Machine, core.Node) {
	yes := true
	m := Machine{ObjectMeta: meta.ObjectMeta{
		Namespace: Namespace, Name: name, Labels: map[string]string{RoleLabel: "worker"}, CreationTimestamp: meta.NewTime(healthNow.Add(-time.Hour)),
		OwnerReferences: []meta.OwnerReference{{APIVersion: APIVersion, Kind: "MachineSet", Name: "set", Controller: &yes}},
	}}
	running := "Running"
	m.Status = Status{NodeRef: &core.ObjectReference{Name: "node-" + name}, Phase: &running}
	n := core.Node{ObjectMeta: meta.ObjectMeta{Name: "node-" + name, Labels: map[string]string{"pool": "a"}}}
	n.Status.Conditions = []core.NodeCondition{
		{Type: core.NodeMemoryPressure, Status: core.ConditionFalse, LastTransitionTime: meta.NewTime(healthNow.Add(-time.Hour))},
		{Type: core.NodeReady, Status: status, LastTransitionTime: meta.NewTime(healthNow.Add(-since))},
	}
	return m, n
}

func TestJudge(t *testing.T) {
	never := meta.Duration{}
	failed := PhaseFailed
	for name, c := range map[string]struct {
		status core.ConditionStatus
		since  time.Duration
		edit   func(*HealthCheck, *Machine, *core.Node)
		state  string
		due    time.Duration // from now
		why    string
	}{
		"ready":                    {core.ConditionTrue, time.Hour, nil, Healthy, 0, ""},
		"not ready for a while":    {core.ConditionFalse, 2 * time.Minute, nil, Pending, 3*time.Minute + time.Second, "Ready=False for 2m0s"},
		"not ready at the timeout": {core.ConditionFalse, 5 * time.Minute, nil, Pending, time.Second, "Ready=False for 5m0s"}, // strictly longer is too long
		"not ready for too long":   {core.ConditionFalse, 5*time.Minute + time.Second, nil, Unhealthy, 0, "longer than the timeout 5m0s"},
		"unknown for too long":     {core.ConditionUnknown, 6 * time.Minute, nil, Unhealthy, 0, "Ready=Unknown for 6m0s"},
		"another condition is ready": {core.ConditionTrue, time.Hour, func(c *HealthCheck, _ *Machine, _ *core.Node) {
			c.Spec.UnhealthyConditions[0].Type = core.NodeMemoryPressure
		}, Unhealthy, 0, "MemoryPressure=False"},
		"the soonest of two counts": {core.ConditionFalse, 4 * time.Minute, func(c *HealthCheck, _ *Machine, _ *core.Node) {
			c.Spec.UnhealthyConditions = append(c.Spec.UnhealthyConditions, UnhealthyCondition{Type: core.NodeMemoryPressure, Status: core.ConditionFalse, Timeout: meta.Duration{Duration: 2 * time.Hour}})
		}, Pending, time.Minute + time.Second, "Ready=False"},
		"the node is gone":    {core.ConditionTrue, 0, func(_ *HealthCheck, _ *Machine, n *core.Node) { n.Name = "" }, Unhealthy, 0, "node node-m is gone"},
		"the phase is Failed": {core.ConditionTrue, time.Hour, func(_ *HealthCheck, m *Machine, _ *core.Node) { m.Status.Phase = &failed }, Unhealthy, 0, "phase is Failed"},
		"being deleted": {core.ConditionFalse, time.Hour, func(_ *HealthCheck, m *Machine, _ *core.Node) {
			at := meta.NewTime(healthNow)
			m.DeletionTimestamp = &at
		}, Leaving, 30*time.Minute + time.Second, "being deleted"},
		"being deleted, half an hour": {core.ConditionFalse, time.Hour, func(_ *HealthCheck, m *Machine, _ *core.Node) {
			at := meta.NewTime(healthNow.Add(-30 * time.Minute))
			m.DeletionTimestamp = &at
		}, Leaving, time.Second, "being deleted"},
		"being deleted, and stuck": {core.ConditionFalse, time.Hour, func(_ *HealthCheck, m *Machine, _ *core.Node) {
			at := meta.NewTime(healthNow.Add(-30*time.Minute - time.Second))
			m.DeletionTimestamp = &at
		}, Leaving, 0, "it is being deleted, for longer than 30m0s: for the cause see kubectl -n openshift-machine-api describe machines.machine.openshift.io m"},
		"remediated outside, since when is not known": {core.ConditionTrue, time.Hour, func(_ *HealthCheck, m *Machine, _ *core.Node) {
			m.Annotations = map[string]string{ExternalAnnotation: ""}
		}, Leaving, 0, "waiting for the bare-metal provider to power-cycle its host (host.metal3.io/external-remediation)"},
		"remediated outside for 10 minutes": {core.ConditionFalse, time.Hour, func(_ *HealthCheck, m *Machine, _ *core.Node) {
			marked(m, 10*time.Minute)
		}, Leaving, 20*time.Minute + time.Second, "power-cycle"},
		"remediated outside for 10 days": {core.ConditionTrue, time.Hour, func(_ *HealthCheck, m *Machine, _ *core.Node) {
			marked(m, 240*time.Hour)
		}, Leaving, 0, "for longer than 30m0s: if the provider does not act, remove the mark: kubectl -n openshift-machine-api annotate machines.machine.openshift.io m host.metal3.io/external-remediation-"},
		"Failed, and remediated outside": {core.ConditionTrue, time.Hour, func(_ *HealthCheck, m *Machine, _ *core.Node) {
			marked(m, time.Minute)
			m.Status.Phase = &failed
		}, Unhealthy, 0, "phase is Failed"},
		"no node yet, new": {core.ConditionTrue, 0, func(_ *HealthCheck, m *Machine, _ *core.Node) {
			m.Status.NodeRef = nil
			at := meta.NewTime(healthNow.Add(-9 * time.Minute))
			m.Status.LastUpdated = &at
		}, Pending, time.Minute + time.Second, "no node for 9m0s, of nodeStartupTimeout 10m0s"},
		"no node, too long": {core.ConditionTrue, 0, func(_ *HealthCheck, m *Machine, _ *core.Node) {
			m.Status.NodeRef = nil
			at := meta.NewTime(healthNow.Add(-11 * time.Minute))
			m.Status.LastUpdated = &at
		}, Unhealthy, 0, "no node for 11m0s"},
		"no node, never heard": {core.ConditionTrue, 0, func(_ *HealthCheck, m *Machine, _ *core.Node) { m.Status.NodeRef = nil }, Unhealthy, 0, "no node for 1h0m0s"},
		"no node, no timeout": {core.ConditionTrue, 0, func(c *HealthCheck, m *Machine, _ *core.Node) {
			m.Status.NodeRef = nil
			c.Spec.NodeStartupTimeout = &never
		}, Pending, 0, "no time limit"},
		"a failed one can leave": {core.ConditionTrue, 0, func(_ *HealthCheck, m *Machine, _ *core.Node) {
			at := meta.NewTime(healthNow)
			m.DeletionTimestamp, m.Status.Phase = &at, &failed
		}, Leaving, 30*time.Minute + time.Second, ""},
	} {
		m, n := aMachine("m", c.status, c.since)
		of := check("40%")
		node := &n
		if c.edit != nil {
			if c.edit(of, &m, &n); n.Name == "" {
				node = nil
			}
		}
		j := Judge(of, &m, node, time.Time{}, healthNow)
		due := time.Duration(0)
		if !j.Due.IsZero() {
			due = j.Due.Sub(healthNow)
		}
		if j.State != c.state || due != c.due || !strings.Contains(j.Why, c.why) {
			t.Errorf("%s: %s, due in %s, %q; want %s, %s, %q", name, j.State, due, j.Why, c.state, c.due, c.why)
		}
	}
}

// marked sets ExternalAnnotation on a machine, as a client did some time ago.
func marked(m *Machine, ago time.Duration) {
	m.Annotations = map[string]string{ExternalAnnotation: ""}
	at, other := meta.NewTime(healthNow.Add(-ago)), meta.NewTime(healthNow.Add(-1000*time.Hour))
	m.ManagedFields = []meta.ManagedFieldsEntry{
		{Manager: "machineset-controller", Time: &other, FieldsV1: meta.NewFieldsV1(`{"f:metadata":{"f:annotations":{".":{},"f:other":{}},"f:labels":{}},"f:spec":{}}`)},
		{Manager: "machine-healthcheck", Time: &at, FieldsV1: meta.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:host.metal3.io/external-remediation":{}}}}`)},
	}
}

// pool returns machines of which the first ones are unhealthy, each longer than the one before.
func pool(machines, ill int) (in Input) {
	in = Input{Now: healthNow, Check: check("40%")}
	for i := range machines {
		status, since := core.ConditionTrue, time.Hour
		if i < ill {
			status, since = core.ConditionFalse, time.Duration(10+i)*time.Minute
		}
		m, n := aMachine(fmt.Sprintf("m%02d", i), status, since)
		in.Machines, in.Nodes = append(in.Machines, m), append(in.Nodes, n)
	}
	in.Checks = []HealthCheck{*in.Check}
	return in
}

func decide(t *testing.T, in Input) *Decision {
	t.Helper()
	d, err := Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func names(list []Judged) (out []string) {
	for _, j := range list {
		out = append(out, j.Machine.Name)
	}
	return out
}

// TestDecide tests that one machine at a time is remediated, the one unhealthy the longest first,
// and none with 11 of 25.
func TestDecide(t *testing.T) {
	d := decide(t, pool(25, 10))
	if d.Expected != 25 || d.Healthy != 15 || d.Allowed != 0 || fmt.Sprint(names(d.Remediate)) != "[m09]" || len(d.Queued) != 9 || d.Queued[0].Machine.Name != "m08" {
		t.Errorf("%d of %d healthy, %d allowed, now %v, then %v", d.Healthy, d.Expected, d.Allowed, names(d.Remediate), names(d.Queued))
	}
	d = decide(t, pool(25, 11))
	if len(d.Remediate) != 0 || len(d.Queued) != 11 || d.Words()[0] != "40 % of 25 machines is 10; 11 are unhealthy: nothing is remediated" {
		t.Errorf("now %v: %q", names(d.Remediate), d.Words())
	}
	in := pool(25, 4)
	at := meta.NewTime(healthNow)
	in.Machines[3].DeletionTimestamp = &at
	if d = decide(t, in); len(d.Remediate) != 0 || d.Unhealthy != 4 {
		t.Errorf("one at a time, and one leaves: %v, %d unhealthy", names(d.Remediate), d.Unhealthy)
	}
}

// TestScaleClosesRemediation tests that machines that have not joined count as unhealthy, so a
// scale can stop remediation: 30 machines, 25 more, 40 %.
func TestScaleClosesRemediation(t *testing.T) {
	in := pool(55, 0)
	for i := 30; i < 55; i++ {
		in.Machines[i].Status.NodeRef = nil
		at := meta.NewTime(healthNow.Add(-time.Minute))
		in.Machines[i].Status.LastUpdated = &at
	}
	d := decide(t, in)
	if d.Sentence != "40 % of 55 machines is 22; 25 are unhealthy: nothing is remediated" || !d.Next.Equal(healthNow.Add(9*time.Minute+time.Second)) {
		t.Errorf("%s; next %s", d.Sentence, d.Next)
	}
	for i := 30; i < 33; i++ {
		in.Machines[i].Status.NodeRef = &core.ObjectReference{Name: in.Nodes[i].Name}
	}
	if d := decide(t, in); !d.Limit.Open(d.Unhealthy) {
		t.Errorf("three have joined: %s", d.Sentence)
	}
}

func TestLeftAlone(t *testing.T) {
	paused := func(in *Input) { in.Check.Annotations = map[string]string{PausedAnnotation: ""} }
	for name, c := range map[string]struct {
		edit func(*Input)
		want string
	}{
		"no owner":      {func(in *Input) { in.Machines[0].OwnerReferences = nil }, "machine m00 not remediated: no machine set or other controller owns it"},
		"control plane": {func(in *Input) { in.Nodes[0].Labels["node-role.kubernetes.io/control-plane"] = "" }, "machine m00 not remediated: control plane machine"},
		"master by its label": {func(in *Input) {
			in.Machines[0].Labels[RoleLabel] = "master"
			in.Check.Spec.Selector.MatchLabels = nil
		}, "control plane machine, not remediated unless the operator runs with --remediate-control-plane"},
		"another check": {func(in *Input) {
			other := *in.Check
			other.Name = "second"
			in.Checks = append(in.Checks, other)
		}, "machine m00 not remediated: MachineHealthCheck second also selects it"},
		"medik8s": {func(in *Input) {
			o, err := NodeHealthCheck([]byte(`{"metadata":{"name":"nhc"},"spec":{"selector":{"matchLabels":{"pool":"a"}}}}`))
			if err != nil {
				panic(err)
			}
			in.Others = []Other{o}
		}, "machine m00 not remediated: NodeHealthCheck nhc handles its node node-m00"},
		"the strategy is another's": {func(in *Input) {
			in.Check.Annotations = map[string]string{StrategyAnnotation: StrategyExternal}
		}, "machine m00 not remediated: its check has the machine.openshift.io/remediation-strategy external-baremetal"},
		"paused": {paused, "nothing is remediated: the check is paused"},
		"a roll-out": {func(in *Input) {
			in.Pauses = []string{"a roll-out of the kubelet's settings runs: 3 of 25 nodes are done"}
		}, "nothing is remediated: a roll-out of the kubelet's settings runs"},
		"somebody else's": {func(in *Input) {
			in.Check.Spec.RemediationTemplate = &core.ObjectReference{Kind: "Metal3RemediationTemplate", Name: "t"}
		}, "the controller of Metal3RemediationTemplate t"},
	} {
		in := pool(25, 1)
		c.edit(&in)
		d := decide(t, in)
		if words := strings.Join(d.Words(), "\n"); len(d.Remediate) != 0 || d.Unhealthy != 1 || !strings.Contains(words, c.want) {
			t.Errorf("%s: now %v, %d unhealthy: %s", name, names(d.Remediate), d.Unhealthy, words)
		}
	}
	in := pool(25, 1)
	in.Nodes[0].Labels["node-role.kubernetes.io/master"] = ""
	in.ControlPlane = true
	if d := decide(t, in); len(d.Remediate) != 1 {
		t.Errorf("the control plane is allowed: %v", d.Words())
	}
	in.Machines[0].OwnerReferences[0].Kind, in.Machines[0].OwnerReferences[0].Name = "ControlPlaneMachineSet", "cluster"
	if d := decide(t, in); len(d.Remediate) != 1 {
		t.Errorf("a ControlPlaneMachineSet owns it, and makes another: %v", d.Words())
	}
	// Of a machine that failed nothing is to be saved: it is deleted whatever the strategy.
	in = pool(25, 1)
	in.Check.Annotations = map[string]string{StrategyAnnotation: StrategyExternal}
	failed := PhaseFailed
	in.Machines[7].Status.Phase = &failed
	if d := decide(t, in); fmt.Sprint(names(d.Remediate)) != "[m07]" {
		t.Errorf("m07 has failed: %v", d.Words())
	}
	in.Check.Annotations[StrategyAnnotation] = "reboot" // OpenShift's controller ignores it
	if d := decide(t, in); fmt.Sprint(names(append(d.Remediate, d.Queued...))) != "[m07 m00]" {
		t.Errorf("an unknown strategy is none: %v", d.Words())
	}
	// An empty selector picks all machines of its namespace, and none of another one.
	in = pool(25, 0)
	in.Check.Spec.Selector = meta.LabelSelector{}
	in.Machines[0].Namespace = "elsewhere"
	in.Machines[1].Labels = nil
	if d := decide(t, in); d.Expected != 24 {
		t.Errorf("%d machines", d.Expected)
	}
}

// TestOverlapIsNamed tests that another controller of healthy machines is named before anything
// happens.
func TestOverlapIsNamed(t *testing.T) {
	in := pool(7, 0)
	other := *check("1")
	other.Name = "second"
	other.Spec.Selector = meta.LabelSelector{}
	in.Checks = append(in.Checks, other)
	words := strings.Join(decide(t, in).Words(), "\n")
	if !strings.Contains(words, "MachineHealthCheck second also covers m00, m01, m02, m03, m04 and 2 more") {
		t.Error(words)
	}
}

func TestClusterAPI(t *testing.T) {
	machines := [][]byte{
		[]byte(`{"metadata":{"name":"a","namespace":"fleet","labels":{"x":"y"}},"spec":{"clusterName":"c"},"status":{"nodeRef":{"name":"node-1"}}}`),
		[]byte(`{"metadata":{"name":"b","namespace":"fleet","labels":{"x":"y"}},"spec":{"clusterName":"c"},"status":{}}`),
		[]byte(`{"metadata":{"name":"c","namespace":"fleet","labels":{"x":"y"}},"spec":{"clusterName":"other"},"status":{"nodeRef":{"name":"node-2"}}}`),
		[]byte(`{"metadata":{"name":"d","namespace":"fleet"},"spec":{"clusterName":"c"},"status":{"nodeRef":{"name":"node-3"}}}`),
	}
	selects := `"clusterName":"c","selector":{"matchLabels":{"x":"y"}}`
	for spec, want := range map[string]string{
		selects:                            "it remediates while at most 2 of 2 machines are unhealthy",
		selects + `,"maxUnhealthy":"40%"`:  "at most 0 of 2 machines",
		selects + `,"maxUnhealthy":"400%"`: `the limit "400%" is more than all of 2 machines: it remediates any number of unhealthy machines`,
		selects + `,"remediation":{"triggerIf":{"unhealthyLessThanOrEqualTo":"50%"}}`:              "at most 1 of 2 machines",
		selects + `,"remediation":{"triggerIf":{"unhealthyLessThanOrEqualTo":2}}`:                  "at most 2 of 2 machines",
		selects + `,"remediation":{"triggerIf":{"unhealthyLessThanOrEqualTo":"2"}}`:                "is a string without %: nothing is remediated",
		selects + `,"remediation":{"triggerIf":{"unhealthyInRange":"[3-5]"}}`:                      "while 3 to 5 of 2 machines",
		selects + `,"remediation":{"triggerIf":{"unhealthyInRange":"[3-5]"}},"maxUnhealthy":"40%"`: "while 3 to 5 of 2 machines", // it takes precedence
		selects + `,"unhealthyRange":"[5-3]"`:                                                      "ends before it begins: nothing is remediated",
		selects + `,"unhealthyRange":"3-5"`:                                                        "not a range such as [3-5]",
	} {
		o, words, err := ClusterAPI([]byte(`{"metadata":{"name":"chk","namespace":"fleet"},"spec":{`+spec+`}}`), machines)
		if err != nil || !strings.Contains(words, want) {
			t.Errorf("%s: %q %v, want %q", spec, words, err, want)
			continue
		}
		for node, mine := range map[string]bool{"node-1": true, "node-2": false, "node-3": false} {
			if o.Selects(&core.Node{ObjectMeta: meta.ObjectMeta{Name: node}}) != mine {
				t.Errorf("%s: %s", spec, node)
			}
		}
	}
	// An empty selector is refused there, and selects nothing here.
	_, words, err := ClusterAPI([]byte(`{"metadata":{"name":"chk","namespace":"fleet"},"spec":{"clusterName":"c"}}`), machines)
	if err != nil || !strings.Contains(words, "0 of 0 machines") {
		t.Errorf("%q %v", words, err)
	}
	if o, err := NodeHealthCheck([]byte(`{"metadata":{"name":"nhc"},"spec":{"selector":{},"pauseRequests":["upgrade"]}}`)); err != nil || o.Who != "NodeHealthCheck nhc (paused)" || !o.Selects(&core.Node{}) {
		t.Errorf("%+v %v", o, err)
	}
	for _, bad := range []string{`x`, `{"spec":{"selector":{"matchExpressions":[{"key":"a","operator":"Near"}]}}}`} {
		if _, err := NodeHealthCheck([]byte(bad)); err == nil {
			t.Errorf("%s was read", bad)
		}
		if _, _, err := ClusterAPI([]byte(bad), nil); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}
