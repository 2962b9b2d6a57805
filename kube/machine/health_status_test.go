package machine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func find(t *testing.T, s HealthCheckStatus, kind string) Condition {
	t.Helper()
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c
		}
	}
	t.Fatalf("no condition %s among %+v", kind, s.Conditions)
	return Condition{}
}

func TestStatus(t *testing.T) {
	for name, c := range map[string]struct {
		machines, ill  int
		edit           func(*Input)
		allowed        core.ConditionStatus
		status         core.ConditionStatus
		reason, says   string
		remediationsOK int32
	}{
		"all are well":       {25, 0, nil, core.ConditionTrue, core.ConditionFalse, NothingToDo, "", 10},
		"some are ill":       {25, 4, nil, core.ConditionTrue, core.ConditionTrue, InProgress, "machine m03 will be replaced: node node-m03 is Ready=False for longer than the timeout 5m0s. 3 machines more after that", 6},
		"as many as allowed": {25, 10, nil, core.ConditionTrue, core.ConditionTrue, InProgress, "machine m09 will be replaced", 0},
		"too many":           {25, 11, nil, core.ConditionFalse, core.ConditionFalse, TooManyUnhealthy, "", 0},
		"it waits":           {25, 1, func(in *Input) { in.Pauses = []string{"an upgrade runs"} }, core.ConditionTrue, core.ConditionFalse, Waiting, "nothing is remediated: an upgrade runs", 9},
		"one is on its way": {25, 2, func(in *Input) {
			at := meta.NewTime(healthNow)
			in.Machines[1].DeletionTimestamp = &at
		}, core.ConditionTrue, core.ConditionTrue, InProgress, "machine m01 is being replaced: it is being deleted since 2026-03-01T12:00:00Z. 1 machine more after that", 8},
		"one does not come to its end": {25, 2, func(in *Input) {
			at := meta.NewTime(healthNow.Add(-time.Hour))
			in.Machines[1].DeletionTimestamp = &at
		}, core.ConditionTrue, core.ConditionFalse, Stuck, "machine m01 is being replaced: it is being deleted since 2026-03-01T11:00:00Z, for longer than 30m0s: for the cause see kubectl -n openshift-machine-api describe machines.machine.openshift.io m01. nothing else is remediated until this replacement ends, or no check selects the machine. 1 machine more after that", 8},
		"a limit that is none": {25, 1, func(in *Input) { in.Check.Spec.MaxUnhealthy = maximum("400%") }, core.ConditionFalse, core.ConditionFalse, BadCheck,
			`maxUnhealthy is "400%"; want at most 100%: nothing is remediated`, 0},
		"left alone": {25, 7, func(in *Input) {
			for i := range in.Machines {
				in.Machines[i].OwnerReferences = nil
			}
		}, core.ConditionTrue, core.ConditionFalse, LeftAlone, "no machine set or other controller owns it, so nothing would replace it. 2 machines more are not remediated", 3},
	} {
		in := pool(c.machines, c.ill)
		if c.edit != nil {
			c.edit(&in)
		}
		d := decide(t, in)
		s := d.Status(HealthCheckStatus{}, healthNow)
		allowed, doing := find(t, s, RemediationAllowed), find(t, s, Remediating)
		if allowed.Status != c.allowed || allowed.Message != d.Sentence || doing.Status != c.status || doing.Reason != c.reason || !strings.Contains(doing.Message, c.says) {
			t.Errorf("%s: %+v\n%+v", name, allowed, doing)
		}
		if *s.ExpectedMachines != c.machines || *s.CurrentHealthy != c.machines-c.ill || *s.RemediationsAllowed != c.remediationsOK {
			t.Errorf("%s: %d of %d healthy, %d allowed", name, *s.CurrentHealthy, *s.ExpectedMachines, *s.RemediationsAllowed)
		}
		// A minute later the same decision is the same status: nothing is written.
		in.Now = in.Now.Add(time.Minute)
		again := decide(t, in).Status(s, in.Now)
		if fmt.Sprint(again.Conditions) != fmt.Sprint(s.Conditions) {
			t.Errorf("%s: a minute later %+v, before %+v", name, again.Conditions, s.Conditions)
		}
	}
}

