// Package audit audits one machine, live or recorded, and returns findings. It knows all platforms,
// the sources of their facts and the rule catalog. fettle check and kubectl fettle check --root use
// it.
package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/findings"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/slow"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/internal/product/kubelet"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Request describes one audit of a machine.
type Request struct {
	Screen  *ui.Screen // prints the audit's messages
	Subject *platform.Subject
	Root    string // directory or archive of a copy; "" for this machine
	// Platforms are the platforms to check. If empty, Run sets them to the machine's platforms.
	Platforms []string
	Own       []rule.File // the administrator's rules
	// Catalogue holds the rules to evaluate. If nil, Run loads those for Platforms.
	Catalogue *rule.Catalogue
	Upgrade   *Upgrade // nil: audit the installed releases
	Slow      *slow.Diagnosis
	// WholeLogs is the option or command that reads logs from the beginning; messages name it.
	WholeLogs string

	absent []string // requested platforms that the machine does not have
}

// Run evaluates the rules.
func (r *Request) Run(ctx context.Context) (*findings.Audit, error) {
	h := r.Subject.Host
	r.absent = r.Subject.Absent(r.Platforms, Products())
	undecided, err := r.find()
	if err != nil {
		return nil, err
	}
	if r.Catalogue == nil {
		if r.Catalogue, err = CatalogueOf(r.Own, &rule.Needed{Platforms: r.Platforms}); err != nil {
			return nil, err
		}
	}
	name := h.Hostname()
	all := append(r.Upgrade.only(r.Catalogue).Check(ctx, r.Subject, r.Platforms, r.Catalogue.Disabled()), undecided...)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	a := findings.NewAudit(cmp.Or(name, h.Name), h.Clock.Now().UTC(), r.Platforms, all)
	a.Program, a.Hostname, a.For, a.Slow = r.Screen.Name, name, r.Upgrade.audit(), r.Slow
	if a.For == nil {
		a.Newer = r.newer()
	}
	a.FileSystems, _ = fact.FileSystems(h) // if unknown, no later audit can compare them
	SayLimits(r.Screen, r.Subject, a.Findings, r.WholeLogs)
	a.Root, a.Copied, a.From = directoryOf(r.Root), r.Root != "", r.Root
	for i := range a.Findings {
		a.Findings[i].Ask = askFor(&a.Findings[i], h.Live, os.Geteuid() == 0)
	}
	if a.For != nil && r.Screen.Format != ui.Table {
		r.Screen.Say("with %s", a.For.Words())
	}
	for _, p := range r.absent {
		r.Screen.Say("%s is not installed here: %s", p, applying(a.Findings, p))
	}
	return a, nil
}

// applying counts the rules of a platform that apply to the machine.
func applying(all []rule.Finding, platform string) string {
	ids := map[string]bool{}
	for _, f := range all {
		if f.State != rule.NotApplicable && f.State != rule.Reminded && f.Rule != nil && slices.Contains(f.Rule.Platforms, platform) {
			ids[f.ID] = true
		}
	}
	switch len(ids) {
	case 0:
		return "none of its rules applies"
	case 1:
		return "only 1 of its rules applies"
	}
	return fmt.Sprintf("only %d of its rules apply", len(ids))
}

// newer describes the versions of the checked platforms that are newer than all known ones.
func (r *Request) newer() (out []string) {
	text := func(input string) string {
		v, _ := r.Subject.Answer(input).Value.(string)
		return v
	}
	has := func(platform string) bool { return slices.Contains(r.Platforms, platform) }
	if has("openshift") {
		out = kuberelease.Newer("", text("openshift.version"))
	}
	if has("kubernetes-node") || has(kubelet.Product.Name) {
		out = append(out, kuberelease.Newer(text("kubelet.version"), "")...)
	}
	if known, ok := r.Subject.Answer("satellite.release_known").Value.(bool); has("satellite") && ok && !known {
		out = append(out, fmt.Sprintf("%s is not a known release; using the tables of %s", text("satellite.release"), text("satellite.judged_as")))
	}
	return out
}

