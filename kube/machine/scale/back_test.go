package scale

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/kube/machine"
)

// nodeless removes the nodes of machines: they have never joined.
func nodeless(in *Input, names ...string) {
	for i := range in.Machines {
		if m := &in.Machines[i]; slices.Contains(names, m.Name) {
			m.Status.NodeRef = nil
		}
	}
}

// TestDownTakesBackFirst tests that machines that never became nodes are removed first, from any
// set, in a step that drains nothing and does not wait for joining machines.
func TestDownTakesBackFirst(t *testing.T) {
	in := fleet("40%", 6, 3)
	nodeless(&in, "set-b-02")
	pods(&in, "node-set-a-00", 3, nil)
	pods(&in, "", 2, nil) // without a node: not on a machine without one
	p := plan(t, in, 8)
	if got := outline(p); got != "b 3-2" || fmt.Sprint(p.Steps[0].Remove) != "[set-b-02]" {
		t.Errorf("%s: %v", got, p.Steps[0].Remove)
	}
	s := p.Steps[0]
	if s.Evictions != 0 || s.AtLeastS != 0 || s.TimeoutS != 600 || s.Until != "the machines are gone; if not, stop here" || s.Remediation[0] != "all: 40 % of 9 machines is 3 (3.6 rounded down); 1 is unhealthy: remediation is allowed" {
		t.Errorf("%+v", s)
	}
	if !strings.Contains(p.Notes[0], "step 1: no node, so no pods to move: set-b-02") {
		t.Errorf("%q", p.Notes)
	}
	in.Patience = time.Minute
	p = plan(t, in, 7)
	if got := outline(p); got != "b 3-2, a 6-5" || p.Steps[1].TimeoutS != 120 || p.Steps[1].Remediation[0] != "all: 40 % of 8 machines is 3 (3.2 rounded down); 1 is unhealthy: remediation is allowed" {
		t.Errorf("%s: %+v", got, p.Steps)
	}
}

// TestDownOrderOfTheController tests that failed and unjoined machines keep the order of the
// machine sets' controller, which treats failed and marked machines alike. Otherwise the controller
// would remove another machine.
func TestDownOrderOfTheController(t *testing.T) {
	in := fleet("", 4)
	nodeless(&in, "set-a-00")
	phase := machine.PhaseFailed
	in.Machines[3].Status.Phase = &phase
	if p := plan(t, in, 3); fmt.Sprint(p.Steps[0].Remove) != "[set-a-03]" {
		t.Errorf("%v", p.Steps[0].Remove)
	}
	in.Machines[1].Annotations = map[string]string{machine.DeleteAnnotation: "yes"}
	if p := plan(t, in, 3); fmt.Sprint(p.Steps[0].Remove) != "[set-a-03]" || !strings.Contains(strings.Join(p.Notes, "\n"), "machine set-a-01 is marked for deletion (machine.openshift.io/delete-machine), and machine set set-a may remove it") {
		t.Errorf("%+v", p)
	}
	if p := plan(t, in, 1); fmt.Sprint(p.Steps[0].Remove, p.Steps[1].Remove) != "[set-a-03 set-a-00] [set-a-01]" || strings.Contains(strings.Join(p.Notes, "\n"), "is marked for deletion") {
		t.Errorf("%+v", p)
	}
	in.Machines[1].Annotations = nil
	// A failed machine whose node is Ready is drained: its pods run.
	pods(&in, "node-set-a-03", 2, nil)
	if p := plan(t, in, 3); fmt.Sprint(p.Steps[0].Remove) != "[set-a-03]" || p.Steps[0].Evictions != 2 {
		t.Errorf("%+v", p.Steps[0])
	}
}

