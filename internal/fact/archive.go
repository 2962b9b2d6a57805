package fact

import (
	"path"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// Archive collects the facts of a machine, and reads everything else that the read-only verbs
// (check, diff, recommend, why) need. It returns the facts, and the redacted recording for an
// archive. It reads each path once. The functions in more read additional data through the
// recording host.
func Archive(h *host.Host, more ...func(*host.Host, *host.Recording)) (*Facts, *host.Recording) {
	rec, recording := host.Record(h)
	f := Collect(rec)
	left := maxExtraFiles
	for _, t := range archivedTrees {
		readTree(rec.Files, t.root, t.depth, t, &left)
	}
	readNetParams(rec.Net)
	for _, read := range more {
		read(rec, recording)
	}
	return f, recording
}

// maxNetDevices is the maximum number of network devices whose parameters are read.
const maxNetDevices = 256

// readNetParams reads the parameters of hardware network devices. It omits virtual devices: a
// node has hundreds of them.
func readNetParams(n host.Net) {
	links, err := n.Links()
	if err != nil {
		return
	}
	asked := 0
	for _, l := range links {
		if l.Kind != "device" || asked == maxNetDevices {
			continue
		}
		asked++
		for _, g := range host.NetGroups {
			_, _ = n.Params(l.Name, g)
		}
	}
}

// maxExtraFiles is the maximum number of files read in addition to the facts, because copied
// trees are untrusted. Further files count as unread in the archive.
const maxExtraFiles = 50_000

// maxSubdirs is the maximum number of subdirectories entered for each directory. A node with a
// thousand pods has two thousand in /proc/sys/net/ipv4.
const maxSubdirs = 512

// tree is a part of the machine that is archived in addition to the facts.
type tree struct {
	root  string
	depth int // levels of subdirectories to enter
	// names are patterns of the files whose contents are read; "" means all. Other files are
	// only listed.
	names string
}

// archivedTrees lists directories and files of settings, of configuration that changes
// settings, and of profiles.
var archivedTrees = []tree{
	{"/proc/sys/kernel", 2, ""},
	{"/proc/sys/vm", 1, ""},
	{"/proc/sys/fs", 2, ""},
	{"/proc/sys/net", 5, ""},
	{"/proc/sys/user", 1, ""},
	{"/sys/kernel/mm", 3, ""},
	{"/sys/module", 2, "parameters"},
	{"/sys/fs/cgroup", 0, ""},
	{"/etc/sysctl.conf", 0, ""}, {"/etc/sysctl.d", 1, ""}, {"/run/sysctl.d", 1, ""},
	{"/usr/local/lib/sysctl.d", 1, ""}, {"/usr/lib/sysctl.d", 1, ""}, {"/lib/sysctl.d", 1, ""},
	{"/etc/tuned", 3, ""}, {"/usr/lib/tuned", 3, ""}, {"/run/tuned", 1, ""},
	{"/etc/fettle", 3, ""},
	{"/etc/modprobe.d", 1, ""}, {"/etc/modules-load.d", 1, ""}, {"/etc/udev/rules.d", 1, ""},
	{"/etc/security/limits.conf", 0, ""}, {"/etc/security/limits.d", 1, ""},
	{"/etc/systemd/system", 2, "*.conf *.service *.slice *.mount"},
	{"/etc/systemd/system.conf", 0, ""}, {"/etc/systemd/system.conf.d", 1, ""}, {"/etc/systemd/sleep.conf", 0, ""},
	{"/etc/default/grub", 0, ""}, {"/etc/default/grub.d", 1, ""}, {"/etc/kernel/cmdline", 0, ""}, {"/boot/loader/entries", 1, ""},
	{"/boot/grub2/grubenv", 0, ""}, {"/etc/kernel/install.d", 1, ""}, {"/usr/lib/kernel/install.d", 1, "none"},
	{"/etc/fstab", 0, ""}, {"/etc/default/irqbalance", 0, ""}, {"/etc/sysconfig/irqbalance", 0, ""},
	{"/proc/interrupts", 0, ""}, {"/proc/vmstat", 0, ""}, {"/proc/diskstats", 0, ""}, {"/proc/loadavg", 0, ""},
	{"/proc/pressure", 1, ""}, {"/proc/stat", 0, ""}, {"/proc/schedstat", 0, ""}, {"/proc/net/softnet_stat", 0, ""}, {"/proc/net/dev", 0, ""},
	{"/proc/net/snmp", 0, ""}, {"/proc/net/netstat", 0, ""}, {"/proc/net/stat/nf_conntrack", 0, ""}, {"/proc/mounts", 0, ""}, {"/proc/irq", 1, "smp_affinity smp_affinity_list default_smp_affinity effective_affinity_list affinity_hint node"},
	{"/proc/modules", 0, ""}, {"/proc/version", 0, ""}, {"/proc/cgroups", 0, ""}, {"/proc/filesystems", 0, ""},
}

// readTree reads a file, or the files of a directory down to a depth. It reads links to files,
// but does not enter linked directories: sysfs has loops.
func readTree(files host.Files, p string, depth int, t tree, left *int) {
	st, err := files.Stat(p)
	if err != nil {
		return
	}
	if !st.IsDir() {
		if *left--; *left >= 0 && st.Mode().IsRegular() {
			_, _ = files.ReadFile(p)
		}
		return
	}
	list, err := files.ReadDir(p)
	if err != nil || depth < 0 {
		return
	}
	entered := 0
	for _, d := range list {
		q := path.Join(p, d.Name())
		switch {
		case d.IsDir():
			if entered++; depth > 0 && entered <= maxSubdirs {
				readTree(files, q, depth-1, t, left)
			}
		case t.wants(p, d.Name()):
			readTree(files, q, -1, t, left)
		}
	}
}

// wants reports whether the content of a file is archived.
func (t tree) wants(dir, name string) bool {
	if t.names == "" {
		return true
	}
	for pattern := range strings.FieldsSeq(t.names) {
		if ok, _ := path.Match(pattern, name); ok || path.Base(dir) == pattern {
			return true
		}
	}
	return false
}
