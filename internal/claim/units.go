package claim

import "strings"

// unitDirs are the directories of system units, the first going before the
// others (systemd.unit(5)).
var unitDirs = []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}

// unitFile finds a unit's file; empty if there is none or it is masked.
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

// unitEnabled: a target or another unit wants it, by a link that systemctl
// enable makes. A masked unit is not enabled.
func (r *reader) unitEnabled(unit string) bool {
	return r.enabledBy(unit) != "" && r.unitFile(unit) != ""
}

// enabledBy is the link that starts a unit at boot. The directories are listed
// once for all units.
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
		return // not there, or its units are unknown: nothing is enabled from it
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

// unitRunning: the unit's control group holds processes.
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
