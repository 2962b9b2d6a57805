package tune

import (
	"context"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/setting"
)

// keepParts removes the parts of a value that the administrator or a rule keeps, such as one kernel
// argument, and adds those that the value would drop. Each removed part becomes a step of its own
// that is not written. It returns false if nothing is left to write.
func (b *builder) keepParts(ctx context.Context, step *Step, kind setting.Kind) bool {
	c, ok := kind.(setting.Composite)
	if !ok || len(b.Keep) == 0 || step.Want.Absent {
		return true
	}
	var parts []setting.Part
	before := c.Parts(step.Before)
	all := c.Parts(step.Want)
	for _, p := range all {
		k, forbidden := b.forbidsPart(ctx, before, p)
		if !forbidden {
			parts = append(parts, p)
			continue
		}
		now, err := b.Kinds.Read(ctx, p.Setting)
		refused := Step{Setting: p.Setting, Want: p.Value, Reason: step.Reason, Unit: step.Unit, Stage: step.Stage, Action: None, Verdict: k.verdict(), Why: k.why()}
		_ = refused.read(now, err) // does not change the verdict
		b.add(refused)
	}
	removed := len(parts) < len(all)
	if dropped := b.droppedParts(before, parts); len(dropped) > 0 || removed {
		for _, d := range dropped {
			parts = append(parts, d.part)
			step.Why = joinWhy(step.Why, fmt.Sprintf("keeps %s: %s", d.part.Text, d.entry.why()))
		}
		step.Want = c.Join(step.Want, parts)
	}
	return !removed || !step.Want.Absent || !step.Before.Absent
}

func joinWhy(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// forbidsPart returns the entry that forbids a part of a new value. A part that is in place is not
// forbidden.
func (e *Engine) forbidsPart(ctx context.Context, before []setting.Part, p setting.Part) (KeepEntry, bool) {
	if slices.ContainsFunc(before, func(o setting.Part) bool { return o.Text == p.Text }) {
		return KeepEntry{}, false
	}
	for i, x := range append([]setting.Part{p}, p.Implies...) {
		equal := func(a, b setting.Value) bool { return e.Kinds.Equal(x.Setting, a, b) }
		k, ok := e.Keep.Forbids(x.Value, equal, x.Setting)
		if !ok {
			continue
		}
		if now, err := e.Kinds.Read(ctx, x.Setting); err == nil && i == 0 && equal(now, x.Value) {
			continue
		}
		return k, true
	}
	return KeepEntry{}, false
}

// keptPart is a part of the value in place with the entry that keeps it.
type keptPart struct {
	part  setting.Part
	entry KeepEntry
}

// droppedParts returns the parts before that are kept and have no successor among the new parts.
func (e *Engine) droppedParts(before, after []setting.Part) (dropped []keptPart) {
	for _, p := range before {
		k, kept := e.Keep.Match(p.Setting)
		if !kept || slices.ContainsFunc(after, func(o setting.Part) bool { return o.Setting == p.Setting }) {
			continue
		}
		equal := func(a, b setting.Value) bool { return e.Kinds.Equal(p.Setting, a, b) }
		if len(k.Allowed) == 0 || k.allows(p.Value, equal) {
			dropped = append(dropped, keptPart{p, k})
		}
	}
	return dropped
}

// changesPart returns the first part that a write would change although an entry keeps it.
func (e *Engine) changesPart(ctx context.Context, kind setting.Kind, before, after setting.Value) (setting.Part, KeepEntry, bool) {
	c, ok := kind.(setting.Composite)
	if !ok || len(e.Keep) == 0 {
		return setting.Part{}, KeepEntry{}, false
	}
	was, will := c.Parts(before), c.Parts(after)
	for _, p := range will {
		if k, ok := e.forbidsPart(ctx, was, p); ok {
			return p, k, true
		}
	}
	for _, d := range e.droppedParts(was, will) {
		return d.part, d.entry, true
	}
	return setting.Part{}, KeepEntry{}, false
}

// keepsPart reports whether an entry names a part of one of the values.
func (e *Engine) keepsPart(s setting.Setting, values ...setting.Value) bool {
	kind, err := e.Kinds.For(s)
	c, ok := kind.(setting.Composite)
	if err != nil || !ok {
		return false
	}
	return slices.ContainsFunc(values, func(v setting.Value) bool {
		return slices.ContainsFunc(c.Parts(v), func(p setting.Part) bool {
			_, kept := e.Keep.Match(p.Setting)
			return kept
		})
	})
}
