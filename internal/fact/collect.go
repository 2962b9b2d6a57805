package fact

import (
	"fmt"
	"slices"
	"time"

	"fettle.dev/fettle/internal/host"
)

// Collector collects one part of the facts.
type Collector struct {
	// Name is the part's name: the JSON name of a field of Facts.
	Name    string
	collect func(*reader, *Facts)
}

// Collectors lists all collectors in the order in which they run.
var Collectors = []Collector{
	{"machine", collectMachine},               // /sys/class/dmi/id, /proc/device-tree/model
	{"kernel", collectKernel},                 // /proc/sys/kernel, /proc/version, /proc/cmdline, /proc/uptime, clocksource0, /proc/pressure, /sys/fs/selinux, /etc/selinux
	{"os", collectOS},                         // /etc/os-release, /usr/lib/os-release, /etc/hostname
	{"cpu", collectCPU},                       // /proc/cpuinfo, /sys/devices/system/cpu
	{"numa", collectNUMA},                     // /sys/devices/system/node, numa sysctls
	{"memory", collectMemory},                 // /proc/meminfo, /proc/swaps, /sys/kernel/mm, zswap
	{"virtualization", collectVirtualization}, // DMI, /proc/cpuinfo, /sys/hypervisor, /proc/xen, /run/systemd/container, /proc/1/cgroup
	{"disk", collectDisks},                    // /sys/block
	{"mount", collectMounts},                  // /proc/1/mountinfo, /proc/self/mountinfo, /proc/mounts
	{"net", collectNet},                       // /sys/class/net
	{"cgroup", collectCgroup},                 // the mount table, /sys/fs/cgroup
	{"services", collectServices},             // unit files and links below /etc/systemd and /usr/lib/systemd, /proc/*/comm, /etc/tuned
}

// Collect reads all facts, or those of the named collectors. It never fails: unreadable facts are
// unknown, and a failing collector does not stop the others.
func Collect(h *host.Host, only ...string) *Facts { return collect(h, newReader(h), only...) }

func collect(h *host.Host, r *reader, only ...string) *Facts {
	f := &Facts{Schema: Schema, Time: h.Clock.Now().UTC()}
	for _, c := range Collectors {
		if len(only) == 0 || slices.Contains(only, c.Name) {
			f.Collectors = append(f.Collectors, runCollector(c, h, r, f))
		}
	}
	return f
}

// runCollector runs a collector. A panic, caused by a bug or a malicious tree, becomes the
// run's error.
func runCollector(c Collector, h *host.Host, r *reader, f *Facts) (run Run) {
	start := time.Now()
	run = Run{Name: c.Name, Time: h.Clock.Now().UTC()}
	defer func() {
		run.DurationS = time.Since(start).Seconds()
		if p := recover(); p != nil {
			run.Error = fmt.Sprintf("collector %s failed: %v", c.Name, p)
			markUnknown(f, c.Name, run.Error)
		}
	}()
	c.collect(r, f)
	return run
}

// markUnknown marks the facts of a part that were not collected as unknown, for the reason why.
func markUnknown(f *Facts, part, why string) {
	f.visit(func(name string, l leaf) {
		n := l.leafNote()
		v, isFact := l.(valued)
		if (name == part || len(name) > len(part) && name[:len(part)+1] == part+".") &&
			n.known() && (!isFact || v.leafValue() == nil) {
			n.unknown = why
		}
	})
}