// find sets the platforms to the machine's, unless the caller has named platforms. It returns a
// finding for each platform for which it could not determine whether the machine has it.
func (r *Request) find() ([]rule.Finding, error) {
	if len(r.Platforms) > 0 {
		return nil, nil
	}
	names, unknown := r.Subject.Of(Products())
	if !r.Subject.HasMachine() {
		// Only rules about documents apply.
		names, unknown = slices.DeleteFunc(names, func(p string) bool { return p != "openshift" }), nil
		if len(names) == 0 {
			return nil, noMachine(r.Screen.Program(), r.Root)
		}
		r.Screen.Say("%s contains cluster documents but no machine: checking only cluster rules (for machine rules: fettle check linux --root %s)", r.Root, text.Quote(r.Root))
	}
	r.Platforms = names
	return platform.Undetermined(unknown), nil
}

// Gate returns the error of an audit that determined nothing, or that does not meet --fail-on.
// sampled is the error of the measurements, or nil.
func (r *Request) Gate(a *findings.Audit, failOn string, sampled error) error {
	return cmp.Or(undetermined(a, r.absent), a.Gate(failOn), sampled, allUnknown(r.Screen.Program(), a))
}

// hasCommand matches reasons that already name the command for an unknown fact.
var hasCommand = text.LazyRegexp(`\b(fettle|oc|kubectl) [a-z]`)

// askFor returns the command that determines an unknown finding, or "" if no command can. A copy
// may lack data, and an unprivileged user may not read all of the machine.
func askFor(f *rule.Finding, live, root bool) string {
	switch {
	case f.State != rule.Unknown || hasCommand().MatchString(f.Reason) || live && root:
		return ""
	case f.Rule == nil || f.Rule.ID == "": // about a platform, not a rule
		return "sudo fettle check"
	}
	return "sudo fettle check --explain " + f.ID
}

// noMachine returns the error for a directory that does not contain a machine.
func noMachine(program, root string) error {
	way := "on that machine run: fettle facts --archive FILE\nhere run: " + program + " check --root FILE"
	if dir := filepath.Clean(root); slices.Contains([]string{"etc", "proc", "sys", "usr", "var"}, filepath.Base(dir)) {
		way = "--root needs the directory above it: " + program + " check --root " + filepath.Dir(dir)
	}
	return ui.Hinted(ui.Failed, fmt.Errorf("nothing could be determined: %s contains no machine (/proc, /sys, /etc) and no cluster documents", root), way)
}

// undetermined returns an error if no rule applied: then no gate is met.
func undetermined(a *findings.Audit, absent []string) error {
	if slices.ContainsFunc(a.Findings, func(f rule.Finding) bool { return f.State != rule.NotApplicable && f.State != rule.Reminded }) {
		return nil
	}
	if len(absent) == 0 {
		return ui.Exit(ui.Failed, errors.New("nothing could be determined: no rule applies"))
	}
	return ui.Hinted(ui.Failed, fmt.Errorf("nothing could be determined: %s not found", strings.Join(absent, " and ")), "without a platform and --for, check looks at what is installed")
}

// allUnknown returns an error if every finding of an audit is unknown.
func allUnknown(program string, a *findings.Audit) error {
	if slices.ContainsFunc(a.Findings, Decided) {
		return nil
	}
	if a.Copied {
		return ui.Hinted(ui.Failed, errors.New("nothing could be determined: the copy lacks data that the rules need"), "on that machine run: fettle facts --archive FILE\nhere run: "+program+" check --root FILE")
	}
	return ui.Hinted(ui.Failed, errors.New("nothing could be determined: every finding is unknown"), "run as root: sudo fettle check")
}

// Decided reports whether the state of a finding is pass, warn or fail.
func Decided(f rule.Finding) bool {
	return f.State == rule.Passed || f.State == rule.Warned || f.State == rule.Failed
}

// SayLimits prints which parts of logs were not read, and the call that reads them. It also prints
// which rules are disabled on a copy, because a copy may be hostile.
func SayLimits(s *ui.Screen, m *platform.Subject, all []rule.Finding, wholeLogs string) {
	for _, file := range slices.Sorted(maps.Keys(m.Unread)) {
		s.SayOnce(text.Sprintf("%s: first %s not read, only the last %d MiB (%s reads all)", file, unit.Size(m.Unread[file]).Human(), m.LogBytes>>20, wholeLogs))
	}
	for _, f := range all {
		if f.DisabledByCopy() {
			s.SayOnce(f.ID + " is " + f.Reason)
		}
	}
}

// directoryOf returns the absolute path of --root if it is a directory, or "".
func directoryOf(root string) string {
	if st, err := host.Live().Files.Stat(root); root == "" || err != nil || !st.IsDir() {
		return ""
	}
	full, err := filepath.Abs(root)
	if err != nil {
		return root
	}
	return full
}
