package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/guide/rule"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// Conclude sets the headline from the findings: first the counts, then the sample of the live
// machine, if any, then the comparison with an earlier audit.
func (a *Audit) Conclude() {
	h := ui.Headline{}
	before, after := "", " ("+strings.Join(append([]string{strings.Join(a.Platforms, ", ")}, a.Newer...), "; ")+")"
	if a.For != nil {
		before, after = "With "+a.For.Words()+": ", ""
	}
	n := a.RuleCounts
	h.Line("%s%s, %s, %s fine, %s not determined%s", before, h.Count("problems", n[rule.Failed], "problem"), h.Count("warnings", n[rule.Warned], "warning"),
		h.Count("fine", n[rule.Passed], ""), h.Count("not_determined", n[rule.Unknown], ""), after)
	if a.Slow.Answers() {
		a.Slow.AppendTo(&h)
	}
	if off := a.disabledByCopy(); len(off) > 0 {
		h.Line("%s disabled by a rule file in the copy: %s", h.Count("disabled_by_copy", len(off), "rule"), strings.Join(off, ", "))
	}
	if a.Baseline != nil {
		h.Line("%s", a.changeWords())
	}
	a.Headline = h
}

// disabledByCopy returns the rules that a copy disables; they are always reported.
func (a *Audit) disabledByCopy() []string {
	var off []string
	for _, f := range a.Findings {
		if f.DisabledByCopy() {
			off = append(off, f.ID)
		}
	}
	return off
}

// next returns the recommended next step, or "". explained tells whether reasons and sources are
// printed already.
func (a *Audit) next(explained bool) string {
	bad, fixed, unknown := 0, map[string]bool{}, map[string]bool{}
	var rules []string // the rules of what fettle fix fixes, without their parts
	for _, f := range a.Findings {
		switch {
		case f.Change == Same:
		case f.State == rule.Unknown:
			unknown[f.Ask] = true
		case Bad(f.State):
			bad++
			if f.Fix != nil && len(f.Fix.Changes) > 0 {
				fixed[f.ID] = true
				if id, _, _ := strings.Cut(f.ID, "."); !slices.Contains(rules, id) {
					rules = append(rules, id)
				}
			}
		}
	}
	var steps []string
	if len(fixed) > 0 && a.For == nil {
		names := strings.Join(rules[:min(shown, len(rules))], ", ")
		if more := len(rules) - shown; more > 0 {
			names += internaltext.Sprintf(" and %d more", more)
		}
		steps = append(steps, fmt.Sprintf("%sfettle fix fixes %s (%s), after a confirmation", a.where(), internaltext.Count(len(fixed), "finding"), names))
	}
	if !explained && (bad > 0 || len(unknown) > 0) {
		steps = append(steps, "--details shows reasons and sources")
	}
	if len(unknown) > 1 || len(unknown) == 1 && !unknown[""] {
		switch {
		case a.Copied && bad == 0:
			steps = append(steps, "to record what the copy lacks, run sudo fettle facts --archive FILE on the machine")
		case !a.Copied && !a.Cluster:
			steps = append(steps, "sudo fettle check can determine more")
		}
	}
	return strings.Join(steps, "; ")
}

// command returns the only command with which a fix begins, or "", and the words before it if it
// must run on another machine.
func (a *Audit) command(g group) (command, there string) {
	x := g.Fix
	switch {
	case x == nil || g.Because != "":
		return "", ""
	case a.Cluster: // the fix is for a node, or a decision
		return a.explained(g.ID), ""
	case len(x.Changes) > 0: // only values are written; files of other programs are explained
		return "fettle fix " + g.ID, g.where
	case x.Command != "" && (x.Text == "" || x.Artefact == rule.Installer && len(x.Entries) > 0):
		return x.Command, g.where
	}
	return a.explained(g.ID), ""
}

// explained returns the command that shows all items of a rule and their reasons.
func (a *Audit) explained(id string) string {
	if a.Cluster {
		return "fettle rules show " + id
	}
	call := cmp.Or(a.Program, "fettle") + " check"
	if a.For != nil {
		call += " --for " + a.For.Release
	}
	if a.From != "" {
		call += " --root " + internaltext.Quote(a.From)
	}
	return call + " --explain " + id
}

// ExplainHeadline returns the headline of check --explain: the rule and its findings on this
// machine.
func ExplainHeadline(r *rule.Rule, found []rule.Finding) (h ui.Headline) {
	n := map[rule.State]int{}
	for _, f := range found {
		n[f.State]++
	}
	var parts []string
	title := r.Title
	for _, c := range []struct {
		state      rule.State
		name       string
		one, other string
	}{
		{rule.Failed, "problems", "problem", "problems"}, {rule.Warned, "warnings", "warning", "warnings"}, {rule.Passed, "fine", "fine", "fine"},
		{rule.Unknown, "not_determined", "not determined", "not determined"}, {rule.Reminded, "reminders", "reminder", "reminders"}, {rule.NotApplicable, "not_applicable", "not applicable", "not applicable"},
	} {
		if n[c.state] > 0 {
			parts = append(parts, h.Value(c.name, float64(n[c.state]), internaltext.CountPlural(uint64(n[c.state]), c.one, c.other)))
		}
	}
	if n[rule.Failed]+n[rule.Warned] > 0 && r.Failed != "" {
		title = r.Failed
	}
	if len(parts) == 0 {
		parts = []string{"nothing to check here"}
	}
	h.Line("%s: %s: %s", r.ID, strings.Join(parts, ", "), title)
	return h
}
