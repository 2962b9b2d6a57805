package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/slow"
	"fettle.dev/fettle/internal/ui"
)

// Audit is the result of evaluating the rules on a machine.
type Audit struct {
	Schema string `json:"schema"` // fettle/check/v1
	// Machine is the host name, or the path of the copy. Hostname is the host name, if
	// known.
	Machine  string `json:"machine"`
	Hostname string `json:"hostname,omitempty"`
	// Root is the directory of a copy: the paths of the findings are below it.
	Root string `json:"root,omitempty"`
	// Copied marks the audit of a directory or archive, and On names another audited host:
	// steps are to be done there, not here.
	Copied bool   `json:"-"`
	On     string `json:"-"`
	// Cluster marks the audit of a cluster by kubectl fettle.
	Cluster   bool      `json:"-"`
	Time      time.Time `json:"time"`
	Platforms []string  `json:"platforms"`
	// Counts has the number of findings in each state: a rule for each disk has one for
	// each.
	Counts map[rule.State]int `json:"counts"`
	// RuleCounts has the number of rules in each state: each once, in the worst state of
	// its findings.
	RuleCounts map[rule.State]int `json:"rule_counts"`
	// Findings are sorted by urgency: the worst first, causes before consequences.
	Findings []rule.Finding `json:"findings"`
	// FileSystems has the usage of the file systems, for a later audit with this baseline.
	FileSystems []fact.FileSystem `json:"file_systems,omitempty"`
	// For is set if a program was audited as another release.
	For *OtherRelease `json:"for,omitempty"`
	// Baseline is the comparison with an earlier audit.
	Baseline *Baseline `json:"baseline,omitempty"`
	// Slow says why the machine is slow. It is nil if no counters were read.
	Slow *slow.Diagnosis `json:"slow,omitempty"`
}

// OtherRelease is a release that a program was audited as.
type OtherRelease struct {
	Program string `json:"program"`
	// Release is the requested release. Rules is the release whose rules were applied: the
	// newest known one, if Release is newer.
	Release string `json:"release"`
	Rules   string `json:"rules"`
	// OpenShift is the version of OpenShift that was requested instead.
	OpenShift string `json:"openshift,omitempty"`
	Here      string `json:"here,omitempty"` // the release of the machine; "" if unknown
	// Also is another program that is upgraded with this one.
	Also *OtherRelease `json:"also,omitempty"`
}

// Words names the releases: "kubelet 1.37 (here 1.34.4)".
func (o *OtherRelease) Words() string {
	how := "here " + cmp.Or(o.Here, "of an unknown release")
	if o.Rules != o.Release {
		how = "newer than all known releases: rules of " + o.Rules + "; " + how
	}
	words := o.Program + " " + o.Release
	if o.OpenShift != "" {
		words = o.Program + " of OpenShift " + o.OpenShift
		if o.Rules == o.Release {
			how = "Kubernetes " + o.Release + ", " + how
		}
	}
	words += " (" + how + ")"
	if o.Also != nil {
		words += " and " + o.Also.Words()
	}
	return words
}

// countOf lists the rules in a state: "2 fail (E15, O70)".
func (a *Audit) countOf(s rule.State) string {
	n := a.RuleCounts[s]
	words := fmt.Sprintf("%d %s", n, s)
	if n == 0 {
		return words
	}
	var ids []string
	for _, f := range a.Findings {
		if f.State == s && !slices.Contains(ids, f.ID) && len(ids) < n {
			ids = append(ids, f.ID)
		}
	}
	return words + " (" + strings.Join(ids, ", ") + ")"
}

// NewAudit sorts and counts the findings.
func NewAudit(machine string, when time.Time, platforms []string, findings []rule.Finding) *Audit {
	a := &Audit{Schema: "fettle/check/v1", Machine: machine, Time: when, Platforms: platforms, Findings: ordered(findings)}
	a.count()
	return a
}

// Bad reports whether a state needs action.
func Bad(s rule.State) bool { return s == rule.Failed || s == rule.Warned || s == rule.Unknown }

func badness(s rule.State) int { return slices.Index(rule.States, s) }

// ordered sorts the worst findings first, keeps those of a rule together, and puts consequences
// after their cause.
func ordered(findings []rule.Finding) []rule.Finding {
	worst := map[string]int{} // state of each rule
	for _, f := range findings {
		if r, ok := worst[f.ID]; !ok || badness(f.State) < r {
			worst[f.ID] = badness(f.State)
		}
	}
	out := slices.Clone(findings)
	// The rules come with dependencies first; that order stays within a state.
	slices.SortStableFunc(out, func(a, b rule.Finding) int { return cmp.Compare(badness(a.State), badness(b.State)) })
	var placed []rule.Finding
	done := map[int]bool{}
	var place func(i int)
	place = func(i int) {
		if done[i] {
			return
		}
		done[i] = true
		placed = append(placed, out[i])
		if !Bad(out[i].State) {
			return
		}
		for j, f := range out { // more of the same rule, before its consequences
			if !done[j] && f.ID == out[i].ID && f.State == out[i].State {
				done[j] = true
				placed = append(placed, f)
			}
		}
		for j, f := range out {
			if !done[j] && f.Because == out[i].ID {
				place(j)
			}
		}
	}
	for i, f := range out {
		// A consequence follows its cause, however bad it is.
		if _, there := worst[f.Because]; f.Because == "" || !there {
			place(i)
		}
	}
	for i := range out {
		place(i)
	}
	return placed
}

func findingSign(s rule.State) (sign, color string) {
	switch s {
	case rule.Passed:
		return "✓", ui.Green
	case rule.Failed:
		return "✗", ui.Red
	case rule.Warned:
		return "!", ui.Yellow
	case rule.Unknown:
		return "?", ui.Yellow
	}
	return "·", ui.Dim
}

