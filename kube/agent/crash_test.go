package agent

import (
	"fmt"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/kube/tuned"
)

// selectOwn selects a profile on the node, as fettle tune does.
func selectOwn(t *testing.T, m *agentMachine, name string) {
	t.Helper()
	p, err := m.load(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	sel, err := tune.NewSelection(p, []string{name}, tune.ModeManual)
	if err != nil {
		t.Fatal(err)
	}
	var out Outcome
	if err := m.transact(t.Context(), p, &out, tune.ApplyOptions{Kind: journal.Tune, Selection: sel}); err != nil {
		t.Fatal(err)
	}
}

// killed is the panic that simulates a kill.
type killed struct{}

// TestKilledAtEachPoint kills the agent at each point of a first apply, a switch and a removal. The
// next agent applies what is requested, and a removal then restores everything.
func TestKilledAtEachPoint(t *testing.T) {
	steps := []struct {
		name       string
		has, wants func(f *fakeNode) *tuned.Profile
		values     []string
	}{
		{"apply", nil, func(f *fakeNode) *tuned.Profile { return f.profile("", "day", day) }, []string{swappiness, "10", dirtyRatio, "40", somaxconn, "4096"}},
		{"switch", func(f *fakeNode) *tuned.Profile { return f.profile("", "day", day) },
			func(f *fakeNode) *tuned.Profile { return f.profile("", "night", night) }, []string{swappiness, "30", dirtyRatio, "20", somaxconn, "1024"}},
		{"boot", func(f *fakeNode) *tuned.Profile {
			f.look(f.profile("", "day", day), Apply)
			f.boot("boot-2")
			return nil
		},
			func(f *fakeNode) *tuned.Profile { return f.profile("", "day", day) }, []string{swappiness, "10", dirtyRatio, "40", somaxconn, "4096"}},
		{"a deferred change at a boot", func(f *fakeNode) *tuned.Profile {
			f.look(f.profile("", "day", day), Apply)
			f.look(f.profile(tuned.DeferAlways, "night", night), Leave)
			f.boot("boot-2")
			return nil
		}, func(f *fakeNode) *tuned.Profile { return f.profile(tuned.DeferAlways, "night", night) }, []string{swappiness, "30", dirtyRatio, "20", somaxconn, "1024"}},
		{"remove", func(f *fakeNode) *tuned.Profile { return f.profile("", "day", day) },
			func(*fakeNode) *tuned.Profile { return nil }, []string{swappiness, "60", dirtyRatio, "20", somaxconn, "4096"}},
	}
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			points := 0
			for at := 0; ; at++ {
				f := newNode(t, nil)
				if s.has != nil {
					if p := s.has(f); p != nil {
						f.look(p, Apply)
					}
				}
				p := s.wants(f)
				n, last := 0, ""
				f.At = func(point string) {
					last = point
					if n++; n > at {
						panic(killed{})
					}
				}
				if !dies(func() { f.Look(t.Context(), true, p) }) {
					points = at
					break
				}
				f.start()
				where := fmt.Sprintf("killed at point %d (%s)", at, last)
				out := f.Look(t.Context(), true, p)
				if out.Err != nil {
					t.Fatalf("%s: %v", where, out.Err)
				}
				f.want(s.values...)
				if out := f.Look(t.Context(), true, nil); out.Err != nil {
					t.Fatalf("%s: %v", where, out.Err)
				}
				f.wantPristine()
				if t.Failed() {
					t.Fatal(where)
				}
			}
			if points < 8 {
				t.Errorf("only %d points: the engine does not say where it is", points)
			}
		})
	}
}

func dies(do func()) (dead bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(killed); !ok {
				panic(r)
			}
			dead = true
		}
	}()
	do()
	return false
}