// TestZonesThatAreNotKnown tests that the set's name does not replace an unknown zone.
func TestZonesThatAreNotKnown(t *testing.T) {
	in := fleet("100%", 2, 2, 3)
	for i := range in.Machines {
		m := &in.Machines[i]
		if delete(m.Labels, machine.ZoneLabel); m.Set() != "set-c" {
			m.Labels[machine.ZoneLabel] = "east"
		}
	}
	p := plan(t, in, 8)
	// By zones the third set would be the emptiest.
	if got := outline(p); got != "a 2-3" || p.Steps[0].Sets[0].Zone != "east" {
		t.Errorf("%s: %+v", got, p.Steps)
	}
	if !strings.Contains(strings.Join(p.Notes, "\n"), "zone of set-c unknown (no label machine.openshift.io/zone on machines") {
		t.Errorf("%q", p.Notes)
	}
	if p := plan(t, in, 6); outline(p) != "c 3-2" || p.Steps[0].Sets[0].Zone != "" {
		t.Errorf("%s: %+v", outline(p), p.Steps)
	}
	// What the set would make says it too, and so do nodes.
	in.Sets[2].Spec.Template.Labels = map[string]string{machine.ZoneLabel: "west"}
	if p := plan(t, in, 8); outline(p) != "c 3-4" || p.Steps[0].Sets[0].Zone != "west" || len(p.Notes) != 0 {
		t.Errorf("%s: %+v", outline(p), p)
	}
	in.Sets[2].Spec.Template.Labels = nil
	in.Nodes[4].Labels = map[string]string{zoneLabel: "north"}
	if p := plan(t, in, 8); p.Steps[0].Sets[0].Zone != "north" {
		t.Errorf("%+v", p.Steps)
	}
	// With one set there is nothing to keep even.
	in = fleet("100%", 2)
	for i := range in.Machines {
		delete(in.Machines[i].Labels, machine.ZoneLabel)
	}
	if p := plan(t, in, 3); p.Steps[0].Sets[0].Zone != "" || len(p.Notes) != 0 {
		t.Errorf("%+v", p)
	}
}

// TestNoMachineObjects tests that without Machine objects the machines to remove are unknown, and
// that this is reported instead of a lack of nodes. A set that its controller has processed really
// has none.
func TestNoMachineObjects(t *testing.T) {
	in := fleet("", 3, 1)
	in.Machines = nil
	want := "no Machine objects found for the machine sets in openshift-machine-api (set-a is to have 3 and set-b is to have 1); cannot tell which nodes would be removed"
	if _, err := To(in, 2); !errors.Is(err, ErrNoMachines) || err.Error() != want {
		t.Error(err)
	}
	if _, err := Roll(in); !errors.Is(err, ErrNoMachines) {
		t.Error(err)
	}
	if p := plan(t, in, 5); outline(p) != "b 1-2" || !strings.Contains(strings.Join(p.Notes, "\n"), "machine set set-a: want 3 machines, has 0; first waiting for the missing machines") {
		t.Errorf("%+v", p)
	}
	in.Sets[0].Status.ObservedGeneration, in.Sets[1].Status.ObservedGeneration = 2, 1
	if p := plan(t, in, 0); len(p.Blocked) != 0 || len(p.Steps) != 1 || len(p.Steps[0].Remove) != 0 || p.Steps[0].TimeoutS != 0 {
		t.Errorf("%+v", p)
	}
	// Nodes that no machine stands for take pods as well.
	in = fleet("", 1)
	in.Nodes = append(in.Nodes, in.Nodes[0])
	in.Nodes[1].Name = "by-hand"
	if p := plan(t, in, 0); len(p.Blocked) != 0 {
		t.Errorf("%q", p.Blocked)
	}
	in.Nodes[1].Labels = map[string]string{"node-role.kubernetes.io/master": ""}
	if p := plan(t, in, 0); len(p.Blocked) != 1 {
		t.Errorf("%q", p.Blocked)
	}
}

// TestJoinTimeout tests which time limit for joining takes precedence.
func TestJoinTimeout(t *testing.T) {
	forever := fleet("40%", 9)
	forever.Checks[0].Spec.NodeStartupTimeout = &meta.Duration{}
	for name, c := range map[string]struct {
		in     Input
		option time.Duration
		want   float64
	}{
		"the check's":         {fleet("40%", 9), 0, 1200},
		"without a check":     {fleet("", 9), 0, 600},
		"a check without end": {forever, 0, 600},
		"the option's":        {fleet("40%", 9), time.Minute, 60},
	} {
		c.in.JoinTimeout = c.option
		if p := plan(t, c.in, 10); p.Steps[0].TimeoutS != c.want {
			t.Errorf("%s: %v, want %v", name, p.Steps[0].TimeoutS, c.want)
		}
	}
}

