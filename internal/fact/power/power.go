// Package power reads the counters of a machine's CPUs twice, and returns the difference: busy
// time, frequency, idle states, interrupts, throttling, temperature and power, per CPU, package and
// machine. It uses the files of the kernel and performance counters, no model-specific registers. A
// value without a source is named as missing, never reported as 0. The verbs fettle power and
// fettle prove use it.
package power

import (
	"context"
	"time"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/ui"
)

// Schema is the kind of the JSON output.
const Schema = "fettle/power/v1"

// Report is the JSON form of fettle power and fettle power record.
type Report struct {
	Schema   string      `json:"schema"` // fettle/power/v1
	Headline ui.Headline `json:"headline"`
	Settings Settings    `json:"settings"`
	// Samples has one element per interval. On a copy it has a single one, without rates.
	Samples []Sample `json:"samples"`
	// Missing lists the values that this machine lacks, or that this user may not read.
	Missing []Missing `json:"missing"`
	// Command is the command of fettle power record.
	Command *Command `json:"command,omitempty"`
}

// Last returns the newest sample.
func (r *Report) Last() *Sample { return &r.Samples[len(r.Samples)-1] }

// Missing names values without a source.
type Missing struct {
	What string `json:"what"` // power
	Why  string `json:"why"`  // no powercap
}

// Settings are the settings that decide on frequency and idle states.
type Settings struct {
	Driver         fact.Fact[string]   `json:"frequency_driver"`
	PstateStatus   fact.Fact[string]   `json:"pstate_status"`
	Governors      fact.Fact[[]string] `json:"governors"`
	Preferences    fact.Fact[[]string] `json:"energy_performance_preferences"`
	EnergyPerfBias fact.Fact[[]string] `json:"energy_perf_bias"`
	Boost          fact.Fact[bool]     `json:"boost"`
	IdleDriver     fact.Fact[string]   `json:"idle_driver"`
	IdleGovernor   fact.Fact[string]   `json:"idle_governor"`
	// IdleStates lists the idle states of the first CPU, and DisabledStates those that are
	// disabled on at least one CPU.
	IdleStates     []string `json:"idle_states"`
	DisabledStates []string `json:"disabled_idle_states"`
}

// Sample holds the CPUs' activity in an interval. A nil value is unknown; Report.Missing says why.
type Sample struct {
	Time time.Time `json:"time"` // end of the interval
	// IntervalS is the length of the interval. It is 0 on a copy, which has no rates.
	IntervalS float64   `json:"interval_s"`
	Machine   Values    `json:"machine"`
	Packages  []Package `json:"packages"`
	CPUs      []CPU     `json:"cpus"`
}

// Package is a processor package (a socket).
type Package struct {
	Package int `json:"package"`
	Values
	// PowerLimitW is the long-term power limit, or nil.
	PowerLimitW *float64 `json:"power_limit_w"`
	// DomainsW is the power of the parts that RAPL measures, by name: core, uncore, dram.
	DomainsW map[string]float64 `json:"domains_w,omitempty"`
}

// CPU is a logical CPU. Package and Core are -1 if unknown.
type CPU struct {
	CPU     int `json:"cpu"`
	Package int `json:"package"`
	Core    int `json:"core"`
	Values
}

// Values are those of a CPU, a package or the machine. For several CPUs, percentages and the
// frequency are means, numbers of events are sums, and the temperature is the highest one.
type Values struct {
	// BusyPercent excludes the time that the hypervisor used for others (steal).
	BusyPercent  *float64 `json:"busy_percent"`
	StealPercent *float64 `json:"steal_percent"`
	// BusyFrequencyHz is the mean frequency in the time in which the CPU was not idle (perf: msr).
	// FrequencyHz is the frequency at the end of the interval (cpufreq).
	BusyFrequencyHz *float64 `json:"busy_frequency_hz"`
	FrequencyHz     *float64 `json:"frequency_hz"`
	// RequestedPercent is the time in each idle state that the kernel requested (cpuidle).
	// EnteredPercent is the time in each state that the processor really entered (perf: cstate_core;
	// for a package cstate_pkg), and in C0, in which it works (perf: msr).
	RequestedPercent map[string]float64 `json:"idle_requested_percent,omitempty"`
	EnteredPercent   map[string]float64 `json:"idle_entered_percent,omitempty"`
	InterruptsPerS   *float64           `json:"interrupts_per_s"`
	// TimersPerS counts interrupts of local timers (LOC), ReschedulesPerS wake-ups by other CPUs
	// (RES). Both exist on x86 only.
	TimersPerS      *float64 `json:"timer_interrupts_per_s"`
	ReschedulesPerS *float64 `json:"reschedule_interrupts_per_s"`
	SoftIRQsPerS    *float64 `json:"softirqs_per_s"`
	// WakeupsPerS is the number of times per second that an idle state ended.
	WakeupsPerS *float64 `json:"wakeups_per_s"`
	// Throttled is the number of times in the interval at which heat lowered the frequency. For
	// several CPUs, threads of one core count once.
	Throttled          *float64 `json:"throttled"`
	ThrottledSinceBoot *float64 `json:"throttled_since_boot"`
	TemperatureC       *float64 `json:"temperature_c"`
	PowerW             *float64 `json:"power_w"`
}

