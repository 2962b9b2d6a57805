package findings

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/slow"
	"fettle.dev/fettle/internal/ui"
)

// Audit is the result of evaluating the rules on a machine.
type Audit struct {
	Schema string `json:"schema"` // fettle/check/v1
	// Headline is the answer in one to three lines; Conclude writes it.
	Headline ui.Headline `json:"headline"`
	// Machine is the host name, or the path of a copy. Hostname is the host name, "" if unknown.
	Machine  string `json:"machine"`
	Hostname string `json:"hostname,omitempty"`
	// Root is the directory of a copy; the findings' paths are relative to it.
	Root string `json:"root,omitempty"`
	// Copied marks the audit of the directory or archive From. On names another audited
	// host. In both cases steps are to be done there rather than on this machine.
	Copied bool   `json:"-"`
	From   string `json:"-"`
	On     string `json:"-"`
	// Program is the program in printed commands; "" means fettle.
	Program string `json:"-"`
	// Cluster marks the audit of a cluster by kubectl fettle.
	Cluster   bool      `json:"-"`
	Time      time.Time `json:"time"`
	Platforms []string  `json:"platforms"`
	// Counts has the number of findings per state. A rule evaluated per disk has one finding per disk.
	Counts map[rule.State]int `json:"counts"`
	// RuleCounts has the number of rules per state. Each rule counts once, in the worst state of
	// its findings.
	RuleCounts map[rule.State]int `json:"rule_counts"`
	// Findings are sorted by urgency: the worst first, causes before consequences.
	Findings []rule.Finding `json:"findings"`
	// FileSystems has the usage of the file systems, for comparison by a later audit.
	FileSystems []fact.FileSystem `json:"file_systems,omitempty"`
	// For is set if a program was audited as if it had another release.
	For *OtherRelease `json:"for,omitempty"`
	// Newer describes versions that are newer than all known ones, and whose rules were applied.
	Newer []string `json:"newer,omitempty"`
	// Baseline is the comparison with an earlier audit.
	Baseline *Baseline `json:"baseline,omitempty"`
	// Slow is the diagnosis of why the machine is slow; nil if no counters were read.
	Slow *slow.Diagnosis `json:"slow,omitempty"`
}

// OtherRelease is the release as which a program was audited.
type OtherRelease struct {
	Program string `json:"program"`
	// Release is the requested release. Rules is the release whose rules were applied: the newest
	// known one if Release is newer.
	Release string `json:"release"`
	Rules   string `json:"rules"`
	// OpenShift is the OpenShift version, if that was requested instead.
	OpenShift string `json:"openshift,omitempty"`
	Here      string `json:"here,omitempty"` // installed release; "" if unknown
	// Also is another program that is upgraded together with this one, or nil.
	Also *OtherRelease `json:"also,omitempty"`
}

// Words describes the releases: "kubelet 1.37 (installed: 1.34.4)".
func (o *OtherRelease) Words() string {
	how := "installed: " + cmp.Or(o.Here, "unknown")
	if o.Rules != o.Release {
		how = "newer than all known releases, so the rules of " + o.Rules + " apply; " + how
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

// NewAudit returns an audit with its findings sorted and counted.
func NewAudit(machine string, when time.Time, platforms []string, findings []rule.Finding) *Audit {
	a := &Audit{Schema: "fettle/check/v1", Machine: machine, Time: when, Platforms: platforms, Findings: ordered(findings)}
	a.count()
	return a
}

// Bad reports whether a state needs action.
func Bad(s rule.State) bool { return s == rule.Failed || s == rule.Warned || s == rule.Unknown }

func badness(s rule.State) int { return slices.Index(rule.States, s) }

// harm returns a finding's rank: measured harm first, then faults, then advice.
func harm(f rule.Finding) int {
	if f.Harm && (f.State == rule.Failed || f.State == rule.Warned) {
		return badness(f.State) - len(rule.States)
	}
	return badness(f.State)
}

// ordered sorts findings by harm, the worst first. It keeps the findings of a rule together, and
// puts consequences after their cause.
func ordered(findings []rule.Finding) []rule.Finding {
	worst := map[string]int{} // harm of each rule
	raise := func(id string, to int) {
		if old, ok := worst[id]; !ok || to < old {
			worst[id] = to
		}
	}
	for _, f := range findings {
		raise(f.ID, harm(f))
	}
	of := maps.Clone(worst)
	for _, f := range slices.Backward(findings) { // causes come before consequences
		if _, there := of[f.Because]; there {
			raise(f.Because, worst[f.ID])
		}
	}
	rank := func(f rule.Finding) int {
		if Bad(f.State) && harm(f) == of[f.ID] {
			return worst[f.ID]
		}
		return harm(f)
	}
	out := slices.Clone(findings)
	// The rules come with dependencies first; that order stays within a state.
	slices.SortStableFunc(out, func(a, b rule.Finding) int { return cmp.Compare(rank(a), rank(b)) })
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
		for j, f := range out { // other findings of the rule, before its consequences
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
		// A consequence follows its cause, whatever its own harm.
		if _, there := worst[f.Because]; f.Because == "" || !there {
			place(i)
		}
	}
	for i := range out {
		place(i)
	}
	return placed
}
