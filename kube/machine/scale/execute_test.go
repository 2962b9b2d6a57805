package scale

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/kube/machine"
)

// failing is a cluster in which the drain of some nodes fails.
type failing struct{ *sim }

func (f failing) Drain(ctx context.Context, node string, patience time.Duration) error {
	if f.unmovable != nil && f.unmovable(node) {
		return fmt.Errorf("not gone after %s", patience)
	}
	return f.sim.Drain(ctx, node, patience)
}

// run is a scale of the simulated cluster, with its clock. Drains run one after the other.
func (s *sim) run(g Goal) *Run {
	r := New(failing{s}, Options{Goal: g, Batch: 3, QPS: 5, Burst: 10, Patience: 5 * time.Minute})
	r.now = func() time.Time { return s.now }
	r.sleep = func(ctx context.Context, d time.Duration) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.tick(d)
		return nil
	}
	return r
}

func (s *sim) replicas() string {
	var out []string
	for i := range s.sets {
		out = append(out, fmt.Sprint(*s.sets[i].Spec.Replicas))
	}
	return strings.Join(out, " ")
}

// clean returns what a scale has left on objects.
func (s *sim) clean() {
	s.t.Helper()
	for _, m := range s.machines {
		if m.Annotations[machine.DeleteAnnotation] != "" && m.DeletionTimestamp == nil {
			s.t.Errorf("machine %s is marked", m.Name)
		}
	}
	for _, n := range s.nodes {
		if n.Spec.Unschedulable {
			s.t.Errorf("node %s is cordoned", n.Name)
		}
	}
	for _, x := range s.sets {
		if len(x.Annotations) > 0 {
			s.t.Errorf("machine set %s has %v", x.Name, x.Annotations)
		}
	}
}

func TestCarryUp(t *testing.T) {
	s := newSim(t, "40%", 3, 1)
	r := s.run(Goal{Machines: 10})
	if err := r.Go(t.Context()); err != nil {
		t.Fatal(err)
	}
	// 2 of 6 and 3 (the batch) of 9 are below 40 %, then the last.
	if s.replicas() != "5 5" || len(s.nodes) != 10 || len(r.Steps) != 3 || s.closed > 0 {
		t.Errorf("replicas %s, %d nodes, %d steps, remediation was closed %d times", s.replicas(), len(s.nodes), len(r.Steps), s.closed)
	}
	s.clean()
}

// TestUpStopsAtTheFirstFailedBatch tests that a machine that does not join stops the scale at its
// batch, and that requested machines stay.
func TestUpStopsAtTheFirstFailedBatch(t *testing.T) {
	s := newSim(t, "40%", 3, 1)
	s.stuck = func(made int) bool { return made == 6 }
	r := s.run(Goal{Machines: 10})
	began := s.now
	err := r.Go(t.Context())
	if err == nil || !strings.Contains(err.Error(), "machine set set-b: 1 of 2 new machines have joined") || !r.Changed || len(r.Steps) != 0 || s.replicas() != "3 3" {
		t.Errorf("%v; replicas %s after %d steps", err, s.replicas(), len(r.Steps))
	}
	if took := s.now.Sub(began); took < 10*time.Minute || took > 11*time.Minute {
		t.Errorf("it waited %s; nodeStartupTimeout is 10m", took)
	}
	s = newSim(t, "40%", 3, 1)
	s.stuck = func(made int) bool { return made == 6 }
	r = s.run(Goal{Machines: 10})
	sleep := r.sleep
	r.sleep = func(ctx context.Context, d time.Duration) error {
		err := sleep(ctx, d)
		failed := machine.PhaseFailed
		for i := range s.machines {
			if s.machines[i].UID == "6" {
				s.machines[i].Status.Phase = &failed
			}
		}
		return err
	}
	began = s.now
	if err := r.Go(t.Context()); err == nil || !strings.Contains(err.Error(), "set-b-06 of machine set set-b is Failed") || s.now.Sub(began) > time.Minute {
		t.Errorf("%v after %s", err, s.now.Sub(began))
	}
}