// shown is the number of listed items of a group; the rest is counted.
const shown = 6

// Print prints an audit: bad findings in full, the rest only if all is set.
func Print(s *ui.Screen, a *Audit, all bool) {
	w := &writer{s, width(s), a}
	if a.For != nil {
		w.lines("", fmt.Sprintf("With %s: %s, %s, %s", a.For.Words(), a.countOf(rule.Failed), a.countOf(rule.Warned), a.countOf(rule.Unknown)), "")
	}
	var rest []group
	for _, g := range a.fewer(groups(a.Findings)) {
		switch {
		case Bad(g.State) && g.Change != Same:
			w.group(g)
		case all || Bad(g.State) && a.Baseline == nil:
			rest = append(rest, g)
		}
	}
	for _, g := range rest {
		w.brief(g)
	}
	if len(rest) > 0 {
		fmt.Fprintln(s.Out)
	}
	if a.Baseline != nil {
		w.lines("", a.changeWords()...)
	}
	w.lines("", a.countWords())
	if next := a.next(); next != "" {
		w.lines("", "next: "+next)
	}
}

// width returns the line length: that of the terminal, within readable limits.
func width(s *ui.Screen) int {
	if s.Width == 0 {
		return 80
	}
	return max(40, min(s.Width, 100))
}

// next returns the next steps, the most useful first.
func (a *Audit) next() string {
	var mended []string // by settings that fettle writes
	bad, unknown := 0, 0
	for _, f := range a.Findings {
		switch {
		case f.Change == Same:
		case f.State == rule.Unknown:
			unknown++
		case Bad(f.State):
			bad++
			if f.Fix != nil && len(f.Fix.Changes) > 0 && !slices.Contains(mended, f.ID) {
				mended = append(mended, f.ID)
			}
		}
	}
	var steps []string
	if len(mended) > 0 && a.For == nil {
		where := ""
		switch {
		case a.On != "":
			where = ", on " + a.On + ","
		case a.Copied:
			where = ", on the machine itself,"
		}
		steps = append(steps, fmt.Sprintf("fettle fix %s%s shows what it would write, and asks first", strings.Join(mended[:min(3, len(mended))], " "), where))
	}
	switch {
	case bad > 0 && a.Cluster:
		steps = append(steps, "fettle rules show ID shows reason and source")
	case bad > 0 && a.For != nil:
		steps = append(steps, "fettle check --for "+a.For.Release+" --explain ID shows reason and source")
	case bad > 0:
		steps = append(steps, "fettle check --explain ID shows reason and source")
	}
	switch {
	case unknown > 0 && a.Cluster:
		steps = append(steps, "unknown findings name whom to ask, or the missing right")
	case unknown > 0 && a.Copied:
		steps = append(steps, "unknown findings name what the copy lacks; on the machine itself sudo fettle check reads it, or sudo fettle facts --archive FILE records it")
	case unknown > 0:
		steps = append(steps, "unknown findings name the missing file, or need root")
	}
	return strings.Join(steps, "; ")
}

// explained returns the command that shows all items of a rule and their reasons.
func (a *Audit) explained(id string) string {
	if a.Cluster {
		return "--all --output json has them"
	}
	return "fettle check --explain " + id
}

// writer wraps text for a terminal.
type writer struct {
	*ui.Screen
	width int
	audit *Audit
}

// lines writes wrapped lines; continuation lines are indented by two more blanks.
func (w *writer) lines(indent string, lines ...string) {
	for _, line := range lines {
		text := ui.Wrap(ui.Printable(line), w.width-len(indent)-2)
		fmt.Fprintln(w.Out, indent+strings.ReplaceAll(text, "\n", "\n"+indent+"  "))
	}
}

func (w *writer) head(g group, more string) {
	sign, color := findingSign(g.State)
	label := fmt.Sprintf("%s %s", sign, g.State)
	if g.Change == New || g.Change == Worse {
		label += ", " + string(g.Change)
	}
	gap := "  "
	text := ui.Wrap(ui.Printable(gap+g.ID+gap+g.Title+more), w.width-len([]rune(label))-2)
	fmt.Fprintln(w.Out, w.Paint(color, label)+strings.ReplaceAll(text, "\n", "\n    "))
}

// group writes a finding in full.
func (w *writer) group(g group) {
	w.head(g, "")
	if g.Because != "" {
		w.lines("  ", "because of "+g.Because)
	}
	switch {
	case g.Reason != "":
		w.lines("  ", g.Reasons())
	default:
		items := g.Told()
		for _, i := range items[:min(shown, len(items))] {
			w.lines("  ", i.says())
		}
		if more := len(items) - shown; more > 0 {
			w.lines("  ", fmt.Sprintf("and %d more (%s)", more, w.audit.explained(g.ID)))
		}
	}
	if g.State != rule.Unknown {
		w.lines("  ", "why: "+g.Why)
		for i, f := range g.Fixes() {
			if i == 0 {
				w.lines("  ", "fix: "+f)
				continue
			}
			w.lines("       ", f)
		}
	}
	fmt.Fprintln(w.Out)
}

// brief writes a finding on one line.
func (w *writer) brief(g group) {
	for _, i := range g.Items {
		more := ""
		switch {
		case g.Reason != "":
			more = ": " + g.Reason
		case g.State == rule.Passed && i.Measured != "":
			more = ": " + i.Measured
		}
		if i.Instance != "" {
			more = " - " + i.Instance + more
		}
		w.head(group{Finding: g.Finding}, more)
	}
}
