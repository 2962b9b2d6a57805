package cli

import (
	"fmt"
	"slices"
	"strconv"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/tune"
	guidefindings "fettle.dev/fettle/internal/guide/findings"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/setting"
)

// withhold removes fixes from a copy's findings that would copy lines of the copy's untrusted
// sysctl.d into a file of fettle. The copy's own files contain these lines anyway.
func withhold(findings []rule.Finding) {
	for i, f := range findings {
		if f.Rule.Each == "sysctls" && f.Fix != nil && len(f.Fix.Changes) > 0 {
			findings[i].Fix = &rule.Repair{Text: "not written: a file of the copied machine already sets this value for the next boot"}
		}
	}
}

// waits reports whether all written values take effect only after a program restarts.
func waits(a *tune.Applied) bool {
	return a.InForce() > 0 && !slices.ContainsFunc(a.Plan.Steps, func(st tune.Step) bool {
		return st.Action == tune.Write && st.Verdict != plugin.NeedsRestart
	})
}

// agree resolves different values for the same setting in the findings. It keeps the largest
// number, because numbers are limits, or the last text. It returns messages about the conflicts.
func agree(findings []rule.Finding) (said []string) {
	type request struct {
		id, value string
		all       []*rule.Entry
	}
	requests := map[string]*request{}
	for _, f := range findings {
		if f.Fix == nil {
			continue
		}
		for i := range f.Fix.Changes {
			e := &f.Fix.Changes[i]
			w := requests[e.Name]
			if w == nil {
				w = &request{id: f.ID, value: e.Value}
				requests[e.Name] = w
			}
			w.all = append(w.all, e)
			if e.Value == w.value {
				continue
			}
			mine, err1 := strconv.ParseFloat(e.Value, 64)
			theirs, err2 := strconv.ParseFloat(w.value, 64)
			id, taken := f.ID, e.Value
			if err1 == nil && err2 == nil && theirs > mine {
				id, taken = w.id, w.value
			}
			said = append(said, fmt.Sprintf("%s: %s requires %s, but %s requires %s; using %s", e.Name, w.id, w.value, f.ID, e.Value, taken))
			w.id, w.value = id, taken
		}
	}
	for _, w := range requests {
		for _, e := range w.all {
			e.Value, e.For = w.value, w.id
		}
	}
	return said
}

// sortOut returns the changes that fettle makes itself. It adds the changes that other tools or
// people must make to the result.
func sortOut(findings []rule.Finding, res *FixResult) ([]setting.Change, error) {
	var changes []setting.Change
	for _, f := range findings {
		if f.Fix == nil {
			res.ByHand = append(res.ByHand, guidefindings.ByHand{ID: f.ID, Instance: f.Instance, Title: f.Heading(), Text: "no program can fix this: " + f.Why})
			continue
		}
		more, err := changesOf(f)
		if err != nil {
			return nil, err
		}
		changes = append(changes, more...)
		b := guidefindings.ByHand{ID: f.ID, Instance: f.Instance, Title: f.Heading(), Artefact: f.Fix.Artefact, Entries: f.Fix.Entries, Command: f.Fix.Command, Text: f.Fix.Text}
		if len(more) > 0 { // the text describes an alternative
			b.Text, b.After = "", f.Fix.Artefact == ""
		}
		if b.Artefact != "" || b.Command != "" || b.Text != "" {
			res.ByHand = append(res.ByHand, b)
		}
	}
	return changes, nil
}

// changesOf returns the settings that a finding's fix writes.
func changesOf(f rule.Finding) ([]setting.Change, error) {
	var out []setting.Change
	for _, e := range f.Fix.Changes {
		s, err := setting.Parse(e.Name)
		if err != nil {
			return nil, fmt.Errorf("%s: the fix of %s: %w", f.Rule.At, f.ID, err)
		}
		out = append(out, setting.Change{Setting: s, Want: setting.Text(e.Value), Reason: setting.Reason{Rule: f.ID, Text: f.Title}})
	}
	return out, nil
}