// Monitor reads the counters of a machine.
type Monitor struct {
	host     *host.Host
	cpus     []topology
	energy   *Energy
	hardware *hardware
	last     *reading
	settings Settings
}

// Open reads the settings of a machine, and the counters for the first time.
func Open(h *host.Host) *Monitor {
	return open(h, func(e host.PMUEvent, cpu int) (counter, error) { return h.OpenPMU(e, cpu) })
}

func open(h *host.Host, count openCounter) *Monitor {
	m := &Monitor{host: h, cpus: readTopology(h), energy: OpenEnergy(h), settings: readSettings(h)}
	m.hardware = openHardware(h, m.cpus, count)
	m.last = m.read()
	return m
}

// Close ends the counting.
func (m *Monitor) Close() { m.hardware.close() }

// Wait waits for an interval, or until ctx ends.
func (m *Monitor) Wait(ctx context.Context, interval time.Duration) error {
	defer m.energy.start()()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(interval):
		return nil
	}
}

// Sample reads the counters, and returns their changes since the last reading.
func (m *Monitor) Sample() Sample {
	now := m.read()
	s := m.sample(m.last, now)
	m.last = now
	return s
}

// Report returns a report on samples. Without a sample, it has the values that need no interval.
func (m *Monitor) Report(samples ...Sample) *Report {
	if len(samples) == 0 {
		samples = []Sample{m.sample(nil, m.last)}
	}
	r := &Report{Schema: Schema, Settings: m.settings, Samples: samples}
	r.Missing = m.missing(r.Last())
	r.Headline = headline(r)
	return r
}

// Command is a command that ran while its machine was observed.
type Command struct {
	Args      []string `json:"args"`
	ExitCode  int      `json:"exit_code"` // -1: ended by a signal, or not started
	DurationS float64  `json:"duration_s"`
	// EnergyJ is the energy of all packages and their memory, also of other processes.
	EnergyJ *float64 `json:"energy_j"`
}

// SetCommand adds a command to a report.
func (r *Report) SetCommand(c Command) {
	r.Command = &c
	r.Headline = headline(r)
}

// During runs work, and returns the sample for that time, with the energy if it is measured, and
// work's error.
func (m *Monitor) During(work func() error) (s Sample, joules *float64, err error) {
	m.last = m.read()
	counted, err := m.energy.During(work)
	if s = m.Sample(); s.Machine.PowerW != nil {
		joules = &counted
	}
	return s, joules, err
}

func readSettings(h *host.Host) Settings {
	f := fact.Collect(h, "cpu")
	c := &f.CPU
	s := Settings{Driver: c.Frequency.Driver, PstateStatus: c.Frequency.PstateStatus, Governors: c.Frequency.Governors,
		Preferences: c.Frequency.Preference, EnergyPerfBias: c.Frequency.EnergyPerfBias, Boost: c.Frequency.Boost,
		IdleDriver: c.Idle.Driver, IdleGovernor: c.Idle.Governor, IdleStates: []string{}, DisabledStates: []string{}}
	for _, name := range c.Idle.State.Names() {
		state := c.Idle.State.Get(name)
		title := state.Name.Or(name)
		s.IdleStates = append(s.IdleStates, title)
		if state.DisabledList.Or("") != "" {
			s.DisabledStates = append(s.DisabledStates, title)
		}
	}
	return s
}
