package findings

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"fettle.dev/fettle/internal/guide/rule"
)

// How a finding stands to the baseline.
const (
	New   rule.Change = "new"   // it was well then, or nobody asked
	Worse rule.Change = "worse" // it was bad, and is worse
	Same  rule.Change = "same"  // as bad as it was, or less
)

// Baseline is an earlier audit, and what has been mended since.
type Baseline struct {
	File    string    `json:"file"`
	Machine string    `json:"machine"`
	Time    time.Time `json:"time"`
	// Mended was bad then and is not now.
	Mended []Mended `json:"mended"`
	New    int      `json:"new"`
	Worse  int      `json:"worse"`
	Same   int      `json:"same"`
}

// Mended is a finding of the baseline.
type Mended struct {
	ID       string     `json:"id"`
	Instance string     `json:"instance,omitempty"`
	Title    string     `json:"title"`
	Was      rule.State `json:"was"`
}

// ReadBaseline reads the JSON form of an audit.
func ReadBaseline(name string, text []byte) (*Audit, error) {
	var a Audit
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, fmt.Errorf("%s is no audit in JSON: %w", name, err)
	}
	if a.Schema != "fettle/check/v1" {
		return nil, fmt.Errorf("%s is no audit: its schema is %q, and not fettle/check/v1", name, a.Schema)
	}
	if len(a.Findings) == 0 {
		return nil, fmt.Errorf("%s is no whole audit: it has no findings", name)
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
	now := map[key]bool{} // bad, or not known to be well
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
		// A rule that was not asked this time has mended nothing, and one that
		// cannot list its things does not know.
		told := asked[f.ID] || f.ID == "platform" && a.judged(f.Instance)
		if Bad(f.State) && !now[k] && !now[key{f.ID, ""}] && told {
			b.Mended = append(b.Mended, Mended{f.ID, f.Instance, f.Title, f.State})
		}
	}
	a.Baseline = b
}

// judged is true of a platform whose rules have an answer: whether the machine is one
// can be told.
func (a *Audit) judged(platform string) bool {
	return slices.ContainsFunc(a.Findings, func(f rule.Finding) bool {
		return f.Rule != nil && slices.Contains(f.Rule.Platforms, platform) && (f.State == rule.Passed || f.State == rule.Warned || f.State == rule.Failed)
	})
}

// Counted is how many rules and items of a state count for a gate: with a baseline
// those that are new or worse.
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

// changeWords say what has become of the baseline.
func (a *Audit) changeWords() []string {
	b := a.Baseline
	out := []string{}
	mended := map[string]bool{}
	for _, m := range b.Mended {
		what := m.Title
		if m.Instance != "" {
			what += " - " + m.Instance
		}
		mended[m.ID] = true
		out = append(out, fmt.Sprintf("✓ mended  %s  %s (was %s)", m.ID, what, m.Was))
	}
	rules := map[rule.Change]map[string]bool{New: {}, Worse: {}, Same: {}}
	for _, f := range a.Findings {
		if of := rules[f.Change]; of != nil {
			of[f.ID] = true
		}
	}
	return append(out, fmt.Sprintf("since %s (%s): %s, %s, %s, %s", b.File, b.Time.UTC().Format("2006-01-02 15:04 UTC"),
		counted(len(rules[New]), b.New, "new"), counted(len(rules[Worse]), b.Worse, "worse"), counted(len(mended), len(b.Mended), "mended"), counted(len(rules[Same]), b.Same, "as before")))
}