// TestStuck tests that a deletion that does not end is reported in time, by its check and by
// waiting checks. A machine that no check selects any more blocks nothing.
func TestStuck(t *testing.T) {
	in := pool(3, 2)
	at := meta.NewTime(healthNow.Add(-10 * time.Minute))
	in.Machines[0].DeletionTimestamp = &at
	d := decide(t, in)
	if want := healthNow.Add(20*time.Minute + time.Second); !d.Next.Equal(want) || d.Stuck() != 0 {
		t.Errorf("it is looked at again at %s, want %s; %d stuck", d.Next, want, d.Stuck())
	}
	second := check("100%")
	second.Name, second.Spec.Selector.MatchLabels = "second", map[string]string{"pool": "b"}
	m, n := aMachine("other", core.ConditionFalse, time.Hour)
	m.Labels = map[string]string{"pool": "b"}
	c := Cluster{
		Now: d.Next, Checks: []HealthCheck{*in.Check, *second},
		Machines: append(slices.Clone(in.Machines), m), Nodes: append(slices.Clone(in.Nodes), n),
	}
	c.Checks[0].Spec.MaxUnhealthy = maximum("100%")
	all := c.Decide()
	if all[0].Stuck() != 1 || Turn(all) != nil {
		t.Errorf("%v", all[0].Words())
	}
	if words := strings.Join(all[1].Words(), "\n"); !strings.Contains(words, "machine m00 of MachineHealthCheck example is being replaced: it is being deleted since 2026-03-01T11:50:00Z, for longer than 30m0s") {
		t.Errorf("who waits does not say for what:\n%s", words)
	}
	c.Machines[0].Labels = nil
	if all = c.Decide(); all[0].Stuck() != 0 || Turn(all) == nil {
		t.Errorf("no check selects it, and it holds up the others: %v %v", all[0].Words(), all[1].Words())
	}
}

// TestLeftOverAnnotation tests that a mark of the bare-metal provider delays remediation for half
// an hour. Then it is reported as stuck, and the unhealthy machines are remediated. The machine
// counts against the limit all the time.
func TestLeftOverAnnotation(t *testing.T) {
	in := pool(25, 2)
	in.Machines[20].Annotations = map[string]string{ExternalAnnotation: ""}
	in.Machines[20].UID = "u20"
	in.External = map[types.UID]time.Time{"u20": healthNow}
	d := decide(t, in)
	if len(d.Remediate) != 0 || len(d.Leaving) != 1 || d.Unhealthy != 3 || d.Stuck() != 0 {
		t.Errorf("one at a time: %v", d.Words())
	}
	in.Now = d.Next
	if want := healthNow.Add(StuckAfter + time.Second); !d.Next.Equal(want) {
		t.Fatalf("it is looked at again at %s, want %s", d.Next, want)
	}
	d = decide(t, in)
	if len(d.Remediate) != 1 || d.Unhealthy != 3 || d.Stuck() != 1 {
		t.Errorf("it is a left-over: %v", d.Words())
	}
	if c := find(t, d.Status(HealthCheckStatus{}, in.Now), Remediating); c.Reason != InProgress || !strings.Contains(c.Message, "annotate machines.machine.openshift.io m20 host.metal3.io/external-remediation-") {
		t.Errorf("%+v", c)
	}
	// With nothing to remediate the condition says Stuck; other checks go on too.
	second := check("100%")
	second.Name, second.Spec.Selector.MatchLabels = "second", map[string]string{"pool": "b"}
	m, n := aMachine("other", core.ConditionFalse, time.Hour)
	m.Labels = map[string]string{"pool": "b"}
	in = pool(3, 0)
	marked(&in.Machines[0], time.Hour)
	c := Cluster{Now: healthNow, Checks: []HealthCheck{*check("40%"), *second}, Machines: append(in.Machines, m), Nodes: append(in.Nodes, n)}
	all := c.Decide()
	if turn := Turn(all); turn == nil || turn.Check.Name != "second" || find(t, all[0].Status(HealthCheckStatus{}, healthNow), Remediating).Reason != Stuck {
		t.Errorf("%v %v", all[0].Words(), all[1].Words())
	}
}

