package setting

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

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

// CheckRequest implements Guarded.
func (k file) CheckRequest(s Setting, _ Value, _ []string) error {
	dir := path.Dir(s.Name)
	if slices.Contains(k.real(fileDirs), dir) || isDropInDir(dir) {
		return nil
	}
	return fmt.Errorf("%s: %w: a file is named only in %s and %s/UNIT.d", s, ErrNotSettable, strings.Join(fileDirs, ", "), unitDir)
}

// CheckRequest implements Guarded.
func (k lifetimeFile) CheckRequest(s Setting, _ Value, _ []string) error {
	if slices.Contains(k.real([]string{entriesDir}), path.Dir(s.Name)) {
		return nil
	}
	return fmt.Errorf("%s: %w: a file that is read at boot is named only in %s", s, ErrNotSettable, entriesDir)
}

// CheckRequest implements Guarded.
func (k dir) CheckRequest(s Setting, _ Value, _ []string) error {
	if slices.Contains(file{k.host}.real(fileDirs), s.Name) || isDropInDir(s.Name) {
		return nil
	}
	return fmt.Errorf("%s: %w: want one of %s and %s/UNIT.d", s, ErrNotSettable, strings.Join(fileDirs, ", "), unitDir)
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