// TestRollTakesBackFirst tests that an interrupted roll first removes machines that have not
// joined, not an old machine in use.
func TestRollTakesBackFirst(t *testing.T) {
	in := fleet("", 5) // of 3, with two new ones on top
	in.Begun = map[string]Begun{"set-a": {Replicas: 3, Machines: []string{"set-a-00", "set-a-01", "set-a-02"}}}
	nodeless(&in, "set-a-04")
	p, err := Roll(in)
	if err != nil || fmt.Sprint(p.Steps[0].Remove, p.Steps[1].Remove) != "[set-a-04] [set-a-00]" {
		t.Errorf("%v: %+v", err, p)
	}
	in.Machines = in.Machines[:4] // it was not even made
	if p, err = Roll(in); err != nil || outline(p) != "a 5-4, a 4-3, a 3-5, a 5-3" || len(p.Steps[0].Remove) != 0 || fmt.Sprint(p.Steps[1].Remove) != "[set-a-00]" {
		t.Errorf("%v: %s %+v", err, outline(p), p)
	}
}

// TestRecord tests that a damaged record, or one copied with its set, is not used.
func TestRecord(t *testing.T) {
	set := &machine.Set{ObjectMeta: meta.ObjectMeta{Namespace: machine.Namespace, Name: "set-a", UID: "this"}}
	replicas := int32(0)
	set.Spec.Replicas = &replicas
	for text, want := range map[string]string{
		`{"replicas":2,"machines":["a"],"machine_set_uid":"this"}`: "",
		`{"replicas":0,"machines":[],"machine_set_uid":"this"}`:    "",
		`{"replicas":2,"machines":["a"],"machine_set_uid":"that"}`: "copied from the machine set with UID that; this one has this",
		`{"replicas":2,"machines":["a"]}`:                          "replicas, machines or machine_set_uid missing",
		`{}`:                                                       "replicas, machines or machine_set_uid missing",
		`null`:                                                     "replicas, machines or machine_set_uid missing",
		`x`:                                                        "invalid character",
		``:                                                         "unexpected end of JSON input",
		`{"replicas":-1,"machines":[],"machine_set_uid":"this"}`:      "-1 replicas: want 0 to 5,000",
		`{"replicas":999999,"machines":[],"machine_set_uid":"this"}`:  "999,999 replicas: want 0 to 5,000",
		`{"replicas":2,"machines":["a"],"machine_set_uid":"this"} {}`: "invalid character '{' after top-level value",
		`{"replicas":"2","machines":["a"],"machine_set_uid":"this"}`:  "json: cannot unmarshal string",
	} {
		set.Annotations = map[string]string{machine.RollAnnotation: text}
		b, ok, err := BegunOn(set)
		if want == "" {
			if err != nil || !ok || b.Set != "this" {
				t.Errorf("%s: %+v %v %v", text, b, ok, err)
			}
			continue
		}
		if ok || !errors.Is(err, ErrRecord) || !strings.Contains(err.Error(), "machine set set-a, annotation fettle.dev/roll: "+want) || !strings.Contains(err.Error(), "start over with --roll --restart") {
			t.Errorf("%s: %+v %v %v", text, b, ok, err)
		}
	}
	// What no roll has written, and would make the set smaller.
	replicas = 2
	for text, want := range map[string]string{
		`{"replicas":0,"machines":["a","b"],"machine_set_uid":"this"}`:         "0 replicas but machines named: the roll would empty the set",
		`{"replicas":0,"machines":[],"machine_set_uid":"this"}`:                "0 replicas but the set wants 2: the roll would empty it",
		`{"replicas":1,"machines":["a","b","c"],"machine_set_uid":"this"}`:     "3 machines for a set of 1 replica; a rollout has at most twice as many",
		`{"replicas":2,"machines":["a","b","c","d"],"machine_set_uid":"this"}`: "", // it began afresh, with two new ones
	} {
		set.Annotations = map[string]string{machine.RollAnnotation: text}
		if b, ok, err := BegunOn(set); ok != (want == "") || want != "" && !(errors.Is(err, ErrRecord) && strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %+v %v", text, b, err)
		}
	}
	// Nor does one that begins afresh write it, whatever became of the set.
	in := fleet("", 3)
	for kept, want := range map[int]int{0: 3, 1: 3, 2: 2, 3: 3} {
		if b := Again(in, &in.Sets[0], Begun{Replicas: kept}); b.Replicas != want || len(b.Machines) != 3 {
			t.Errorf("%d replicas kept: %+v, want %d", kept, b, want)
		}
	}
	if b := Begin(fleet("", 2), set); b.Set != "this" {
		t.Errorf("%+v", b)
	}
}