// TestStatusReportOnly tests that next to another controller only the condition that names it is
// written.
func TestStatusReportOnly(t *testing.T) {
	in := pool(25, 4)
	in.ReportOnly = "machine-healthcheck-controller remedies machines by these checks"
	d := decide(t, in)
	three := int32(3)
	has := HealthCheckStatus{RemediationsAllowed: &three, Conditions: []Condition{{Type: RemediationAllowed, Status: core.ConditionTrue}}}
	s := d.Status(has, healthNow)
	if c := find(t, s, Remediating); len(d.Remediate) != 0 || c.Reason != OtherController || !strings.Contains(c.Message, in.ReportOnly) {
		t.Errorf("%v %+v", names(d.Remediate), c)
	}
	if *s.RemediationsAllowed != 3 || s.ExpectedMachines != nil || find(t, s, RemediationAllowed).Message != "" || len(has.Conditions) != 1 {
		t.Errorf("%+v", s)
	}
}

// TestStatusIsWhole tests that a new status has all required fields.
func TestStatusIsWhole(t *testing.T) {
	in := pool(3, 1)
	in.ReportOnly = "somebody"
	if s := decide(t, in).Status(HealthCheckStatus{}, healthNow); s.RemediationsAllowed == nil || *s.RemediationsAllowed != 0 || s.ExpectedMachines != nil {
		t.Errorf("%+v", s)
	}
	if s := Unreadable(HealthCheckStatus{}, fmt.Errorf("x"), healthNow); s.RemediationsAllowed == nil {
		t.Errorf("%+v", s)
	}
}

// TestAdopt tests that --adopt acts in addition to other controllers of nodes, and still names
// them.
func TestAdopt(t *testing.T) {
	in := pool(25, 1)
	in.Others = []Other{{"NodeHealthCheck nhc", func(*core.Node) bool { return true }}}
	if d := decide(t, in); len(d.Remediate) != 0 || len(d.Skipped) != 1 {
		t.Errorf("%v", d.Words())
	}
	in.Adopt = true
	if d := decide(t, in); len(d.Remediate) != 1 || !strings.Contains(strings.Join(d.Words(), "\n"), "NodeHealthCheck nhc also covers m00") {
		t.Errorf("%v", d.Words())
	}
	in.Machines[0].OwnerReferences = nil
	if d := decide(t, in); len(d.Remediate) != 0 {
		t.Error("--adopt does not make machine sets")
	}
}

// TestConditionTime tests that a condition keeps its time while its status is the same, and that
// other conditions keep their positions.
func TestConditionTime(t *testing.T) {
	before := meta.NewTime(healthNow.Add(-time.Hour))
	has := []Condition{{Type: "Other", Status: core.ConditionTrue}, {Type: Remediating, Status: core.ConditionFalse, LastTransitionTime: before}}
	all := set(has, Condition{Type: Remediating, Status: core.ConditionFalse, Message: strings.Repeat("x", maxMessage+1)}, healthNow)
	if len(all) != 2 || !all[1].LastTransitionTime.Equal(&before) || len(all[1].Message) != maxMessage+3 {
		t.Errorf("%+v", all)
	}
	if all = set(all, Condition{Type: Remediating, Status: core.ConditionTrue}, healthNow); all[1].LastTransitionTime.Time != healthNow {
		t.Errorf("%+v", all)
	}
	if s := Unreadable(HealthCheckStatus{}, fmt.Errorf("spec.selector: bad"), healthNow); s.Conditions[0].Reason != BadCheck || s.Conditions[0].Message != "spec.selector: bad" {
		t.Errorf("%+v", s)
	}
}

