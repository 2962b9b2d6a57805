package tune

import (
	"errors"
	"fmt"
	"path"
	"strings"

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

	id setting.Setting // resolved setting, if Pattern names a single one
}

func (k KeepEntry) String() string {
	if k.Line == 0 {
		return k.File
	}
	return fmt.Sprintf("%s:%d", k.File, k.Line)
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
	name, reason = strings.TrimSpace(name), strings.TrimSpace(reason)
	if !found || name == "" || reason == "" {
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
	k := KeepEntry{Pattern: s.String(), Reason: reason}
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
