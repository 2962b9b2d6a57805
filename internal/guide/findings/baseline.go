package findings

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/rule"
)

// Changes of a finding since the baseline.
const (
	New   rule.Change = "new"   // not bad in the baseline, or not checked
	Worse rule.Change = "worse" // bad in the baseline, and worse now
	Same  rule.Change = "same"  // as bad as in the baseline, or less
)

// Baseline is the comparison with an earlier audit.
type Baseline struct {
	File    string    `json:"file"`
	Machine string    `json:"machine"`
	Time    time.Time `json:"time"`
	// Mended lists findings that were bad and no longer are.
	Mended []Mended `json:"mended"`
	New    int      `json:"new"`
	Worse  int      `json:"worse"`
	Same   int      `json:"same"`
}

// Mended is a finding of the baseline that is now fixed.
type Mended struct {
	ID       string     `json:"id"`
	Instance string     `json:"instance,omitempty"`
	Title    string     `json:"title"`
	Was      rule.State `json:"was"`
}

// ReadBaseline parses an audit in JSON.
func ReadBaseline(name string, text []byte) (*Audit, error) {
	var a Audit
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, fmt.Errorf("%s is not an audit in JSON: %w", name, err)
	}
	if a.Schema != "fettle/check/v1" {
		return nil, fmt.Errorf("%s is not an audit: its schema is %q, not fettle/check/v1", name, a.Schema)
	}
	if len(a.Findings) == 0 {
		return nil, fmt.Errorf("%s is not a complete audit: the findings are missing", name)
	}
	for i := range a.Findings {
		for _, v := range []*any{&a.Findings[i].Measured, &a.Findings[i].Want} {
			if plain, ok := fact.Plain(*v); ok { // lists as the rules have them
				*v = plain
			}
		}
	}
	return &a, nil
}

// Against compares the audit with an earlier one.
func (a *Audit) Against(name string, old *Audit) {
	b := &Baseline{File: name, Machine: old.Machine, Time: old.Time, Mended: []Mended{}}
	type key struct{ id, instance string }
	was := map[key]rule.State{}
	for _, f := range old.Findings {
		was[key{f.ID, f.Instance}] = f.State
	}
	now := map[key]bool{} // bad
	asked := map[string]bool{}
	for i := range a.Findings {
		f := &a.Findings[i]
		if _, off := f.IsDisabled(); !off {
			asked[f.ID] = true
		}
		if !Bad(f.State) {
			continue
		}
		k := key{f.ID, f.Instance}
		now[k] = true
		old, known := was[k]
		switch {
		case !known || !Bad(old):
			f.Change = New
			b.New++
		case badness(f.State) < badness(old):
			f.Change = Worse
			b.Worse++
		default:
			f.Change = Same
			b.Same++
		}
	}
	for _, f := range old.Findings {
		k := key{f.ID, f.Instance}
		// A rule that was not evaluated this time, or whose items are unknown, does not count as fixed.
		known := asked[f.ID] || f.ID == "platform" && a.judged(f.Instance)
		if Bad(f.State) && !now[k] && !now[key{f.ID, ""}] && known {
			b.Mended = append(b.Mended, Mended{f.ID, f.Instance, f.Title, f.State})
		}
	}
	a.Baseline = b
}

// judged reports whether a rule of a platform has a result, so that the platform's presence is known.
func (a *Audit) judged(platform string) bool {
	return slices.ContainsFunc(a.Findings, func(f rule.Finding) bool {
		return f.Rule != nil && slices.Contains(f.Rule.Platforms, platform) && (f.State == rule.Passed || f.State == rule.Warned || f.State == rule.Failed)
	})
}

// Counted returns the numbers of rules and items in a state that count for a gate. With a baseline
// only new and worse ones count.
func (a *Audit) Counted(s rule.State) (rules, items int) {
	of := map[string]bool{}
	for _, f := range a.Findings {
		if f.State == s && f.Change != Same {
			of[f.ID] = true
			items++
		}
	}
	return len(of), items
}

// mended lists the findings fixed since the baseline, or nil.
func (a *Audit) mended() []string {
	var out []string
	if a.Baseline == nil {
		return nil
	}
	for _, m := range a.Baseline.Mended {
		what := m.Title
		if m.Instance != "" {
			what += ": " + m.Instance
		}
		out = append(out, fmt.Sprintf("✓ fixed  %s  %s (was %s)", m.ID, what, m.Was))
	}
	return out
}

// changeWords counts the changes since the baseline.
func (a *Audit) changeWords() string {
	b := a.Baseline
	mended := map[string]bool{}
	for _, m := range b.Mended {
		mended[m.ID] = true
	}
	rules := map[rule.Change]map[string]bool{New: {}, Worse: {}, Same: {}}
	for _, f := range a.Findings {
		if of := rules[f.Change]; of != nil {
			of[f.ID] = true
		}
	}
	return fmt.Sprintf("since %s (%s): %s, %s, %s, %s", b.File, b.Time.UTC().Format("2006-01-02 15:04 UTC"),
		counted(len(rules[New]), b.New, "new"), counted(len(rules[Worse]), b.Worse, "worse"), counted(len(mended), len(b.Mended), "fixed"), counted(len(rules[Same]), b.Same, "as before"))
}
