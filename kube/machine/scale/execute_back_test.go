package scale

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/kube/machine"
)

// told collects the messages of a run, with the time of the simulated clock.
type told struct {
	s     *sim
	lines []string
	at    []time.Time
}

func (s *sim) listen(r *Run) *told {
	x := &told{s: s}
	r.Say = func(format string, args ...any) {
		x.lines, x.at = append(x.lines, fmt.Sprintf(format, args...)), append(x.at, s.now)
	}
	return x
}

// silence returns the longest time without a message.
func (x *told) silence(since time.Time) (most time.Duration) {
	for _, at := range append(slices.Clone(x.at), x.s.now) {
		most, since = max(most, at.Sub(since)), at
	}
	return most
}

// TestMachineThatNeverComes tests a machine that never joins. The wait and its end are reported,
// the batch stops at its time limit with the machine's name, and the same call stops at once while
// the machine exists. With a smaller number only this machine is removed, by its mark.
func TestMachineThatNeverComes(t *testing.T) {
	s := newSim(t, "50%", 3, 2)
	s.pod("a", 0, false)
	s.stuck = func(made int) bool { return made == 7 }
	r := s.run(Goal{Machines: 7})
	r.JoinTimeout = 4 * time.Minute
	x, began := s.listen(r), s.now
	err := r.Go(t.Context())
	var not *NotCome
	if !errors.As(err, &not) || err.Error() != "after 4m0s: machine set set-b: 0 of 1 new machines have joined and are Ready: machine set-b-07 of machine set set-b has no node (phase unknown)" || not.Back != 6 || not.Machines[0].Name != "set-b-07" {
		t.Fatalf("%v: %+v", err, not)
	}
	if took := s.now.Sub(began); took < 4*time.Minute || took > 5*time.Minute || x.silence(began) > remind+5*time.Second {
		t.Errorf("it waited %s, and was silent for %s", took, x.silence(began))
	}
	if until := "until at most " + began.Add(4*time.Minute).Local().Format(time.TimeOnly) + " (0s of 4m0s): machine set set-a: 0 of 1"; !strings.Contains(x.lines[1], until) || x.at[1] != began {
		t.Errorf("%q, want %q", x.lines, until)
	}
	// Once more: it is not waited for again.
	s.tick(time.Minute)
	r = s.run(Goal{Machines: 7})
	r.JoinTimeout, began = 4*time.Minute, s.now
	if err := r.Go(t.Context()); !errors.Is(err, ErrBlocked) || !strings.Contains(err.Error(), "machine set-b-07 of machine set set-b has no node, more than 4m0s after its creation") || s.now != began || r.Changed {
		t.Errorf("%v after %s", err, s.now.Sub(began))
	}
	// And back.
	r = s.run(Goal{Machines: not.Back})
	if err := r.Go(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := s.now.Sub(began); s.replicas() != "4 2" || took > time.Minute || len(s.drained) > 0 || len(s.pods) != 1 || slices.ContainsFunc(s.machines, func(m machine.Machine) bool { return m.Node() == "" }) {
		t.Errorf("replicas %s after %s, drained %v", s.replicas(), took, s.drained)
	}
	s.clean()
}

// TestOneOfTwoThatNeverCome tests that one unjoined machine is removed while another one stays,
// without waiting for it.
func TestOneOfTwoThatNeverCome(t *testing.T) {
	s := newSim(t, "", 3)
	s.stuck = func(made int) bool { return made > 3 }
	if err := s.run(Goal{Machines: 5}).Go(t.Context()); err == nil {
		t.Fatal("they came")
	}
	began := s.now
	if err := s.run(Goal{Machines: 4}).Go(t.Context()); err != nil || s.replicas() != "4" || s.now.Sub(began) > time.Minute {
		t.Errorf("%v after %s: replicas %s", err, s.now.Sub(began), s.replicas())
	}
}

// TestNeverMade tests that a machine that a set never created is named, and canceled without
// removing a machine.
func TestNeverMade(t *testing.T) {
	s := newSim(t, "", 3, 1)
	s.idle = true
	err := s.run(Goal{Machines: 5}).Go(t.Context())
	var not *NotCome
	if !errors.As(err, &not) || !strings.Contains(err.Error(), "machine set set-b has not created 1 of 1 machines") || not.Back != 4 || !strings.Contains(not.What(), "machine-api-controllers") {
		t.Fatalf("%v %+v", err, not)
	}
	// The same call waits for its controller, and says then how many there are without it.
	began := s.now
	err = s.run(Goal{Machines: 5}).Go(t.Context())
	if not = nil; !errors.As(err, &not) || not.Back != 4 || s.now.Sub(began) < 5*time.Minute {
		t.Errorf("%v %+v after %s", err, not, s.now.Sub(began))
	}
	began = s.now
	if err := s.run(Goal{Machines: 4}).Go(t.Context()); err != nil || s.replicas() != "3 1" || s.now.Sub(began) > time.Minute || len(s.machines) != 4 || len(s.drained) > 0 {
		t.Errorf("%v after %s: replicas %s, %d machines, drained %v", err, s.now.Sub(began), s.replicas(), len(s.machines), s.drained)
	}
	s.clean()
}

// waking is a cluster whose controller creates the requested machines just after the plan was made.
type waking struct {
	failing
	looked bool
}

func (w *waking) Read(ctx context.Context, pods bool) (*Input, error) {
	in, err := w.failing.Read(ctx, pods)
	if pods && !w.looked {
		w.looked, w.idle = true, false
		w.tick(5 * time.Second)
	}
	return in, err
}

// TestMadeMeanwhile tests that a machine that is created after the plan is not removed unmarked:
// the set would remove any machine.
func TestMadeMeanwhile(t *testing.T) {
	s := newSim(t, "", 3)
	s.idle = true
	four := int32(4)
	s.sets[0].Spec.Replicas = &four
	r := s.run(Goal{Machines: 3})
	r.Cluster = &waking{failing: failing{s}}
	if err := r.Go(t.Context()); err != nil || s.replicas() != "3" {
		t.Fatal(err, s.replicas())
	}
	for _, m := range s.machines {
		if m.UID > "3" {
			t.Errorf("machine %s was to go", m.Name)
		}
	}
	s.clean()
}

// TestRollTakesBackWhatNeverCame tests that a roll stops if its new machine never joins, and that
// the same call removes it before it removes an old one. The set never has fewer machines in use.
func TestRollTakesBackWhatNeverCame(t *testing.T) {
	s := newSim(t, "", 3)
	s.stuck = func(made int) bool { return made == 5 }
	err := s.run(Goal{Roll: true}).Go(t.Context())
	var not *NotCome
	if !errors.As(err, &not) || s.replicas() != "6" {
		t.Fatalf("%v; replicas %s", err, s.replicas())
	}
	s.tick(time.Minute)
	began := s.now
	if err := s.run(Goal{Roll: true}).Go(t.Context()); err != nil || s.replicas() != "3" || s.least < 3 {
		t.Errorf("%v; replicas %s, at least %d", err, s.replicas(), s.least)
	}
	if took := s.now.Sub(began); took > 10*time.Minute {
		t.Errorf("it took %s", took)
	}
	s.clean()
}

// TestInterruptedInEachWait tests that Ctrl-C ends every wait at once and reverts temporary
// changes.
func TestInterruptedInEachWait(t *testing.T) {
	for name, c := range map[string]struct {
		goal    Goal
		prepare func(*sim)
		// at is what is said when it is interrupted.
		at      string
		changed bool
		want    string
	}{
		"before it begins": {Goal{Machines: 6}, func(s *sim) { s.idle = true; n := int32(5); s.sets[0].Spec.Replicas = &n }, "want 5 machines, has 4", false, "5"},
		"while one is on its way": {Goal{Machines: 6}, func(s *sim) {
			n := int32(5)
			s.sets[0].Spec.Replicas = &n
			s.make(&s.sets[0], false)
		}, "machines of machine set set-a that have not joined: 1 (set-a-05 until " + time.Date(2026, 3, 1, 12, 10, 0, 0, time.UTC).Local().Format(time.TimeOnly) + ")", false, "5"},
		"while they join":   {Goal{Machines: 6}, nil, "0 of 2 new machines", true, "6"},
		"while they go":     {Goal{Machines: 2}, nil, "machines not deleted yet", true, "2"},
		"while a roll asks": {Goal{Roll: true}, nil, "0 of 3 new machines", true, "7"},
	} {
		s := newSim(t, "", 4)
		if c.prepare != nil {
			c.prepare(s)
		}
		ctx, cancel := context.WithCancel(t.Context())
		r := s.run(c.goal)
		at := time.Time{}
		r.Say = func(format string, args ...any) {
			if strings.Contains(fmt.Sprintf(format, args...), c.at) {
				at = s.now
				cancel()
			}
		}
		if err := r.Go(ctx); !errors.Is(err, context.Canceled) || at.IsZero() || s.now != at || r.Changed != c.changed || s.replicas() != c.want {
			t.Errorf("%s: %v, %s after it was interrupted; changed %v, replicas %s, asked for %v", name, err, s.now.Sub(at), r.Changed, s.replicas(), r.Asked)
		}
		if c.changed != (len(r.Asked) > 0) {
			t.Errorf("%s: asked for %v", name, r.Asked)
		}
		cancel()
	}
}

// keeping is a cluster in which no node can be uncordoned.
type keeping struct{ failing }

func (keeping) Uncordon(context.Context, string) error { return errors.New("not allowed") }

// TestLeft tests that a change that cannot be reverted is reported as such.
func TestLeft(t *testing.T) {
	s := newSim(t, "", 3)
	s.pod("a", 0, false)
	s.unmovable = func(string) bool { return true }
	r := s.run(Goal{Machines: 1})
	r.Cluster = keeping{failing{s}}
	if err := r.Go(t.Context()); !errors.Is(err, ErrLeft) || !strings.Contains(err.Error(), "the cordon of node node-set-a-02 could not be removed: not allowed") {
		t.Error(err)
	}
}

// TestDrainSaysHowFarItIs tests that a drain reports what it waits for, although it is one call.
func TestDrainSaysHowFarItIs(t *testing.T) {
	s := newSim(t, "", 2)
	r := s.run(Goal{Machines: 1})
	r.Interval = time.Millisecond
	x := s.listen(r)
	release := make(chan struct{})
	r.Cluster = slow{failing{s}, release}
	say := r.Say
	r.Say = func(format string, args ...any) {
		if say(format, args...); strings.Contains(x.lines[len(x.lines)-1], "pods move away from node-set-a-01") {
			close(release)
		}
	}
	if err := r.Go(t.Context()); err != nil {
		t.Error(err, x.lines)
	}
}

// slow blocks a drain until it is released.
type slow struct {
	failing
	release chan struct{}
}

func (s slow) Drain(ctx context.Context, node string, patience time.Duration) error {
	select {
	case <-s.release:
	case <-time.After(time.Minute):
		return errors.New("nobody said anything of it")
	}
	return s.failing.Drain(ctx, node, patience)
}

// TestRecordIsRefused tests that an invalid record is refused before any wait or change, and that
// --restart begins again with the present machines.
func TestRecordIsRefused(t *testing.T) {
	for _, text := range []string{"x", "{}", `{"replicas":0,"machines":[],"machine_set_uid":"another"}`} {
		s := newSim(t, "", 3)
		s.idle = true
		four := int32(4)
		s.sets[0].Spec.Replicas = &four // for which it would wait
		s.sets[0].Annotations[machine.RollAnnotation] = text
		began := s.now
		for _, g := range []Goal{{Roll: true}, {Machines: 2}, {Machines: 9}} {
			if err := s.run(g).Go(t.Context()); !errors.Is(err, ErrRecord) || s.now != began || s.ops > 0 {
				t.Errorf("%s, %+v: %v after %s, %d changes", text, g, err, s.now.Sub(began), s.ops)
			}
			if _, err := s.run(g).Plan(t.Context()); !errors.Is(err, ErrRecord) {
				t.Errorf("%s, %+v: %v", text, g, err)
			}
		}
		s.idle = false
		if err := s.run(Goal{Roll: true, Afresh: true}).Go(t.Context()); err != nil || s.replicas() != "4" || s.machines[0].UID < "5" {
			t.Errorf("%s: %v, replicas %s", text, err, s.replicas())
		}
		s.clean()
	}
}