func TestDown(t *testing.T) {
	s := newSim(t, "", 4, 6)
	s.pod("a", 0, false)
	s.pod("b", 4, false)
	r := s.run(Goal{Machines: 4})
	if err := r.Go(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.replicas() != "2 2" || len(s.nodes) != 4 || len(r.Steps) != 2 || s.least != 4 {
		t.Errorf("replicas %s, %d nodes, %d steps, at least %d", s.replicas(), len(s.nodes), len(r.Steps), s.least)
	}
	// The machines with pods are the last to go.
	if len(s.pods) != 2 {
		t.Errorf("pods were moved without need: %d are left", len(s.pods))
	}
	s.clean()
}

// TestDownStopsAtADrain tests that a stalled drain stops the scale: the set keeps its machines, and
// the nodes are uncordoned.
func TestDownStopsAtADrain(t *testing.T) {
	s := newSim(t, "", 5)
	for i := range 5 {
		s.pod(fmt.Sprint("p", i), i, false)
	}
	s.unmovable = func(node string) bool { return strings.HasSuffix(node, "02") }
	r := s.run(Goal{Machines: 2})
	if err := r.Go(t.Context()); err == nil || !strings.Contains(err.Error(), "node node-set-a-02: not gone after 5m") {
		t.Error(err)
	}
	if r.Changed || s.replicas() != "5" || len(s.machines) != 5 {
		t.Errorf("changed %v, replicas %s", r.Changed, s.replicas())
	}
	s.clean()
}

func TestDownIsRefused(t *testing.T) {
	s := newSim(t, "", 3)
	s.pod("bare", 0, true)
	s.pod("b", 1, false)
	s.pod("c", 2, false)
	r := s.run(Goal{Machines: 1})
	if err := r.Go(t.Context()); !errors.Is(err, ErrBlocked) || !strings.Contains(err.Error(), "no controller would recreate app/bare") || r.Changed {
		t.Error(err)
	}
	s.clean()
	r = s.run(Goal{Machines: 1})
	r.Force = true
	if err := r.Go(t.Context()); err != nil || s.replicas() != "1" {
		t.Error(err, s.replicas())
	}
	// A disruption budget that allows nothing is in the way before the first step.
	s = newSim(t, "", 2)
	s.pod("a", 0, false)
	s.pod("b", 1, false)
	s.budgets = []policy.PodDisruptionBudget{{ObjectMeta: meta.ObjectMeta{Namespace: "app", Name: "web"}, Spec: policy.PodDisruptionBudgetSpec{Selector: &meta.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}}
	r = s.run(Goal{Machines: 1})
	if err := r.Go(t.Context()); !errors.Is(err, ErrBlocked) || !strings.Contains(err.Error(), "PodDisruptionBudget app/web allows no disruption now") || r.Changed || s.ops > 0 {
		t.Error(err, s.ops)
	}
}

func TestCarryRoll(t *testing.T) {
	s := newSim(t, "40%", 5, 2)
	old := s.made
	r := s.run(Goal{Roll: true})
	if err := r.Go(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.replicas() != "5 2" || s.least < 7 || s.closed > 0 || s.most > 10 {
		t.Errorf("replicas %s, at least %d and at most %d machines, remediation was closed %d times", s.replicas(), s.least, s.most, s.closed)
	}
	for _, m := range s.machines {
		if len(m.UID) == 1 && int(m.UID[0]-'0') <= old {
			t.Errorf("machine %s is an old one", m.Name)
		}
	}
	s.clean()
}

// TestKilledEverywhere kills a scale before and after each of its changes. The same call then does
// the rest, with the same guarantees as without a kill.
func TestKilledEverywhere(t *testing.T) {
	for name, c := range map[string]struct {
		goal  Goal
		want  string
		least int
	}{
		"up":   {Goal{Machines: 12}, "6 6", 7},
		"down": {Goal{Machines: 3}, "1 2", 3},
		"roll": {Goal{Roll: true}, "4 3", 7},
	} {
		kills := 0
		for at := 1; ; at++ {
			done := false
			for _, after := range []bool{false, true} {
				s := newSim(t, "50%", 4, 3)
				s.pod("a", 0, false)
				s.pod("b", 5, false)
				s.kill, s.after = at, after
				err := s.run(c.goal).Go(t.Context())
				if done = err == nil; done {
					break // there are no more changes
				}
				if !errors.Is(err, errKilled) {
					t.Fatalf("%s, killed at %d: %v", name, at, err)
				}
				kills++
				s.dead, s.kill = false, -1
				s.tick(time.Duration(at%4) * 40 * time.Second)
				if err := s.run(c.goal).Go(t.Context()); err != nil {
					t.Fatalf("%s, killed at %d (after %v): %v", name, at, after, err)
				}
				s.tick(time.Minute)
				if s.replicas() != c.want || s.least < c.least || len(s.machines) != len(s.nodes) || (name != "down") && s.closed > 0 {
					t.Errorf("%s, killed at %d (after %v): replicas %s, want %s; at least %d machines, want %d; closed %d times", name, at, after, s.replicas(), c.want, s.least, c.least, s.closed)
				}
				for _, m := range s.machines {
					if c.goal.Roll && len(m.UID) == 1 && m.UID[0]-'0' <= 7 {
						t.Errorf("roll, killed at %d (after %v): machine %s is an old one", at, after, m.Name)
					}
				}
				s.clean()
			}
			if done {
				break
			}
		}
		if kills < 6 {
			t.Errorf("%s was killed at %d places only", name, kills)
		}
		t.Logf("%s: killed %d times", name, kills)
	}
}

// TestKilledThenAnother tests that a different call also cleans up after a killed scale: nodes are
// uncordoned, and marks are removed.
func TestKilledThenAnother(t *testing.T) {
	for at := 1; at < 12; at++ {
		s := newSim(t, "", 6)
		s.kill, s.after = at, true
		if err := s.run(Goal{Machines: 3}).Go(t.Context()); !errors.Is(err, errKilled) {
			if at < 8 { // three nodes cordoned and drained, and two machines marked
				t.Errorf("killed at %d: %v", at, err)
			}
			break
		}
		s.dead, s.kill = false, -1
		if err := s.run(Goal{Machines: 7}).Go(t.Context()); err != nil || s.replicas() != "7" {
			t.Errorf("killed at %d: %v, replicas %s", at, err, s.replicas())
		}
		s.clean()
	}
}

// TestInterrupted tests that Ctrl-C reverts temporary changes, and that the same call continues.
func TestInterrupted(t *testing.T) {
	s := newSim(t, "", 6)
	ctx, cancel := context.WithCancel(t.Context())
	r := s.run(Goal{Machines: 2})
	r.Cluster = &interrupting{failing{s}, cancel}
	if err := r.Go(ctx); !errors.Is(err, context.Canceled) || r.Changed {
		t.Error(err)
	}
	s.clean()
	if err := s.run(Goal{Machines: 2}).Go(t.Context()); err != nil || s.replicas() != "2" {
		t.Error(err, s.replicas())
	}
}

// interrupting is interrupted during its first drain.
type interrupting struct {
	failing
	cancel func()
}

func (i *interrupting) Drain(ctx context.Context, _ string, _ time.Duration) error {
	i.cancel()
	return ctx.Err()
}

// TestRollThatIsNotDone tests that an unfinished roll blocks another target, and can be restarted.
func TestRollThatIsNotDone(t *testing.T) {
	s := newSim(t, "", 3)
	s.sets[0].Annotations[machine.RollAnnotation] = `{"replicas":2,"machines":["set-a-01"],"machine_set_uid":"uid-set-a"}`
	if err := s.run(Goal{Machines: 4}).Go(t.Context()); !errors.Is(err, ErrBegun) || !strings.Contains(err.Error(), "; finish it with --roll, or drop its record: kubectl annotate machinesets.machine.openshift.io") || s.ops > 0 {
		t.Error(err)
	}
	p, err := s.run(Goal{Roll: true}).Plan(t.Context())
	if err != nil || len(p.Steps) != 1 || p.To != 2 || fmt.Sprint(p.Steps[0].Remove) != "[set-a-01]" || !strings.Contains(p.Notes[0], "1 of 1 old machines left") {
		t.Errorf("%+v %v", p, err)
	}
	afresh := s.run(Goal{Roll: true, Afresh: true})
	if p, err = afresh.Plan(t.Context()); err != nil || p.To != 2 || len(p.Steps) != 3 {
		t.Errorf("%+v %v", p, err)
	}
	if err := afresh.Go(t.Context()); err != nil || s.replicas() != "2" || s.machines[0].UID < "4" {
		t.Error(err, s.replicas(), s.machines[0].Name)
	}
	s.clean()
}

// TestBudgetBetweenSteps tests that between two steps a disruption budget that allows nothing is
// waited for, with its name and the end of the wait, at most for Patience.
func TestBudgetBetweenSteps(t *testing.T) {
	for _, lasts := range []bool{false, true} {
		s := newSim(t, "", 6)
		for i := range 6 {
			s.pod(fmt.Sprint("p", i), i, false)
		}
		b := policy.PodDisruptionBudget{ObjectMeta: meta.ObjectMeta{Namespace: "app", Name: "web"}, Spec: policy.PodDisruptionBudgetSpec{Selector: &meta.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}
		b.Status.DisruptionsAllowed = 5
		s.budgets = []policy.PodDisruptionBudget{b}
		r := s.run(Goal{Machines: 1})
		waits := 0
		r.Say = func(format string, args ...any) {
			switch text := fmt.Sprintf(format, args...); {
			case strings.HasPrefix(text, "done after"):
				s.budgets[0].Status.DisruptionsAllowed = 0
			case strings.Contains(text, "of 5m0s): PodDisruptionBudget app/web allows no disruption now"):
				if waits++; waits == 2 && !lasts {
					s.budgets[0].Status.DisruptionsAllowed = 5
				}
			}
		}
		began := s.now
		err := r.Go(t.Context())
		if !lasts && (err != nil || s.replicas() != "1" || waits != 2) {
			t.Errorf("%v; replicas %s, said %d times", err, s.replicas(), waits)
		}
		if took := s.now.Sub(began); lasts && (!errors.Is(err, ErrBlocked) || s.replicas() != "3" || took < 5*time.Minute || took > 7*time.Minute) {
			t.Errorf("%v after %s; replicas %s", err, took, s.replicas())
		}
	}
}
