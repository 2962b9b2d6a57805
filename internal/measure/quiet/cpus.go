package quiet

import (
	"errors"
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// CPUs divides the online CPUs of a machine.
type CPUs struct {
	// Measured are for the measured command.
	Measured unit.CPUSet
	// Housekeeping are for everything else. Empty if no CPU is left for that.
	Housekeeping unit.CPUSet
	// Second are the second threads of cores, which are switched off.
	Second unit.CPUSet
}

const cpuDir = "/sys/devices/system/cpu"

// switchable reports whether SMT is on and can be switched off. why names the limit if SMT is on
// and must stay so.
func switchable(h *host.Host) (on bool, why string) {
	if control, _ := plugin.Attribute(h, cpuDir+"/smt/control"); control != "on" {
		return false, ""
	}
	// A CPU that goes offline leaves the cpusets of version 1 permanently (cgroup-v1/cpusets.rst).
	mounts, _ := plugin.Attribute(h, "/proc/self/mounts")
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line)
		if len(f) > 3 && f[2] == "cgroup" && strings.Contains(","+f[3]+",", ",cpuset,") && !strings.Contains(f[3], "cpuset_v2_mode") {
			return false, "SMT stays on: cpusets of control groups version 1 would lose the CPUs that are switched off, also after undo"
		}
	}
	return true, ""
}

// divide chooses the CPUs. asked is a list of the CPUs to measure on; if it is empty, they are all
// but those of the first core, or all if there is only one core. smtOff leaves out second threads.
func divide(h *host.Host, asked string, smtOff bool) (c CPUs, err error) {
	list, ok := plugin.Attribute(h, cpuDir+"/online")
	online, err := unit.ParseCPUList(list)
	if !ok || err != nil || online.IsEmpty() {
		return c, ui.Exit(ui.Failed, errors.New("the online CPUs are unknown ("+cpuDir+"/online)"))
	}
	first := unit.CPUSet{}
	for _, n := range online.Numbers() {
		threads := siblings(h, n).Intersect(online)
		if first.IsEmpty() {
			first = threads
		}
		if smtOff && threads.Numbers()[0] != n {
			c.Second = c.Second.Union(unit.CPUs(n))
		}
	}
	stays := online.Minus(c.Second)
	c.Measured = stays.Minus(first)
	if c.Measured.IsEmpty() {
		c.Measured = stays
	}
	if asked != "" {
		if c.Measured, err = unit.ParseCPUList(asked); err != nil {
			return c, ui.Exit(ui.Usage, fmt.Errorf("--cpus: %w", err))
		}
		if off := c.Measured.Minus(online); !off.IsEmpty() {
			return c, ui.Hinted(ui.Usage, fmt.Errorf("--cpus %s: CPU %s is not online", asked, off), "online are "+online.String())
		}
		if second := c.Measured.Intersect(c.Second); !second.IsEmpty() {
			return c, ui.Hinted(ui.Usage, fmt.Errorf("--cpus %s: CPU %s is the second thread of a core, which fettle quiet switches off", asked, second), "choose from "+stays.String())
		}
	}
	c.Housekeeping = stays.Minus(c.Measured)
	return c, nil
}

// siblings returns the threads of a CPU's core, with the CPU itself.
func siblings(h *host.Host, n int) unit.CPUSet {
	text, _ := plugin.Attribute(h, fmt.Sprintf("%s/cpu%d/topology/thread_siblings_list", cpuDir, n))
	threads, err := unit.ParseCPUList(text)
	if err != nil {
		threads = unit.CPUSet{}
	}
	return threads.Union(unit.CPUs(n))
}

// first returns the lowest number of a set that is not empty.
func first(s unit.CPUSet) int { return s.Numbers()[0] }
