package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/packaging"
)

// unitDirs are the directories of systemd's units, the administrator's first.
var unitDirs = []string{"/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}

func unitInstalled(h *host.Host, name string) bool {
	for _, dir := range unitDirs {
		if st, err := h.Files.Stat(dir + "/" + name); err == nil && st.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// Persisted reports whether fettle's unit is started at boot.
func Persisted(h *host.Host) bool { return startsAtBoot(h, "fettle.service") }

// TrialUnguarded returns a warning with its remedy if no boot would undo a trial whose watchdog
// was killed. It returns "" if a boot would, or if the machine has no systemd.
func TrialUnguarded(h *host.Host) string {
	const unit = "fettle-recover.service"
	if !host.HasSystemd(h) || startsAtBoot(h, unit) {
		return ""
	}
	helps := "to install and enable it, run: fettle tune PROFILE --persist"
	if unitInstalled(h, unit) {
		helps = "to enable it, run: systemctl enable " + unit
	}
	return "if the trial's watchdog is killed, a reboot does not end the trial, because " + unit + " is not enabled; " + helps
}

// startsAtBoot reports whether systemd starts a unit at boot.
func startsAtBoot(h *host.Host, unit string) bool {
	for _, dir := range []string{"/etc/systemd/system", "/usr/lib/systemd/system"} {
		if links, err := host.Glob(h.Files, dir+"/*.wants/"+unit); err == nil && len(links) > 0 {
			return true
		}
	}
	return false
}

// Persist enables and starts fettle's unit, in a transaction of its own.
func Persist(ctx context.Context, e *tune.Engine, changes []setting.Change) (*tune.Applied, error) {
	return e.Apply(ctx, func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
		return e.PlanChanges(ctx, changes, s)
	}, tune.ApplyOptions{Kind: journal.Apply, Atomic: true})
}

// PersistChanges returns the changes of Persist: units and policies that no package has installed.
func PersistChanges(h *host.Host) ([]setting.Change, error) {
	if !host.HasSystemd(h) {
		return nil, ui.Hinted(ui.Failed, errors.New("--persist enables a systemd unit, but systemd does not run on this machine"), "start \"fettle daemon\" from the init system of this machine")
	}
	var changes []setting.Change
	add := func(kind, name, want string) {
		changes = append(changes, setting.Change{
			Setting: setting.Setting{Kind: kind, Name: name}, Want: setting.Text(want), Reason: setting.Reason{Text: "--persist"},
		})
	}
	for _, name := range packaging.Units {
		if unitInstalled(h, name) {
			continue
		}
		program, err := trustedProgram()
		if err != nil {
			return nil, err
		}
		alias := ""
		if name == "fettle.service" && !unitInstalled(h, "tuned.service") {
			alias = "tuned.service"
		}
		text, err := packaging.Unit(name, program, alias)
		if err != nil {
			return nil, err
		}
		add("file", unitDirs[0]+"/"+name, text)
	}
	for _, p := range policies {
		name := p.missing(h)
		if name == "" {
			continue
		}
		text, err := packaging.FS.ReadFile(p.embedded)
		if err != nil {
			return nil, err
		}
		add("file", name, string(text))
	}
	for _, name := range packaging.Units {
		add("unit", name+"/enabled", "enabled")
	}
	add("unit", "fettle.service/active", "active")
	return changes, nil
}

// policies are the files that define who may call the daemon's methods on the bus.
var policies = []policy{
	{"dbus/com.redhat.tuned.conf", []string{"/etc/dbus-1/system.d", "/usr/share/dbus-1/system.d"}},
	// polkit reads /etc/polkit-1/actions since version 124.
	{"polkit/com.redhat.tuned.policy", []string{"/etc/polkit-1/actions", "/usr/share/polkit-1/actions", "/usr/local/share/polkit-1/actions"}},
}

// policy is a file that must exist in one of several directories.
type policy struct {
	embedded string
	dirs     []string // the file is written to the first one that exists
}

// missing returns the path to write the file to. It returns "" if the file exists, or if no
// program on the machine would read it.
func (p policy) missing(h *host.Host) string {
	where := ""
	for _, dir := range p.dirs {
		name := dir + "/" + path.Base(p.embedded)
		for _, installed := range []string{name, dir + "/" + packaging.PolicyName + path.Ext(name)} {
			if _, err := h.Files.Stat(installed); err == nil {
				return ""
			}
		}
		if st, err := h.Files.Stat(dir); err == nil && st.IsDir() && where == "" {
			where = name
		}
	}
	return where
}

// trustedProgram returns the path of this program, which the unit runs as root at each boot. It
// returns an error if a user other than root can change that file.
func trustedProgram() (string, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return "", err
	}
	for p := self; ; p = filepath.Dir(p) {
		st, err := os.Lstat(p)
		if err != nil {
			return "", err
		}
		sys, ok := st.Sys().(*syscall.Stat_t)
		sticky := st.IsDir() && st.Mode()&os.ModeSticky != 0
		if !ok || sys.Uid != 0 || st.Mode().Perm()&0o022 != 0 && !sticky {
			return "", ui.Hinted(ui.Refused, fmt.Errorf("users other than root can change %s, and the unit would run %s as root at each boot", p, self), "sudo install -o root -m 0755 "+internaltext.Quote(self)+" "+packaging.Program+" puts it where only root may change it; then: sudo "+packaging.Program+" tune --persist")
		}
		if p == "/" {
			return self, nil
		}
	}
}
