package fact

import (
	"path"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// Archive collects the facts of a machine and reads what the other reading
// verbs (check, diff, recommend, why) ask for, and returns the facts and the
// recording, redacted, from which an archive is written. Each path is read
// once. What else the archive is to hold, the callers read through the host that
// records.
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

// maxNetDevices bounds the network devices whose parameters are asked for.
const maxNetDevices = 256

// readNetParams asks for the parameters of the network devices that have hardware
// behind them; of the others a node has hundreds.
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

// maxExtraFiles bounds the files that are read beyond the facts: a copied tree is
// hostile input. What is beyond is in the archive as unread.
const maxExtraFiles = 50_000

// maxSubdirs bounds the directories that are entered below one: a node with a
// thousand pods has two of each in /proc/sys/net/ipv4.
const maxSubdirs = 512

// tree is a part of the machine that an archive holds beyond the facts.
type tree struct {
	root  string
	depth int // directories below root that are followed
	// names are patterns of the files that are read, all if empty; the others
	// are listed without their content.
	names string
}

// archivedTrees is those parts: where settings are, where others claim them, and where
// profiles are kept.
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
	{"/etc/fstab", 0, ""}, {"/etc/default/irqbalance", 0, ""}, {"/etc/sysconfig/irqbalance", 0, ""},
	{"/proc/interrupts", 0, ""}, {"/proc/vmstat", 0, ""}, {"/proc/diskstats", 0, ""}, {"/proc/loadavg", 0, ""},
	{"/proc/pressure", 1, ""}, {"/proc/mounts", 0, ""}, {"/proc/irq", 1, "smp_affinity smp_affinity_list default_smp_affinity"},
	{"/proc/modules", 0, ""}, {"/proc/version", 0, ""}, {"/proc/cgroups", 0, ""}, {"/proc/filesystems", 0, ""},
}

// readTree reads a file, or a directory's files down to a depth. Links are noted
// and read, directories behind links are not entered: sysfs is full of loops.
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
