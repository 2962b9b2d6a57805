// Package override finds every source that sets a setting: sysctl.d, the kernel command line,
// modprobe.d, udev rules, tmpfiles.d, sysfsutils, cpupower, the kubelet, and the files of other
// tuners (ktune, saptune, TLP). It returns their claims in the order in which the machine applies
// them, with the claim that wins. It only reads files and runs no programs.
package override

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// Source is the mechanism that applies a claim to the kernel.
type Source string

// The sources, in the order of their effect during boot.
const (
	CommandLine Source = "kernel command line"
	Modprobe    Source = "modprobe.d"
	Sysctl      Source = "sysctl.d" // including sysctl.conf
	Udev        Source = "udev rule"
	Tmpfiles    Source = "tmpfiles.d"
	Sysfsutils  Source = "sysfsutils"
	Cpupower    Source = "cpupower"
	Ktune       Source = "ktune"
	TuneD       Source = "TuneD" // added by Claims.Add, because it needs profiles
	Saptune     Source = "saptune"
	TLP         Source = "TLP"
	Kubelet     Source = "kubelet"
)

// Claim is a value that a file or program sets.
type Claim struct {
	Setting setting.Setting `json:"setting"` // resolved identity
	Value   setting.Value   `json:"value"`   // as written; Absent for a line that only reverts others
	Source  Source          `json:"source"`
	File    string          `json:"file"`           // the file to edit
	Via     string          `json:"via,omitempty"`  // the link that led to File, if any
	Line    int             `json:"line,omitempty"` // from 1; 0 for a value built into a program (the kubelet)
	Text    string          `json:"text,omitempty"` // as written
	// Administrator marks a file in /etc, /run or /usr/local and for the kernel command
	// line. It is false for a package's file.
	Administrator bool `json:"administrator"`
	// When describes when the value is written.
	When string `json:"when"`
	// Void is the reason why the claim never has an effect: its file is shadowed, an explicit line
	// overrides its pattern, or the kernel ignores it.
	Void string `json:"void,omitempty"`
	// Shadowed is the file with the same name that hides this claim's file.
	Shadowed string `json:"shadowed,omitempty"`
	// Condition is a condition of the claim that cannot be decided from files (conditions of a
	// udev rule, as written). The claim takes effect only if it is met.
	Condition string `json:"condition,omitempty"`

	order order
}

// Place returns FILE:LINE, which names the claim in messages.
func (c Claim) Place() string {
	if c.Line > 0 {
		return fmt.Sprintf("%s:%d", c.File, c.Line)
	}
	return c.File
}

// Before reports whether the claim acts before claim d.
func (c Claim) Before(d Claim) bool { return c.order.compare(d.order) < 0 }

// Add adds a claim from a source that Read does not read. The setting must be resolved. Among
// claims of one source the last one added acts last.
func (c *Claims) Add(d Claim) {
	c.added++
	d.order = order{stages[d.Source], 0, c.added}
	c.direct[d.Setting] = append(c.direct[d.Setting], d)
}

// Settings lists, sorted, the settings that sources claim by name rather than with a pattern.
func (c *Claims) Settings() []setting.Setting {
	return slices.SortedFunc(maps.Keys(c.direct), func(a, b setting.Setting) int { return cmp.Compare(a.String(), b.String()) })
}

// Certain reports whether a claim takes effect unconditionally.
func (c Claim) Certain() bool { return c.Void == "" && c.Condition == "" }

// order is a claim's time of effect: the mechanism, the rank within the mechanism, the order of
// reading.
type order struct{ stage, rank, seq int }

func (a order) compare(b order) int {
	return cmp.Or(cmp.Compare(a.stage, b.stage), cmp.Compare(a.rank, b.rank), cmp.Compare(a.seq, b.seq))
}

// Problem is a file or line that could not be read or parsed. The machine's own tools skip such a
// line too, so the other claims still apply.
type Problem struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"` // 0: the file as a whole
	What string `json:"what"`
}

func (p Problem) String() string {
	if p.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.What)
	}
	return p.File + ": " + p.What
}

