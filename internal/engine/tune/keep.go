package tune

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// KeepDir is the directory in which an administrator lists settings that are never written.
const KeepDir = "/etc/fettle/keep.d"

// Keep lists the settings that are never written.
type Keep []KeepEntry

// KeepEntry is one line of a file in KeepDir: a setting or pattern, an equals sign, the reason.
type KeepEntry struct {
	Pattern string `json:"pattern"` // setting, with * ? [...] within one path element
	Reason  string `json:"reason"`
	// File and Line are the entry's position. If Line is 0, the entry is not from a file, and File
	// names its origin.
	File string `json:"file"`
	Line int    `json:"line"`

	// Rule is the rule of a compliance scan that requires the setting, or "".
	Rule string `json:"rule,omitempty"`
	// Allowed are the values that may be written anyway: "0", or with a comparison ">=1". It is empty
	// if none may.
	Allowed []string `json:"allowed,omitempty"`

	id setting.Setting // resolved setting, if Pattern names a single one
}

func (k KeepEntry) String() string {
	if k.Line == 0 {
		return k.File
	}
	return fmt.Sprintf("%s:%d", k.File, k.Line)
}

// RuleEntry returns the entry for a setting that a rule requires. file is the result of the scan.
func RuleEntry(kinds setting.Kinds, s setting.Setting, rule string, allowed []string, file string) KeepEntry {
	k := KeepEntry{Pattern: s.String(), Reason: requiredBy + rule, File: file, Rule: rule, Allowed: allowed}
	if id, err := kinds.Resolve(s); err == nil {
		k.id = id
	}
	return k
}

// requiredBy begins the reason of an entry for a rule.
const requiredBy = "required by "

// Text returns the entry as a line of a file in KeepDir.
func (k KeepEntry) Text() string {
	allowed := ""
	if len(k.Allowed) > 0 {
		allowed = " [" + strings.Join(k.Allowed, " | ") + "]"
	}
	return k.Pattern + allowed + " = " + k.Reason
}

// allows reports whether a value may be written although the entry names the setting.
func (k KeepEntry) allows(want setting.Value, equal func(a, b setting.Value) bool) bool {
	return !want.Absent && !want.Unknown && slices.ContainsFunc(k.Allowed, func(a string) bool {
		for compare, holds := range map[string]func(int) bool{">=": func(c int) bool { return c >= 0 }, "<=": func(c int) bool { return c <= 0 }} {
			if least, ok := strings.CutPrefix(a, compare); ok {
				x, errX := strconv.ParseInt(strings.TrimSpace(want.Text), 10, 64)
				y, errY := strconv.ParseInt(strings.TrimSpace(least), 10, 64)
				return errX == nil && errY == nil && holds(cmp.Compare(x, y))
			}
		}
		return equal(want, setting.Text(a))
	})
}

// why returns the reason why a value is not written.
func (k KeepEntry) why() string {
	if k.Rule == "" {
		return fmt.Sprintf("%s (%s)", k.Reason, k)
	}
	must := "must stay as it is"
	if len(k.Allowed) > 0 {
		must = "must be " + strings.Join(k.Allowed, " or ")
	}
	return fmt.Sprintf("%s: %s (%s)", k.Reason, must, k)
}

// verdict returns the verdict of a value that is not written.
func (k KeepEntry) verdict() plugin.Verdict {
	if k.Rule != "" {
		return plugin.Refused
	}
	return plugin.Kept
}

// ReadKeep reads every *.conf in KeepDir, sorted by name. A line without a reason is an error. It
// returns the entries of all valid lines, and the errors of the others.
func ReadKeep(h *host.Host, kinds setting.Kinds) (Keep, error) {
	entries, err := h.Files.ReadDir(KeepDir)
	if host.NotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var keep Keep
	var errs []error
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".conf") {
			continue
		}
		file := path.Join(KeepDir, e.Name())
		text, err := h.Files.ReadFile(file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			if line = strings.TrimSpace(line); line == "" || line[0] == '#' || line[0] == ';' {
				continue
			}
			k, err := parseKeep(line, kinds)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s:%d: %w", file, n, err))
				continue
			}
			k.File, k.Line = file, n
			keep = append(keep, k)
		}
	}
	return keep, errors.Join(errs...)
}

func parseKeep(line string, kinds setting.Kinds) (KeepEntry, error) {
	name, reason, found := strings.Cut(line, "=")
	var allowed []string
	// The values in brackets may contain an equals sign. A pattern has no space before a bracket.
	if before, rest, ok := strings.Cut(line, " ["); ok && !strings.Contains(before, "=") {
		values, after, closed := strings.Cut(rest, "]")
		if name, reason, found = before, strings.TrimPrefix(strings.TrimSpace(after), "="), closed && strings.HasPrefix(strings.TrimSpace(after), "="); found {
			for v := range strings.SplitSeq(values, "|") {
				allowed = append(allowed, strings.Join(strings.Fields(v), " "))
			}
		}
	}
	name, reason = strings.TrimSpace(name), strings.TrimSpace(reason)
	if !found || name == "" || reason == "" || slices.Contains(allowed, "") {
		return KeepEntry{}, errors.New("want SETTING = REASON, such as \"vm.swappiness = set by the database team\"")
	}
	s, err := setting.Parse(name)
	if err != nil {
		return KeepEntry{}, err
	}
	if p, err := setting.SysctlPath(s.Name); s.Kind == "sysctl" && err == nil {
		s.Name = setting.SysctlName(p)
	}
	if _, err := path.Match(s.String(), ""); err != nil {
		return KeepEntry{}, fmt.Errorf("pattern %q: %w", name, err)
	}
	k := KeepEntry{Pattern: s.String(), Reason: reason, Allowed: allowed}
	if rule, ok := strings.CutPrefix(reason, requiredBy); ok {
		k.Rule = rule
	}
	if !strings.ContainsAny(s.Name, "*?[") {
		k.id, err = kinds.Resolve(s)
	}
	return k, err
}

// Match returns the entry that keeps a setting. names are its resolved identity and its names in
// the profile.
func (k Keep) Match(names ...setting.Setting) (KeepEntry, bool) {
	for _, e := range k {
		for _, n := range names {
			if ok, _ := path.Match(e.Pattern, n.String()); ok || e.id == n && n != (setting.Setting{}) {
				return e, true
			}
		}
	}
	return KeepEntry{}, false
}

// Forbids returns the entry that keeps a setting from getting a value.
func (k Keep) Forbids(want setting.Value, equal func(a, b setting.Value) bool, names ...setting.Setting) (KeepEntry, bool) {
	for _, e := range k {
		if _, ok := (Keep{e}).Match(names...); ok && !e.allows(want, equal) {
			return e, true
		}
	}
	return KeepEntry{}, false
}

// Kept returns the entry that keeps a setting from being written: it names the setting, or another
// setting that the write would change. through is the setting in the entry.
func (e *Engine) Kept(id setting.Setting, names ...setting.Setting) (k KeepEntry, through setting.Setting, ok bool) {
	if k, ok := e.Keep.Match(append(names, id)...); ok {
		return k, id, true
	}
	kind, err := e.Kinds.For(id)
	if err != nil || len(e.Keep) == 0 {
		return KeepEntry{}, setting.Setting{}, false
	}
	for _, c := range kind.Coupled(id) {
		if other, err := e.Kinds.Resolve(c); err == nil {
			if k, ok := e.Keep.Match(other, c); ok {
				return k, other, true
			}
		}
	}
	return KeepEntry{}, setting.Setting{}, false
}
