package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

const ownRule = `- id: X01
  title: The machine has memory
  failed: not The machine has memory
  platforms: [linux]
  inputs: {ram: memory.total_bytes}
  want: '1'
  pass: ram > 0
  why: A machine without memory does not run.
  sources: [{document: "ours", section: "1"}]
  examples:
    - {name: some, given: {ram: 1}, finding: pass}
    - {name: none, given: {ram: 0}, finding: warn, want: 1}
`

// An administrator's rules are root's: a rule that another user may write could
// hide what is wrong, or name what fix writes.
func TestOwnRulesTrusted(t *testing.T) {
	if os.Geteuid() != 0 {
		testkitroot.Missing(t, "files of root's need root")
	}
	const file = audit.OwnRules + "/own.yaml"
	for _, c := range []struct {
		name   string
		change func(path func(string) string) error
		named  string // in the error; "" for none
	}{
		{"root's", func(func(string) string) error { return nil }, ""},
		{"a writable file", func(p func(string) string) error { return os.Chmod(p(file), 0o664) }, file},
		{"a file of another user", func(p func(string) string) error { return os.Chown(p(file), 65534, 0) }, file},
		{"a writable directory", func(p func(string) string) error { return os.Chmod(p(audit.OwnRules), 0o777) }, audit.OwnRules},
		{"a directory of another user above", func(p func(string) string) error { return os.Chown(p("/etc/fettle"), 65534, 0) }, "/etc/fettle"},
		{"a link to where others write", func(p func(string) string) error {
			return errors.Join(os.Mkdir(p("/tmp"), 0o755), os.Chmod(p("/tmp"), 0o777|os.ModeSticky),
				os.Rename(p(file), p("/tmp/own.yaml")), os.Symlink("/tmp/own.yaml", p(file)))
		}, "/tmp"},
		{"a writable directory without a rule", func(p func(string) string) error {
			return errors.Join(os.Remove(p(file)), os.Chmod(p(audit.OwnRules), 0o775))
		}, audit.OwnRules},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := func(name string) string { return filepath.Join(dir, name) }
			if err := errors.Join(os.MkdirAll(path(audit.OwnRules), 0o755), os.WriteFile(path(file), []byte(ownRule), 0o644), c.change(path)); err != nil {
				t.Fatal(err)
			}
			_, err := audit.AdministratorsRules(host.Mounted(dir), nil)
			if c.named == "" {
				if err != nil {
					t.Error(err)
				}
			} else if !errors.Is(err, profile.ErrUntrusted) || !strings.Contains(err.Error(), c.named+": ") {
				t.Errorf("%v, want it refused for %s", err, c.named)
			}
			// A copy has the owners of whoever copied, and nothing is written there.
			copied, err := host.Copy(dir)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := audit.AdministratorsRules(copied, nil); err != nil && !strings.Contains(c.name, "link") {
				t.Errorf("of a copy: %v", err)
			}
		})
	}
}