// Claims holds all claims of one machine.
type Claims struct {
	kinds  setting.Kinds
	direct map[setting.Setting][]Claim
	sysctl sysctlOptions
	added  int // number of claims added by Add
	// unknown lists the files and directories missing from a copied machine; unread lists existing
	// ones that were not read. Both are by source.
	unknown map[Source][]string
	unread  map[Source][]Problem
}

// Unread lists the files and directories that exist but could not be read or are too large. Their
// claims are unknown. It covers all sources or only the given ones.
func (c *Claims) Unread(only ...Source) []Problem {
	var out []Problem
	for _, s := range sources {
		if len(only) == 0 || slices.Contains(only, s.source) {
			out = append(out, c.unread[s.source]...)
		}
	}
	return out
}

// Unknown lists the files and directories that a copied machine lacks: their claims are unknown.
// It is empty for a live machine.
func (c *Claims) Unknown() []string { return c.UnknownFor("") }

// UnknownFor is Unknown, except that it omits files that cannot claim a setting of the kind.
func (c *Claims) UnknownFor(kind string) []string {
	var out []string
	for _, s := range sources {
		if kind == "" || s.reaches == "" || s.reaches == kind {
			out = append(out, c.unknown[s.source]...)
		}
	}
	return out
}

// sources lists the sources in the order in which a booting machine applies them. modprobe's
// options come before the command line's: modprobe appends those of /proc/cmdline, and the kernel
// uses a module parameter's last value. systemd-sysctl, udev and systemd-tmpfiles-setup are
// ordered only by their usual time; they share hardly any settings. saptune's unit is ordered
// after TuneD's (saptune.service, After=).
var sources = []struct {
	source  Source
	read    func(*reader)
	reaches string // the setting kind, if the source sets only one
}{
	{Modprobe, readModprobe, "sysfs"},
	{CommandLine, readCommandLine, ""},
	{Sysctl, readSysctl, "sysctl"},
	{Udev, readUdev, ""},
	{Tmpfiles, readTmpfiles, ""},
	{Sysfsutils, readSysfsutils, "sysfs"},
	{Cpupower, readCpupower, "sysfs"},
	{Ktune, readKtune, ""},
	{Saptune, readSaptune, ""},
	{TLP, readTLP, ""},
	{Kubelet, readKubelet, "sysctl"},
}

// stages maps each source to its position in that order.
var stages = map[Source]int{
	Modprobe: 1, CommandLine: 2, Sysctl: 3, Udev: 4, Tmpfiles: 5, Sysfsutils: 6, Cpupower: 7, Ktune: 8, TuneD: 9, Saptune: 10, TLP: 11, Kubelet: 12,
}

// Read reads every source once, or only the given ones. The result contains the claims, and the
// files and lines that cannot be read or parsed.
func Read(ctx context.Context, h *host.Host, kinds setting.Kinds, only ...Source) (*Claims, []Problem) {
	r := &reader{host: h, claims: &Claims{kinds: kinds, direct: map[setting.Setting][]Claim{}, unknown: map[Source][]string{}, unread: map[Source][]Problem{}}}
	for _, s := range sources {
		if len(only) > 0 && !slices.Contains(only, s.source) {
			continue
		}
		r.source, r.patterns = s.source, 0
		if err := ctx.Err(); err != nil {
			r.problem(string(s.source), 0, "not read: "+err.Error())
			continue
		}
		s.read(r)
	}
	return r.claims, fewer(r.problems)
}

// For returns every claim on a setting in the order of effect. Claims without effect come first,
// so the last claim wins if it has no condition. A claim is without effect if a later one on the
// counterpart undoes it (vm.dirty_bytes after vm.dirty_ratio).
func (c *Claims) For(s setting.Setting) []Claim {
	s = c.resolve(s)
	found := c.on(s)
	if rival, ok := last(c.twin(s), Claim.Certain); ok {
		for i := range found {
			switch {
			case found[i].Void != "":
			case setting.Zero(found[i].Value):
				found[i].Void = "0 means that " + rival.Setting.Name + " is the limit (" + rival.Place() + ")"
			case found[i].order.compare(rival.order) < 0:
				found[i].Void = "overridden by " + rival.Place() + ", which sets " + rival.Setting.Name
			}
		}
	}
	if rival, brings, ok := c.deciding(s, Claim.Certain); ok {
		for i := range found {
			if found[i].Void == "" && !c.kinds.Equal(s, found[i].Value, brings.Value) && (brings.Stays || found[i].order.compare(rival.order) < 0) {
				found[i].Void = "overridden by " + rival.Place() + ", which sets " + rival.Setting.Name
			}
		}
	}
	sortByEffect(found)
	return found
}

