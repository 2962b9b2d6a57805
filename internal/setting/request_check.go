package setting

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// fileDirs are the configuration directories in which plug-ins write files, in addition to the
// drop-in directories of systemd units.
var fileDirs = []string{"/etc/default/grub.d", "/etc/modprobe.d", "/etc/systemd/system.conf.d"}

const unitDir = "/etc/systemd/system"

// isDropInDir reports whether dir is /etc/systemd/system/UNIT.d.
func isDropInDir(dir string) bool { return path.Dir(dir) == unitDir && strings.HasSuffix(dir, ".d") }

// CheckRequest implements RequestChecker.
func (k file) CheckRequest(s Setting, _ Value, _ []string) error {
	dir := path.Dir(s.Name)
	if slices.Contains(k.real(fileDirs), dir) || isDropInDir(dir) {
		return nil
	}
	return fmt.Errorf("%s: %w: use a file in %s or %s/UNIT.d", s, ErrNotSettable, strings.Join(fileDirs, ", "), unitDir)
}

// CheckRequest implements RequestChecker.
func (k dir) CheckRequest(s Setting, _ Value, _ []string) error {
	if slices.Contains(file{k.host}.real(fileDirs), s.Name) || isDropInDir(s.Name) {
		return nil
	}
	return fmt.Errorf("%s: %w: use %s or %s/UNIT.d", s, ErrNotSettable, strings.Join(fileDirs, ", "), unitDir)
}

// real returns dirs with symbolic links resolved, because the names of settings are resolved.
func (k file) real(dirs []string) []string {
	out := slices.Clone(dirs)
	for i, d := range dirs {
		if r, err := k.host.Files.Resolve(d); err == nil {
			out[i] = r
		}
	}
	return out
}
