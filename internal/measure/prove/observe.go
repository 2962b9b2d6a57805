package prove

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact/activity"
	"fettle.dev/fettle/internal/host"
)

// Machine records the counters of a machine during samples.
type Machine struct {
	Host  *host.Host
	Perf  *host.Perf // may be nil
	begun Values
}

// Begin reads the counters.
func (m *Machine) Begin() (err error) {
	m.begun, err = m.counters()
	return err
}

func (m *Machine) counters() (Values, error) {
	v := Counters(m.Host)
	if m.Perf == nil {
		return v, nil
	}
	counted, err := m.Perf.Read()
	for name, n := range counted {
		v["perf."+name] = n
	}
	return v, err
}

// End returns the growth of each counter since Begin.
func (m *Machine) End() (Values, error) {
	now, err := m.counters()
	moved := Values{}
	for name, v := range now {
		if before, had := m.begun[name]; had {
			moved[name] = v - before
		}
	}
	return moved, err
}

// events are the counters of /proc/vmstat that are relevant to tuning.
var events = map[string]bool{
	"pgpgin": true, "pgpgout": true, "pswpin": true, "pswpout": true, "pgfault": true, "pgmajfault": true,
	"pgscan_kswapd": true, "pgscan_direct": true, "pgsteal_kswapd": true, "pgsteal_direct": true, "allocstall_normal": true,
	"thp_fault_alloc": true, "thp_fault_fallback": true, "thp_collapse_alloc": true, "thp_split_page": true,
	"compact_stall": true, "compact_success": true, "numa_hint_faults": true, "numa_hint_faults_local": true, "numa_pages_migrated": true,
	"nr_dirtied": true, "nr_written": true, "workingset_refault_file": true, "workingset_refault_anon": true, "oom_kill": true,
}

// Counters returns the available kernel counters since boot: pressure and disks
// (Documentation/accounting/psi.rst, Documentation/admin-guide/iostats.rst), /proc/vmstat,
// /proc/stat, and /proc/schedstat (Documentation/scheduler/sched-stats.rst).
func Counters(h *host.Host) Values {
	v := Values{}
	lines := func(path string, use func(f []string)) {
		text, err := h.Files.ReadFile(path)
		if err != nil {
			return
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 1 {
				use(f)
			}
		}
	}
	number := func(text string, scale float64) float64 {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0
		}
		return n * scale
	}
	for _, what := range []string{"cpu", "memory", "io"} {
		waits, _ := activity.ParsePressure(h.File("/proc/pressure/" + what).Text)
		for kind, p := range waits {
			v["pressure."+what+"."+kind+"_s"] = p.TotalS
		}
	}
	counted, _ := activity.ParseKeyed(h.File("/proc/vmstat").Text)
	for name, n := range counted {
		if events[name] {
			v["vmstat."+name] = n
		}
	}
	lines("/proc/stat", func(f []string) {
		switch f[0] {
		case "cpu":
			// user nice system idle iowait irq softirq steal, in USER_HZ (always 100 on the
			// supported machines).
			for i, name := range []string{"user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"} {
				if i+1 < len(f) {
					v["cpu."+name+"_s"] = number(f[i+1], 0.01)
				}
			}
		case "ctxt":
			v["context_switches"] = number(f[1], 1)
		case "processes":
			v["forks"] = number(f[1], 1)
		}
	})
	lines("/proc/schedstat", func(f []string) {
		if strings.HasPrefix(f[0], "cpu") && len(f) > 8 {
			v["schedstat.run_s"] += number(f[7], 1e-9)
			v["schedstat.wait_s"] += number(f[8], 1e-9)
		}
	})
	lines("/proc/diskstats", func(f []string) {
		if len(f) < 14 || strings.HasPrefix(f[2], "loop") || strings.HasPrefix(f[2], "ram") || strings.HasPrefix(f[2], "dm-") {
			return
		}
		if _, err := h.Files.Lstat("/sys/block/" + f[2]); err != nil {
			return // a partition, included in its disk
		}
		disk := "disk." + f[2] + "."
		v[disk+"reads"], v[disk+"read_bytes"], v[disk+"read_s"] = number(f[3], 1), number(f[5], 512), number(f[6], 1e-3)
		v[disk+"writes"], v[disk+"write_bytes"], v[disk+"write_s"] = number(f[7], 1), number(f[9], 512), number(f[10], 1e-3)
		v[disk+"busy_s"] = number(f[12], 1e-3)
	})
	return v
}

// Limits of a machine that is fit for measurements. Steal is as in the method's reference; runs of
// a second tolerate the others.
const (
	mostSteal    = 0.05 // share of the time of all CPUs
	mostPressure = 0.20 // share of the time in which some task waits
)

// Unfit returns the reasons why the machine is unfit for measurements, from its counters over a
// time without the work. It returns nil if the machine is fit.
func Unfit(h *host.Host, begun, ended Values, tookS float64) []string {
	var why []string
	all := 0.0
	for name, v := range ended {
		if strings.HasPrefix(name, "cpu.") {
			all += v - begun[name]
		}
	}
	if steal := ended["cpu.steal_s"] - begun["cpu.steal_s"]; all > 0 && steal > mostSteal*all {
		why = append(why, fmt.Sprintf("the hypervisor takes %s of the CPU time (steal)", percent(steal/all)))
	}
	for _, what := range []string{"cpu", "memory", "io"} {
		name := "pressure." + what + ".some_s"
		// The kernel adds up its figures a little later than they arise.
		if share := min(1, (ended[name]-begun[name])/tookS); share > mostPressure {
			why = append(why, fmt.Sprintf("a task waits for %[2]s %[1]s of the time", percent(share), strings.Replace(what, "cpu", "a CPU", 1)))
		}
	}
	if swap := ended["vmstat.pswpin"] + ended["vmstat.pswpout"] - begun["vmstat.pswpin"] - begun["vmstat.pswpout"]; swap > 0 {
		why = append(why, fmt.Sprintf("the machine swaps (%.0f pages)", swap))
	}
	batteries, _ := host.Glob(h.Files, "/sys/class/power_supply/BAT*/status")
	if slices.ContainsFunc(batteries, func(file string) bool { return strings.TrimSpace(h.File(file).Text) == "Discharging" }) {
		why = append(why, "the machine runs on battery") // of two batteries, one is used at a time
	}
	return why
}