func (c *Claims) resolve(s setting.Setting) setting.Setting {
	if id, err := c.kinds.Resolve(s); err == nil {
		return id
	}
	return s
}

// on returns the claims on the setting itself, sorted.
func (c *Claims) on(s setting.Setting) []Claim {
	found := slices.Clone(c.direct[s])
	if s.Kind == "sysctl" {
		found = append(found, c.sysctl.patternsFor(s)...)
	}
	sortByEffect(found)
	return found
}

// twin returns the claims on the counterpart of a limit (vm.dirty_bytes for vm.dirty_ratio). It
// omits zeros, which set nothing.
func (c *Claims) twin(s setting.Setting) []Claim {
	other, ok := c.kinds.Counterpart(s)
	if !ok {
		return nil
	}
	return slices.DeleteFunc(c.on(other), func(c Claim) bool { return setting.Zero(c.Value) })
}

// deciding returns the last claim on another setting that determines the value of s: a second name
// of the variable, or a switch above it.
func (c *Claims) deciding(s setting.Setting, ok func(Claim) bool) (rival Claim, brings setting.Decided, found bool) {
	for _, d := range c.kinds.DecidedBy(s) {
		claim, any := last(c.on(d), ok)
		if !any || found && claim.order.compare(rival.order) < 0 {
			continue
		}
		for _, decided := range c.kinds.Decides(d, claim.Value, func(setting.Setting) setting.Value { return setting.Unknown }) {
			if decided.Setting == s {
				rival, brings, found = claim, decided, true
			}
		}
	}
	return rival, brings, found
}

func sortByEffect(claims []Claim) {
	slices.SortStableFunc(claims, func(a, b Claim) int {
		if (a.Void != "") != (b.Void != "") {
			if a.Void != "" {
				return -1
			}
			return 1
		}
		return a.order.compare(b.order)
	})
}

// Winner returns the claim that decides the value after a boot: the last one that takes effect
// unconditionally. A later claim with a Condition may still change the value.
func (c *Claims) Winner(s setting.Setting) (Claim, bool) { return Winner(c.For(s)) }

// Winner returns the winning claim in a list from For.
func Winner(claims []Claim) (Claim, bool) { return last(claims, Claim.Certain) }

// Administrator returns the winning line among the administrator's in sysctl.d and sysctl.conf
// (/etc, /run, /usr/local). It overrides a profile, as with TuneD's reapply_sysctl. TuneD applies
// /run/sysctl.d, /etc/sysctl.d and /etc/sysctl.conf in turn; fettle uses systemd-sysctl's order. A
// vendor's later line does not count, since the profile is written after it.
//
// The administrator may instead set the counterpart (vm.dirty_bytes for vm.dirty_ratio), a second
// name of the variable, or a switch above it. The claim then has that Setting, and writing s would
// undo it. Administrator needs only the source Sysctl.
func (c *Claims) Administrator(s setting.Setting) (Claim, bool) {
	theirs := func(c Claim) bool { return c.Certain() && c.Administrator && c.Source == Sysctl }
	s = c.resolve(s)
	own, ok := last(c.on(s), theirs)
	if ok && setting.Zero(own.Value) && c.kinds.RefusesZero(s) {
		ok = false // the kernel rejects the value, so the line sets nothing
	}
	if rival, found := last(c.twin(s), theirs); found && (!ok || setting.Zero(own.Value) || own.order.compare(rival.order) < 0) {
		return rival, true
	}
	if rival, brings, found := c.deciding(s, theirs); found && (!ok || brings.Stays || own.order.compare(rival.order) < 0) {
		return rival, true
	}
	return own, ok
}

func last(claims []Claim, ok func(Claim) bool) (Claim, bool) {
	for _, c := range slices.Backward(claims) {
		if ok(c) {
			return c, true
		}
	}
	return Claim{}, false
}
