package power

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/fact/activity"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/unit"
)

const cpuDir = "/sys/devices/system/cpu/"

// topology is the place of an online CPU. pkg and core are -1 if unknown.
type topology struct{ cpu, pkg, core int }

// readTopology returns the online CPUs.
func readTopology(h *host.Host) (out []topology) {
	online, err := unit.ParseCPUList(strings.TrimSpace(h.File(cpuDir + "online").Text))
	if err != nil {
		return nil
	}
	id := func(p string) int {
		n, err := strconv.Atoi(strings.TrimSpace(h.File(p).Text))
		if err != nil {
			return -1
		}
		return n
	}
	for _, cpu := range online.Numbers() {
		dir := cpuDir + "cpu" + strconv.Itoa(cpu) + "/topology/"
		out = append(out, topology{cpu, id(dir + "physical_package_id"), id(dir + "core_id")})
	}
	return out
}

func packagesOf(cpus []topology) (out []int) {
	for _, t := range cpus {
		if t.pkg >= 0 {
			out = append(out, t.pkg)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// reading holds the counters of a machine at one time.
type reading struct {
	at       time.Time
	cpus     map[int]*counters
	celsius  map[int]float64 // of a package; -1: of an unknown one
	joules   []float64       // of Energy.zones
	hardware []float64       // of hardware.counters
	why      map[quantity]string
}

// counters are those of a CPU. Unknown ones are missing.
type counters struct {
	values map[quantity]float64
	totalS float64            // time in all states of /proc/stat
	idleUS map[string]float64 // requested time by idle state
	// packageThrottles is package_throttle_count, which all CPUs of a package share.
	packageThrottles float64
}

func (r *reading) cpu(n int) *counters {
	if r.cpus[n] == nil {
		r.cpus[n] = &counters{values: map[quantity]float64{}}
	}
	return r.cpus[n]
}

// read reads all counters.
func (m *Monitor) read() *reading {
	h := m.host
	r := &reading{cpus: map[int]*counters{}, why: map[quantity]string{}}
	r.joules, _ = m.energy.poll()
	r.at, r.hardware = h.Clock.Now(), m.hardware.read()
	r.readTimes(h.File("/proc/stat"), m.cpus)
	r.readEvents(h.File("/proc/interrupts"), interrupts, map[string]quantity{"LOC": timers, "RES": reschedules})
	r.readEvents(h.File("/proc/softirqs"), softirqs, nil)
	r.readFrequencies(h, m.cpus)
	for _, t := range m.cpus {
		dir := cpuDir + "cpu" + strconv.Itoa(t.cpu) + "/"
		r.readIdle(h, r.cpu(t.cpu), dir+"cpuidle/")
		r.readThrottles(h, r.cpu(t.cpu), dir+"thermal_throttle/")
	}
	r.readTemperatures(h, m.cpus)
	return r
}

// without returns why a file has no value: absent if the file does not exist, otherwise the error.
func without(f host.File, absent string) string {
	switch {
	case f.Unknown != "":
		return f.Unknown
	case !f.Exists:
		return absent
	}
	return f.Path + " is not in the format that the kernel writes"
}

// number reads a file with a number. why is the reason if it has none.
func number(h *host.Host, path, absent string) (v float64, why string) {
	f := h.File(path)
	v, err := strconv.ParseFloat(strings.TrimSpace(f.Text), 64)
	if err != nil {
		return 0, without(f, absent)
	}
	return v, ""
}

func (r *reading) readTimes(stat host.File, cpus []topology) {
	times, err := activity.ParseCPUTimes(stat.Text)
	if err != nil {
		r.why[busy] = without(stat, "no /proc/stat")
		r.why[steal] = r.why[busy]
	}
	for _, t := range cpus {
		if v, ok := times["cpu"+strconv.Itoa(t.cpu)]; ok {
			c := r.cpu(t.cpu)
			c.values[busy], c.values[steal], c.totalS = v.BusyS, v.StealS, v.TotalS()
		}
	}
}

// readEvents reads /proc/interrupts or /proc/softirqs. Lines named in own are also counted alone.
func (r *reading) readEvents(f host.File, all quantity, own map[string]quantity) {
	cpus, lines, err := activity.ParseInterrupts(f.Text)
	if err != nil {
		r.why[all] = without(f, "no "+f.Path)
	}
	for name, q := range own {
		r.why[q] = r.why[all]
		if err == nil && !slices.ContainsFunc(lines, func(l activity.Interrupt) bool { return l.Name == name }) {
			r.why[q] = "no line " + name + " in " + f.Path
		}
	}
	for i, cpu := range cpus {
		c := r.cpu(cpu)
		for _, l := range lines {
			c.values[all] += l.Counts[i]
			if q, ok := own[l.Name]; ok {
				c.values[q] = l.Counts[i]
			}
		}
	}
}

// readIdle reads the idle states of a CPU (Documentation/admin-guide/pm/cpuidle.rst).
func (r *reading) readIdle(h *host.Host, c *counters, dir string) {
	for i := 0; ; i++ {
		state := dir + "state" + strconv.Itoa(i) + "/"
		name := h.File(state + "name")
		if name.Unknown != "" || !name.Exists {
			if i == 0 {
				r.why[requested] = without(name, "no cpuidle")
				r.why[wakeups] = r.why[requested]
			}
			return
		}
		usage, noUsage := number(h, state+"usage", state+"usage is missing")
		us, noTime := number(h, state+"time", state+"time is missing")
		if noUsage == "" {
			c.values[wakeups] += usage
		}
		if noTime == "" {
			if c.idleUS == nil {
				c.idleUS = map[string]float64{}
			}
			c.idleUS[strings.TrimSpace(name.Text)] += us
		}
		if noUsage+noTime != "" {
			r.why[wakeups], r.why[requested] = noUsage, noTime
		}
	}
}

func (r *reading) readThrottles(h *host.Host, c *counters, dir string) {
	n, why := number(h, dir+"core_throttle_count", "no thermal_throttle")
	if why != "" {
		r.why[throttles] = why
		return
	}
	c.values[throttles], c.values[throttlesSinceBoot] = n, n
	c.packageThrottles, _ = number(h, dir+"package_throttle_count", "")
}

// readFrequencies reads cpufreq (Documentation/admin-guide/pm/cpufreq.rst), or on CPUs without it
// /proc/cpuinfo. Without the CPU flag aperfmperf, the frequency there is nominal.
func (r *reading) readFrequencies(h *host.Host, cpus []topology) {
	for _, t := range cpus {
		dir := cpuDir + "cpu" + strconv.Itoa(t.cpu) + "/cpufreq/"
		khz, why := number(h, dir+"scaling_cur_freq", "no cpufreq")
		if khz <= 0 {
			khz, _ = number(h, dir+"cpuinfo_cur_freq", "")
		}
		if khz > 0 {
			r.cpu(t.cpu).values[frequency] = khz * 1e3
		} else {
			r.why[frequency] = why
		}
	}
	if r.why[frequency] == "" || !h.Live {
		return
	}
	for block := range strings.SplitSeq(h.File("/proc/cpuinfo").Text, "\n\n") {
		info := map[string]string{}
		for line := range strings.Lines(block) {
			if key, value, ok := strings.Cut(line, ":"); ok {
				info[strings.TrimSpace(key)] = strings.TrimSpace(value)
			}
		}
		cpu, err := strconv.Atoi(info["processor"])
		mhz, err2 := strconv.ParseFloat(info["cpu MHz"], 64)
		if err == nil && err2 == nil && slices.Contains(strings.Fields(info["flags"]), "aperfmperf") {
			r.cpu(cpu).values[frequency] = mhz * 1e6
			delete(r.why, frequency)
		}
	}
}
