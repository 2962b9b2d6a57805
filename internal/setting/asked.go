package setting

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// ErrNoPlace says that a place is none that may be asked for by its name.
var ErrNoPlace = errors.New("not a place that fettle sets")

// Guarded is a kind that could reach more of a machine than its plug-in does.
// MayAsk says whether a person, or a plan that somebody else may have written,
// may ask for a value of a resolved setting by its name; the error wraps
// ErrNoPlace and says what is allowed. profileDirs are the directories that
// profiles are read from. Undo and recovery do not ask: what is in the journal
// was written by fettle.
type Guarded interface {
	MayAsk(s Setting, want Value, profileDirs []string) error
}

// MayAsk says whether a value may be asked for by the setting's name.
func (k Kinds) MayAsk(s Setting, want Value, profileDirs []string) error {
	if g, ok := k[s.Kind].(Guarded); ok {
		return g.MayAsk(s, want, profileDirs)
	}
	return nil
}

// fileDirs are the directories for configuration that plug-ins put files into,
// beside the drop-ins of systemd's units.
var fileDirs = []string{"/etc/default/grub.d", "/etc/modprobe.d", "/etc/systemd/system.conf.d"}

const (
	unitDir = "/etc/systemd/system"
	// entriesDir has the boot loader entries (Boot Loader Specification).
	entriesDir = "/boot/loader/entries"
)

// isDropInDir is true for /etc/systemd/system/UNIT.d.
func isDropInDir(dir string) bool { return path.Dir(dir) == unitDir && strings.HasSuffix(dir, ".d") }

// MayAsk implements Guarded.
func (k file) MayAsk(s Setting, _ Value, _ []string) error {
	dir := path.Dir(s.Name)
	if slices.Contains(k.real(fileDirs), dir) || isDropInDir(dir) {
		return nil
	}
	return fmt.Errorf("%s: %w: a file is named only in %s and %s/UNIT.d", s, ErrNoPlace, strings.Join(fileDirs, ", "), unitDir)
}

// MayAsk implements Guarded.
func (k lastingFile) MayAsk(s Setting, _ Value, _ []string) error {
	if slices.Contains(k.real([]string{entriesDir}), path.Dir(s.Name)) {
		return nil
	}
	return fmt.Errorf("%s: %w: a file that is read at boot is named only in %s", s, ErrNoPlace, entriesDir)
}

// MayAsk implements Guarded.
func (k dir) MayAsk(s Setting, _ Value, _ []string) error {
	if slices.Contains(file{k.host}.real(fileDirs), s.Name) || isDropInDir(s.Name) {
		return nil
	}
	return fmt.Errorf("%s: %w: want one of %s and %s/UNIT.d", s, ErrNoPlace, strings.Join(fileDirs, ", "), unitDir)
}

// real resolves the links of directories, as settings have them.
func (k file) real(dirs []string) []string {
	out := slices.Clone(dirs)
	for i, d := range dirs {
		if r, err := k.host.Files.Resolve(d); err == nil {
			out[i] = r
		}
	}
	return out
}