func TestRollOut(t *testing.T) {
	for status, want := range map[string]string{
		`{}`: "",
		`{"nodes":5,"updated":5,"conditions":[{"type":"Updated","status":"True"}]}`:                                                                          "",
		`{"nodes":5,"updated":2,"changing":["n3"],"conditions":[{"type":"Updating","status":"True","lastTransitionTime":"2026-03-01T12:00:00Z"}]}`:           "a rollout of kubelet settings is in progress in pool w: 2 of 5 nodes have the settings, n3 is changing",
		`{"nodes":1,"updated":1,"changing":["n1","n2"]}`:                                                                                                     "1 of 1 node has the settings, n1, n2 are changing",
		`{"nodes":9,"updated":0,"changing":["a","b","c","d","e","f","g"]}`:                                                                                   "a, b, c, d, e and 2 more are changing",
		`{"nodes":5,"updated":2,"changing":["n3"],"conditions":[{"type":"Degraded","status":"True","reason":"NodeFailed"}]}`:                                 "n3 is changing",
		`{"nodes":5,"updated":2,"changing":["n3"],"conditions":[{"type":"Degraded","status":"True","reason":"Stuck"}]}`:                                      "",
		`{"nodes":5,"updated":2,"conditions":[{"type":"Updating","status":"True","message":"3 waiting until fewer than 1 are unavailable; n1: not Ready"}]}`: "",
		`{"nodes":5,"updated":2,"conditions":[{"type":"Updating","status":"False","reason":"Paused"}]}`:                                                      "",
	} {
		why, err := RollOut([]byte(`{"metadata":{"name":"w"},"status":` + status + `}`))
		if err != nil || (why == "") != (want == "") || !strings.Contains(why, want) {
			t.Errorf("%s: %q %v, want %q", status, why, err, want)
		}
	}
	if _, err := RollOut([]byte(`{"status":{"changing":3}}`)); err == nil {
		t.Error("it was read")
	}
}

func TestUpgrade(t *testing.T) {
	for object, want := range map[string]string{
		`{}`: "",
		`{"status":{"desired":{"version":"4.16.3"},"conditions":[{"type":"Progressing","status":"True","message":"Working: 3 of 9"}]}}`: "an upgrade of the cluster to 4.16.3 runs (ClusterVersion, condition Progressing)",
		`{"status":{"conditions":[{"type":"Progressing","status":"False"},{"type":"Available","status":"True"}]}}`:                      "",
	} {
		if why, err := Upgrade([]byte(object)); err != nil || why != want {
			t.Errorf("%s: %q %v", object, why, err)
		}
	}
	if _, err := Upgrade([]byte(`x`)); err == nil {
		t.Error("it was read")
	}
}

// TestScaling tests that the time of a lease counts from its first observation, whatever its own
// time says, and ends if the lease is not renewed.
func TestScaling(t *testing.T) {
	who, seconds := "host/1", int32(60)
	far := meta.NewMicroTime(healthNow.Add(100 * time.Hour))
	l := &coordination.Lease{ObjectMeta: meta.ObjectMeta{ResourceVersion: "7", Annotations: map[string]string{ScaleAnnotation: "a to 9 machines"}}}
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = &who, &seconds, &far

	why, seen, until := Scaling(l, LeaseSeen{}, healthNow)
	if why != "machine sets are being scaled by host/1: a to 9 machines" || seen != (LeaseSeen{"7", healthNow}) || !until.Equal(healthNow.Add(time.Minute)) {
		t.Errorf("%q %+v %s", why, seen, until)
	}
	if why, _, _ := Scaling(l, seen, healthNow.Add(59*time.Second)); why == "" {
		t.Error("it has ended too soon")
	}
	if why, _, until := Scaling(l, seen, healthNow.Add(time.Minute)); why != "" || !until.IsZero() {
		t.Errorf("it was killed, and counts still: %q", why)
	}
	l.ResourceVersion = "8"
	why, seen, _ = Scaling(l, seen, healthNow.Add(2*time.Minute))
	if why == "" || seen.Version != "8" {
		t.Errorf("it was renewed: %q %+v", why, seen)
	}
	l.Spec.HolderIdentity = nil
	if why, _, _ := Scaling(l, seen, healthNow.Add(2*time.Minute)); why != "" {
		t.Errorf("it was given back: %q", why)
	}
	if why, seen, _ := Scaling(nil, seen, healthNow); why != "" || seen != (LeaseSeen{}) {
		t.Errorf("%q %+v", why, seen)
	}
}
