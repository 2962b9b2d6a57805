package fact

import (
	"path"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// Mount is a mounted file system, named by its mount point. If several are mounted there, only
// the last one is visible and listed. The kernel's own file systems (proc, sysfs, cgroup, ...)
// are omitted.
type Mount struct {
	Type   Fact[string] `json:"type"`
	Source Fact[string] `json:"source"`
	// Device is the name of the block device or partition in /sys/block: sda1, dm-0.
	Device  Fact[string]   `json:"device"`
	Options Fact[[]string] `json:"options"`
}

// mountEntry is one line of a mount table.
type mountEntry struct {
	point, fsType, source string
	devNumber             string // major:minor; "" in /proc/mounts
	root                  string // mounted part of the file system; "/" for all, and in /proc/mounts
	options, superOptions []string
}

// kernelFileSystems lists the types of the kernel's own file systems, which hold no user data.
var kernelFileSystems = map[string]bool{
	"proc": true, "sysfs": true, "cgroup": true, "cgroup2": true, "devpts": true, "devtmpfs": true, "mqueue": true,
	"debugfs": true, "tracefs": true, "securityfs": true, "pstore": true, "bpf": true, "configfs": true, "fusectl": true,
	"autofs": true, "binfmt_misc": true, "efivarfs": true, "selinuxfs": true, "rpc_pipefs": true, "nsfs": true, "binder": true,
}

// mountTable returns the mount table of process 1, because this process may be in a service or
// container with another table. Only root can read the table of process 1. Other users get
// this process's table, or /proc/mounts, which has less information.
func (r *reader) mountTable() (string, note) {
	text, first := r.text("/proc/1/mountinfo")
	if first.known() {
		return text, first
	}
	for _, p := range []string{"/proc/self/mountinfo", "/proc/mounts"} {
		if text, n := r.text(p); n.known() {
			return text, n
		}
	}
	return "", first
}

func collectMounts(r *reader, f *Facts) {
	text, n := r.mountTable()
	all := parseMounts(text, n.source)
	if n.known() && len(all) == 0 {
		n.unknown = n.source + " has no mounted file system"
	}
	f.Mount.note = n
	for _, m := range all {
		if kernelFileSystems[m.fsType] {
			continue
		}
		item := f.Mount.add(m.point)
		item.Type = Known(m.fsType, n.source)
		item.Source = Known(m.source, n.source)
		item.Options = Known(append(m.options, m.superOptions...), n.source)
		item.Device = m.device(r, n.source)
	}
}

// parseMounts parses a mount table in the format of proc_pid_mountinfo(5). If source is
// another file, the format is that of fstab(5).
func parseMounts(text, source string) []mountEntry {
	var all []mountEntry
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		if !strings.HasSuffix(source, "mountinfo") {
			if len(w) >= 4 {
				all = append(all, mountEntry{point: host.UnescapeMount(w[1]), fsType: w[2], source: host.UnescapeMount(w[0]), root: "/", superOptions: strings.Split(w[3], ",")})
			}
			continue
		}
		end := 6
		for end < len(w) && w[end] != "-" {
			end++
		}
		if end+3 >= len(w) {
			continue
		}
		m := mountEntry{
			point: host.UnescapeMount(w[4]), fsType: w[end+1], source: host.UnescapeMount(w[end+2]), devNumber: w[2], root: host.UnescapeMount(w[3]),
			options: strings.Split(w[5], ","),
		}
		seen := map[string]bool{}
		for _, o := range m.options {
			seen[o] = true
		}
		for o := range strings.SplitSeq(w[end+3], ",") {
			if !seen[o] {
				m.superOptions = append(m.superOptions, o)
			}
		}
		all = append(all, m)
	}
	return all
}

// device returns the block device of a mounted file system. table is the source for the fact.
func (m mountEntry) device(r *reader, table string) Fact[string] {
	switch {
	case m.devNumber != "" && !strings.HasPrefix(m.devNumber, "0:"):
		return r.link("/sys/dev/block/" + m.devNumber)
	case strings.HasPrefix(m.source, "/dev/"):
		name := m.source
		if at, err := r.files.Resolve(m.source); err == nil {
			name = at
		}
		return Known(path.Base(name), table)
	}
	return Absent[string](table)
}
