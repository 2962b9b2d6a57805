package override

import (
	"strings"

	"fettle.dev/fettle/internal/host"
)

// unitDirs are the directories of system units, in order of precedence (systemd.unit(5)).
var unitDirs = []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}

// unitFile returns the path of a unit's file, or "" if the file does not exist or is masked.
func (r *reader) unitFile(unit string) string {
	for _, d := range unitDirs {
		p := d + "/" + unit
		if !r.exists(p) {
			continue
		}
		if to, err := r.host.Files.Readlink(p); err == nil && to == "/dev/null" {
			return ""
		}
		return p
	}
	return ""
}

// unitEnabled reports whether a target or another unit wants the unit, through a link that
// systemctl enable makes. A masked unit is not enabled. A copy may have the link without the
// unit's own file.
func (r *reader) unitEnabled(unit string) bool {
	return r.enabledBy(unit) != "" && (r.unitFile(unit) != "" || r.unitFileUnknown(unit))
}

// unitFileUnknown reports whether a unit's file is unknown, because a copy lacks the unit
// directories.
func (r *reader) unitFileUnknown(unit string) bool {
	unknown := false
	for _, d := range unitDirs {
		_, err := r.host.Files.Lstat(d + "/" + unit)
		if err == nil {
			return false // masked
		}
		unknown = unknown || host.Unknown(err)
	}
	return unknown
}

// needsUnit returns the Void or Condition of claims in a file that a unit applies. They are void
// if the unit is not enabled, and conditional if a copy does not record that.
func (r *reader) needsUnit(unit, what string) (void, condition string) {
	switch {
	case r.unitEnabled(unit):
		return "", ""
	case r.unlisted:
		r.notRecorded(unitDirs[0])
		return "", unit + " is enabled; this copy does not record whether it is"
	}
	return unit + ", which applies " + what + ", is not enabled", ""
}

// enabledBy returns the link that starts a unit at boot. The directories are listed once for
// all units.
func (r *reader) enabledBy(unit string) string {
	if r.wanted == nil {
		r.wanted = map[string]string{}
		for _, d := range []string{"/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system"} {
			r.listWanted(d)
		}
	}
	return r.wanted[unit]
}

func (r *reader) listWanted(dir string) {
	entries, err := r.host.Files.ReadDir(dir)
	if err != nil {
		// systemctl enable makes links below /etc.
		r.unlisted = r.unlisted || dir == unitDirs[0] && host.Unknown(err)
		return
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".wants") && !strings.HasSuffix(e.Name(), ".requires") {
			continue
		}
		links, err := r.host.Files.ReadDir(dir + "/" + e.Name())
		if err != nil {
			continue
		}
		for _, l := range links {
			if r.wanted[l.Name()] == "" {
				r.wanted[l.Name()] = dir + "/" + e.Name() + "/" + l.Name()
			}
		}
	}
}

// unitRunning reports whether the unit's control group contains processes.
func (r *reader) unitRunning(unit string) bool {
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"} {
		for _, slice := range []string{"system.slice", "kubelet.slice", "runtime.slice"} {
			if b, err := r.host.Files.ReadFile(root + "/" + slice + "/" + unit + "/cgroup.procs"); err == nil && strings.TrimSpace(string(b)) != "" {
				return true
			}
		}
	}
	return false
}

// both joins two conditions of a claim, either of which may be empty.
func both(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + " and " + b
}

// initLinked reports whether a machine without systemd starts an init script at boot. /etc/rc3.d
// is a link to /etc/rc.d/rc3.d on Red Hat's systems; a copy may lack it.
func (r *reader) initLinked(script string) bool {
	for _, dir := range []string{"/etc/rc[35].d", "/etc/rc.d/rc[35].d"} {
		if links, _ := host.Glob(r.host.Files, dir+"/S[0-9][0-9]"+script); len(links) > 0 {
			return true
		}
	}
	return false
}
