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

func topologyOf(cpus []topology, cpu int) *topology {
	if i := slices.IndexFunc(cpus, func(t topology) bool { return t.cpu == cpu }); i >= 0 {
		return &cpus[i]
	}
	return nil
}

// readTopology returns the online CPUs.
func readTopology(h *host.Host) (out []topology) {
	online, err := unit.ParseCPUList(strings.TrimSpace(h.File(cpuDir + "online").Text))
	if err != nil {
		return nil
	}
	number := func(p string) int {
		n, err := strconv.Atoi(strings.TrimSpace(h.File(p).Text))
		if err != nil {
			return -1
		}
		return n
	}
	for _, cpu := range online.Numbers() {
		dir := cpuDir + "cpu" + strconv.Itoa(cpu) + "/topology/"
		out = append(out, topology{cpu, number(dir + "physical_package_id"), number(dir + "core_id")})
	}
	return out
}

// reading holds the counters of a machine at one time. For values that could not be read, why holds
// the reason by name.
type reading struct {
	at                  time.Time
	times               map[string]activity.CPUTime
	interrupts, softirq map[int]events
	idle                map[int][]idleState
	hz                  map[int]float64
	celsius             temperatures
	throttled           map[int]throttles
	joules, entered     []float64
	why                 map[string]string
}

// events are the numbers of interrupts of a CPU.
type events struct{ all, timers, reschedules float64 }

// idleState has the counters of an idle state of a CPU.
type idleState struct {
	name        string
	entries, us float64
}

// throttles counts how often heat lowered the frequency.
type throttles struct{ core, pkg float64 }

// Names of values without a source.
const (
	busy        = "busy time"
	frequency   = "frequency"
	requested   = "requested idle states"
	entered     = "entered idle states"
	interrupts  = "interrupts"
	softirqs    = "softirqs"
	throttling  = "throttling"
	temperature = "temperature"
	power       = "power"
	rates       = "rates"
)

// read reads all counters.
func (m *Monitor) read() *reading {
	h := m.host
	r := &reading{why: map[string]string{}, idle: map[int][]idleState{}, hz: map[int]float64{}, throttled: map[int]throttles{}}
	m.energy.Poll()
	r.at, r.joules, r.entered = h.Clock.Now(), m.energy.byZone(), m.residency.read()
	stat := h.File("/proc/stat")
	var err error
	if r.times, err = activity.ParseCPUTimes(stat.Text); err != nil {
		r.why[busy] = without(stat, "no /proc/stat")
	}
	r.interrupts = r.events(h.File("/proc/interrupts"), interrupts)
	r.softirq = r.events(h.File("/proc/softirqs"), softirqs)
	own := frequencyOf(h)
	for _, t := range m.cpus {
		dir := cpuDir + "cpu" + strconv.Itoa(t.cpu) + "/"
		r.readIdle(h, t.cpu, dir+"cpuidle/")
		if hz, why := own(t.cpu, dir+"cpufreq/"); why == "" {
			r.hz[t.cpu] = hz
		} else {
			r.why[frequency] = why
		}
		r.readThrottles(h, t.cpu, dir+"thermal_throttle/")
	}
	if r.celsius, err = readTemperatures(h, m.cpus); err != nil {
		r.why[temperature] = err.Error()
	}
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

func (r *reading) events(f host.File, what string) map[int]events {
	cpus, lines, err := activity.ParseInterrupts(f.Text)
	if err != nil {
		r.why[what] = without(f, "no "+f.Path)
		return nil
	}
	out := map[int]events{}
	for i, cpu := range cpus {
		var e events
		for _, l := range lines {
			e.all += l.Counts[i]
			switch l.Name {
			case "LOC":
				e.timers = l.Counts[i]
			case "RES":
				e.reschedules = l.Counts[i]
			}
		}
		out[cpu] = e
	}
	return out
}

// readIdle reads the idle states of a CPU (Documentation/admin-guide/pm/cpuidle.rst).
func (r *reading) readIdle(h *host.Host, cpu int, dir string) {
	for i := 0; ; i++ {
		state := dir + "state" + strconv.Itoa(i) + "/"
		name := h.File(state + "name")
		if name.Unknown != "" || !name.Exists {
			if i == 0 {
				r.why[requested] = without(name, "no cpuidle")
			}
			return
		}
		usage, us := h.File(state+"usage"), h.File(state+"time")
		entries, bad := strconv.ParseFloat(strings.TrimSpace(usage.Text), 64)
		spent, bad2 := strconv.ParseFloat(strings.TrimSpace(us.Text), 64)
		if bad != nil || bad2 != nil {
			r.why[requested] = without(usage, usage.Path+" is missing")
			delete(r.idle, cpu)
			return
		}
		r.idle[cpu] = append(r.idle[cpu], idleState{strings.TrimSpace(name.Text), entries, spent})
	}
}

func (r *reading) readThrottles(h *host.Host, cpu int, dir string) {
	core, pkg := h.File(dir+"core_throttle_count"), h.File(dir+"package_throttle_count")
	if !core.Exists {
		r.why[throttling] = without(core, "no thermal_throttle")
		return
	}
	count := func(f host.File) float64 {
		n, _ := strconv.ParseFloat(strings.TrimSpace(f.Text), 64)
		return n
	}
	r.throttled[cpu] = throttles{count(core), count(pkg)}
}

// frequencyOf returns a function that returns the frequency of a CPU, from cpufreq
// (Documentation/admin-guide/pm/cpufreq.rst) or /proc/cpuinfo, or why it is unknown. Without the
// CPU flag aperfmperf, the frequency in /proc/cpuinfo is nominal.
func frequencyOf(h *host.Host) func(cpu int, dir string) (hz float64, why string) {
	measured := map[int]float64{}
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
			measured[cpu] = mhz * 1e6
		}
	}
	return func(cpu int, dir string) (float64, string) {
		for _, name := range []string{"scaling_cur_freq", "cpuinfo_cur_freq"} {
			if khz, err := strconv.ParseFloat(strings.TrimSpace(h.File(dir+name).Text), 64); err == nil && khz > 0 {
				return khz * 1e3, ""
			}
		}
		if hz := measured[cpu]; hz > 0 && h.Live {
			return hz, ""
		}
		return 0, without(h.File(dir+"scaling_cur_freq"), "no cpufreq")
	}
}
