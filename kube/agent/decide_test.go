package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/kube/tuned"
)

func TestDecide(t *testing.T) {
	const boot, before = "boot-2", "boot-1"
	a := func(boot string) *InForce { return &InForce{Profile: "a", Origin: "a1", Boot: boot} }
	theirs := &InForce{Profile: "day", Boot: boot}
	want := func(profile, origin string, mode tuned.DeferMode) *Wanted {
		return &Wanted{Profile: profile, Origin: origin, Deferred: mode}
	}
	const never, update, always = tuned.DeferNever, tuned.DeferUpdate, tuned.DeferAlways
	leave, apply, again := Decision{Action: Leave}, Decision{Action: Apply}, Decision{Action: Again}
	waits := Decision{Action: Leave, Waits: true}

	for _, c := range []struct {
		name string
		s    Situation
		want Decision
	}{
		{"nothing heard, nothing in force", Situation{}, leave},
		{"nothing heard: what is in force stays", Situation{InForce: a(boot)}, leave},
		{"nothing heard after a boot: what was accepted", Situation{InForce: a(before)}, again},
		{"no profile, nothing in force", Situation{Heard: true}, leave},
		{"no profile: the node gets back what it had", Situation{Heard: true, InForce: a(boot)}, Decision{Action: Restore}},
		{"no profile after a boot", Situation{Heard: true, InForce: a(before)}, Decision{Action: Restore}},

		{"a first profile", Situation{Heard: true, Wanted: want("a", "a1", never)}, apply},
		{"it is in force", Situation{Heard: true, Decided: boot, Wanted: want("a", "a1", never), InForce: a(boot)}, leave},
		{"it is in force, the agent is new", Situation{Heard: true, Wanted: want("a", "a1", never), InForce: a(boot)}, leave},
		{"it was in force before the boot", Situation{Heard: true, Decided: before, Wanted: want("a", "a1", never), InForce: a(before)}, again},
		{"an edit", Situation{Heard: true, Decided: boot, Wanted: want("a", "a2", never), InForce: a(boot)}, apply},
		{"a switch", Situation{Heard: true, Decided: boot, Wanted: want("b", "b1", never), InForce: a(boot)}, apply},
		{"an edit at a boot", Situation{Heard: true, Decided: before, Wanted: want("a", "a2", never), InForce: a(before)}, apply},

		{"always: a first profile waits", Situation{Heard: true, Decided: boot, Wanted: want("a", "a1", always)}, waits},
		{"always: also where the agent has never decided", Situation{Heard: true, Wanted: want("a", "a1", always)}, waits},
		{"always: a switch waits", Situation{Heard: true, Decided: boot, Wanted: want("b", "b1", always), InForce: a(boot)}, waits},
		{"always: an edit waits", Situation{Heard: true, Decided: boot, Wanted: want("a", "a2", always), InForce: a(boot)}, waits},
		{"always: a restart of the agent is no boot", Situation{Heard: true, Decided: boot, Wanted: want("b", "b1", always), InForce: a(boot)}, waits},
		{"always: the boot applies", Situation{Heard: true, Decided: before, Wanted: want("b", "b1", always), InForce: a(before)}, apply},
		{"always: the boot applies a first one", Situation{Heard: true, Decided: before, Wanted: want("a", "a1", always)}, apply},
		{"always: killed at the boot between applying what was accepted and the decision", Situation{Heard: true, Decided: before, Wanted: want("b", "b1", always), InForce: a(boot)}, apply},
		{"always: the edit is taken back", Situation{Heard: true, Decided: boot, Wanted: want("a", "a1", always), InForce: a(boot)}, leave},
		{"always: another edit on top waits too", Situation{Heard: true, Decided: boot, Wanted: want("a", "a3", always), InForce: a(boot)}, waits},
		{"always: an immediate one goes before it", Situation{Heard: true, Decided: boot, Wanted: want("c", "c1", never), InForce: a(boot)}, apply},
		{"always: removed at once", Situation{Heard: true, Decided: boot, InForce: a(boot)}, Decision{Action: Restore}},
		{"always: without the memory of the last boot it waits, and what was accepted comes back", Situation{Heard: true, Wanted: want("b", "b1", always), InForce: a(before)}, Decision{Action: Again, Waits: true}},

		{"update: a first profile is a switch", Situation{Heard: true, Decided: boot, Wanted: want("a", "a1", update)}, apply},
		{"update: a switch is immediate", Situation{Heard: true, Decided: boot, Wanted: want("b", "b1", update), InForce: a(boot)}, apply},
		{"update: an edit waits", Situation{Heard: true, Decided: boot, Wanted: want("a", "a2", update), InForce: a(boot)}, waits},
		{"update: the boot applies the edit", Situation{Heard: true, Decided: before, Wanted: want("a", "a2", update), InForce: a(before)}, apply},

		{"a profile that cannot be applied", Situation{Heard: true, Decided: boot, Wanted: &Wanted{Profile: "b", Fault: "refused"}, InForce: a(boot)}, Decision{Action: Leave, Why: "refused"}},
		{"a profile that cannot be applied, at a boot", Situation{Heard: true, Decided: before, Wanted: &Wanted{Profile: "b", Fault: "refused"}, InForce: a(before)}, Decision{Action: Again, Why: "refused"}},
		{"a profile that cannot be applied, deferred", Situation{Heard: true, Decided: boot, Wanted: &Wanted{Profile: "b", Fault: "refused", Deferred: always}}, Decision{Action: Leave, Why: "refused"}},

		{"somebody's own selection stays", Situation{Heard: true, Decided: boot, Wanted: want("a", "a1", never), InForce: theirs}, Decision{Action: Leave, Why: selectedLocally}},
		{"somebody's own selection is not taken back", Situation{Heard: true, Decided: boot, InForce: theirs}, leave},
		{"somebody's own selection is not the agent's to apply at a boot", Situation{Heard: true, Decided: before, InForce: &InForce{Profile: "day", Boot: before}}, leave},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.s.Boot = boot
			if d := cmp.Diff(c.want, Decide(c.s)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// TestDeferredWaitsForExactlyOneBoot tests that a deferred request is applied by exactly one boot,
// however often the agent starts within one.
func TestDeferredWaitsForExactlyOneBoot(t *testing.T) {
	s := Situation{Heard: true, Boot: "boot-1", Wanted: &Wanted{Profile: "b", Origin: "b1", Deferred: tuned.DeferAlways}}
	applied := 0
	decide := func() {
		switch d := Decide(s); d.Action {
		case Apply:
			applied++
			s.InForce = &InForce{Profile: s.Wanted.Profile, Origin: s.Wanted.Origin, Boot: s.Boot}
		case Again:
			s.InForce.Boot = s.Boot
		}
		s.Decided = s.Boot
	}
	for range 5 {
		decide() // starts of the agent
	}
	if applied != 0 {
		t.Fatalf("applied %d times before any boot", applied)
	}
	for i, boot := range []string{"boot-2", "boot-3"} {
		s.Boot = boot
		for range 5 {
			decide()
		}
		if applied != 1 {
			t.Errorf("applied %d times after boot %d", applied, i+2)
		}
		if s.InForce == nil || s.InForce.Boot != boot {
			t.Errorf("in force after %s: %+v", boot, s.InForce)
		}
	}
}
