package power

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// changedFiles are the files of a machine, some of which have changed.
type changedFiles struct {
	host.Files
	changed host.Files
}

func (c changedFiles) ReadFile(p string) ([]byte, error) {
	if real, err := c.Files.Resolve(p); err == nil {
		if b, err := c.changed.ReadFile(real); err == nil {
			return b, nil
		}
	}
	return c.Files.ReadFile(p)
}

// clock is the clock of the bubble of testing/synctest.
type clock struct{}

func (clock) Now() time.Time                    { return time.Now() }
func (clock) SinceBoot() (time.Duration, error) { return 0, host.NotRecorded("uptime") }

func archive(t *testing.T, name string) *host.Host {
	t.Helper()
	h, err := host.OpenArchive("testdata/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// observe returns the report on an interval in which a machine of testdata has become its .later.
func observe(t *testing.T, name string, interval time.Duration) (r *Report) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := archive(t, name)
		h.Live, h.Clock = true, clock{}
		m := open(h, counting(name))
		defer m.Close()
		later := archive(t, name+".later")
		time.AfterFunc(interval/2, func() { h.Files = changedFiles{h.Files, later.Files} })
		if err := m.Wait(t.Context(), interval); err != nil {
			t.Fatal(err)
		}
		r = m.Report(m.Sample())
	})
	return r
}

// counting returns counters that advance at a constant rate on the two servers. On the Intel server
// the CPUs of package 0 work 1 % of the time at 800 MHz, and those of package 1 60 % at 3,400 MHz; on
// the AMD server, 30 % at 3,000 MHz. The slides have none, as any copy.
func counting(name string) openCounter {
	return func(e host.PMUEvent, cpu int) (counter, error) {
		pkg, tsc := cpu/2%2, 2.1e9
		// The units msr (13), cstate_core (21) and cstate_pkg (22), and the events' config.
		rates := map[[2]uint64][2]float64{
			{13, 0}: {1, 1}, {13, 1}: {0.01 * 800 / 2100, 0.6 * 3400 / 2100}, {13, 2}: {0.01, 0.6},
			{21, 0}: {0.02, 0.1}, {21, 2}: {0.97, 0.3}, {22, 0}: {0.125, 0}, {22, 2}: {0.75, 0},
		}
		switch name {
		case "turbostat":
			tsc = 2.445e9
			rates = map[[2]uint64][2]float64{{13, 0}: {1, 1}, {13, 1}: {1e9 / tsc, 1e9 / tsc}, {13, 2}: {1e9 / tsc, 1e9 / tsc}}
		case "amd":
			pkg, tsc = 0, 2.4e9
			rates = map[[2]uint64][2]float64{{13, 0}: {1}, {13, 1}: {0.3 * 3000 / 2400}, {13, 2}: {0.3}}
		}
		rate, ok := rates[[2]uint64{uint64(e.Type), e.Config}]
		if !ok || strings.HasPrefix(name, "slide") {
			return nil, host.NotRecorded("performance counters")
		}
		return steady{time.Now(), tsc * rate[pkg]}, nil
	}
}

// steady is a counter that advances at a constant rate per second.
type steady struct {
	from time.Time
	rate float64
}

func (s steady) Count() (uint64, error) { return uint64(time.Since(s.from).Seconds() * s.rate), nil }
func (steady) Close()                   {}

func near(v *float64, want float64) bool { return v != nil && math.Abs(*v-want) < 1e-6*max(1, want) }

func shown(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return unit.Exact(*v)
}

// TestSlides: the machines of the two power slides of the fifth source show the figures of turbostat
// on the slides: busy time (%c0), frequency in GHz, and the idle states.
func TestSlides(t *testing.T) {
	for name, want := range map[string]string{
		"slide-default": `
0 0 0 0.24 2.93 5.72 1.32 0.00 92.72
0 1 1 2.54 3.03 3.13 0.15 0.00 94.18
0 2 2 2.29 3.08 1.47 0.00 0.00 96.25
0 3 3 1.75 1.75 1.21 0.47 0.12 96.44`,
		"slide-latency-performance": `
0 0 0 0.00 3.30 100.00 0.00 0.00 0.00
0 1 1 0.00 3.30 100.00 0.00 0.00 0.00
0 2 2 0.00 3.30 100.00 0.00 0.00 0.00
0 3 3 0.00 3.30 100.00 0.00 0.00 0.00`,
	} {
		r := observe(t, name, 100*time.Second)
		got := ""
		for _, c := range r.Last().CPUs {
			i := c.RequestedPercent
			got += fmt.Sprintf("\n%d %d %d %.2f %.2f %.2f %.2f %.2f %.2f", c.Package, c.Core, c.CPU, *c.BusyPercent, *c.FrequencyHz/1e9, i["C1"], i["C3"], i["C6"], i["C7"])
		}
		if got != want {
			t.Errorf("%s:%s\nwant%s", name, got, want)
		}
		if line := missingLine(r.Missing, true); !strings.Contains(line, "no temperature: no hwmon; no power: no powercap") {
			t.Errorf("%s: %s", name, line)
		}
		for _, q := range []quantity{power, temperature, interrupts, throttles, busyFrequency} {
			if v := *quantities[q].at(&r.Last().Machine); v != nil { // what has no source is unknown, not 0
				t.Errorf("%s: %s is %v", name, quantities[q].name, *v)
			}
		}
	}
}

// TestTurbostat: on the same files, fettle shows what turbostat shows in the columns with the same
// meaning. turbostat's interval is some milliseconds longer than the nominal 5 s.
func TestTurbostat(t *testing.T) {
	table, err := os.ReadFile("testdata/turbostat-2024.07.26.table")
	if err != nil {
		t.Fatal(err)
	}
	const seconds = 5
	s := observe(t, "turbostat", seconds*time.Second).Last()
	lines := strings.Split(strings.TrimSpace(string(table)), "\n")
	heads := strings.Split(lines[0], "\t")
	for i, v := range []*Values{&s.Machine, &s.CPUs[0].Values, &s.CPUs[1].Values} {
		ours := map[string]float64{"Busy%": v.EnteredPercent[notIdle], "Bzy_MHz": *v.BusyFrequencyHz / 1e6, "IRQ": *v.InterruptsPerS * seconds, "wake-ups": *v.WakeupsPerS * seconds}
		if i > 0 { // turbostat's sum is the highest value of a CPU
			ours["CoreThr"] = *v.Throttled
		}
		for name, percent := range v.RequestedPercent {
			ours[name+"%"] = percent
		}
		theirs := map[string]float64{}
		for j, text := range strings.Split(lines[i+1], "\t") {
			theirs[heads[j]], _ = strconv.ParseFloat(text, 64)
		}
		theirs["wake-ups"] = theirs["POLL"] + theirs["C1"] + theirs["C1E"] + theirs["C6"]
		if len(ours) < 8 {
			t.Errorf("row %d: only %v", i, ours)
		}
		for name, v := range ours {
			tolerance := 1e-6
			if !slices.Contains([]string{"IRQ", "wake-ups", "CoreThr"}, name) { // a share of the interval, or a rate
				tolerance = 0.01 + 0.003*theirs[name]
			}
			if want := theirs[name]; math.Abs(v-want) > tolerance {
				t.Errorf("row %d, %s: %v, turbostat shows %v", i, name, v, want)
			}
		}
	}
}

// TestIntel: each column of the Intel server against its own file. Two of its energy counters wrap
// around in the interval.
func TestIntel(t *testing.T) {
	r := observe(t, "intel", 10*time.Second)
	s := r.Last()
	idle, busy := &s.Packages[0], &s.Packages[1]
	cpu := &s.CPUs[2] // package 1, core 0
	for what, x := range map[string]struct {
		got  *float64
		want float64
	}{
		"/proc/stat": {cpu.BusyPercent, 60}, "/proc/stat of the machine": {s.Machine.BusyPercent, 30.5},
		"scaling_cur_freq": {cpu.FrequencyHz, 3.4e9}, "mean frequency": {s.Machine.FrequencyHz, 2.1e9},
		"/proc/interrupts": {cpu.InterruptsPerS, 754}, "LOC": {cpu.TimersPerS, 250}, "RES": {cpu.ReschedulesPerS, 4},
		"/proc/softirqs": {cpu.SoftIRQsPerS, 500}, "usage of cpuidle": {cpu.WakeupsPerS, 360}, "usage, all": {s.Machine.WakeupsPerS, 1520},
		"core_throttle_count": {cpu.Throttled, 2}, "both threads and the package": {s.Machine.Throttled, 5}, "since boot": {s.Machine.ThrottledSinceBoot, 52}, "a cool package": {idle.Throttled, 0},
		"Core 0": {cpu.TemperatureC, 91}, "Package id 0": {idle.TemperatureC, 41}, "hottest": {s.Machine.TemperatureC, 92},
		"energy_uj": {idle.PowerW, 40}, "energy_uj, wrapped": {busy.PowerW, 150}, "dram, wrapped": {new(busy.DomainsW["dram"]), 12},
		"packages and memory": {s.Machine.PowerW, 207}, "limit": {busy.PowerLimitW, 150},
		"aperf and mperf": {cpu.BusyFrequencyHz, 3.4e9}, "aperf and mperf, by time": {s.Machine.BusyFrequencyHz, (0.04*0.8e9 + 2.4*3.4e9) / 2.44},
		"mperf": {new(cpu.EnteredPercent["C0"]), 60}, "cstate_core": {new(cpu.EnteredPercent["C6"]), 30}, "C1, counted": {new(cpu.EnteredPercent["C1"]), 10}, "C6 of the other thread": {new(s.CPUs[6].EnteredPercent["C6"]), 30},
		"cstate_core of the package": {new(idle.EnteredPercent["C6"]), 97}, "cstate_pkg": {new(idle.EnteredPercent["PC6"]), 75}, "a package at work": {new(busy.EnteredPercent["PC6"]), 0}, "of both packages": {new(s.Machine.EnteredPercent["PC6"]), 37.5},
		"time of cpuidle": {new(cpu.RequestedPercent["C6"]), 30}, "state without time": {new(cpu.RequestedPercent["C1E"]), 0},
	} {
		if !near(x.got, x.want) {
			t.Errorf("%s: %s, want %v", what, shown(x.got), x.want)
		}
	}
	want := "8 CPUs busy 30.5 %, 3,357 MHz, 207 W, 92 °C, throttled by heat 5 times, package 1 is at its power limit (150 W, limit 150 W)"
	if got := r.Headline.Lines[0]; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if len(r.Missing) != 0 {
		t.Errorf("missing: %v", r.Missing)
	}
}

// TestAMD: a machine without thermal_throttle and cstate PMUs, with boost per policy.
func TestAMD(t *testing.T) {
	r := observe(t, "amd", 10*time.Second)
	s := r.Last()
	for what, x := range map[string]struct {
		got  *float64
		want float64
	}{
		"power": {s.Machine.PowerW, 65.5}, "cores": {new(s.Packages[0].DomainsW["core"]), 21}, "Tctl": {s.Machine.TemperatureC, 68.375},
		"aperf and mperf": {s.Machine.BusyFrequencyHz, 3e9}, "mperf": {new(s.Machine.EnteredPercent["C0"]), 30},
		"busy": {s.Machine.BusyPercent, 30}, "C2": {new(s.Machine.RequestedPercent["C2"]), 50}, "wake-ups": {s.Machine.WakeupsPerS, 1200},
	} {
		if !near(x.got, x.want) {
			t.Errorf("%s: %s, want %v", what, shown(x.got), x.want)
		}
	}
	if on, ok := r.Settings.Boost.Get(); !ok || !on || s.Machine.Throttled != nil {
		t.Errorf("boost %v %v, throttled %v", on, ok, s.Machine.Throttled)
	}
	if line := missingLine(r.Missing, true); line != "no entered idle states: no cstate_core in perf; no throttling: no thermal_throttle" {
		t.Error(line)
	}
}

// TestC1: a processor without a counter of C1 was there in the time that it was in no other state.
func TestC1(t *testing.T) {
	w := &hardware{cpus: []topology{{0, 0, 0}}, counters: []hardwareCounter{{unit: "msr", event: "tsc"}, {unit: "msr", event: "aperf"}, {unit: "msr", event: "mperf"}, {unit: "cstate_core", event: "c6"}}}
	s := Sample{IntervalS: 1, CPUs: []CPU{{}}}
	w.set(&s, []float64{7, 7, 7, 7}, []float64{1007, 57, 107, 607})
	if got := fmt.Sprint(s.CPUs[0].EnteredPercent, *s.CPUs[0].BusyFrequencyHz); got != "map[C0:10 C1:30 C6:60] 500" {
		t.Error(got)
	}
}

// TestEnergy: a counter that wraps around, the same package by another way, the platform, a counter
// that stands still, and one that only root can read.
func TestEnergy(t *testing.T) {
	const rapl = "/sys/class/powercap/intel-rapl"
	zone := func(files map[string]string, id, name, uj string) {
		files[rapl+id+"/name"], files[rapl+id+"/energy_uj"], files[rapl+id+"/max_energy_range_uj"] = name+"\n", uj+"\n", "1000000000\n"
	}
	files := map[string]string{rapl + "/enabled": "1\n"}
	zone(files, ":0", "package-0-die-0", "999000000")
	zone(files, ":1", "package-0-die-1", "5000000")
	zone(files, ":0:0", "core", "1000000")
	zone(files, ":0:1", "dram", "1000000")
	zone(files, ":2", "psys", "0")
	zone(files, "-mmio:0", "package-0-die-0", "7000000")
	h := machine.Mounted(t, files)
	e := OpenEnergy(h)
	write := func(id, uj string) { machine.WriteFile(t, h.Name, rapl+id+"/energy_uj", uj+"\n") }
	if e.Why() != "" || len(e.zones) != 5 {
		t.Fatalf("%d zones, %s", len(e.zones), e.Why())
	}
	got, err := e.During(func() error {
		write(":0", "1000000") // 2 J
		write(":0:1", "4000000")
		write(":2", "90000000")
		return errors.New("ended")
	})
	if err == nil || got != 5 {
		t.Errorf("%v J, want 5 of package and memory; %v", got, err)
	}
	s := Sample{IntervalS: 2, Packages: []Package{{Package: 0}}}
	joules, _ := e.poll()
	e.setPower(&s, make([]float64, 5), joules)
	if p := s.Packages[0]; !near(p.PowerW, 1) || !near(s.Machine.PowerW, 2.5) || p.DomainsW["dram"] != 1.5 {
		t.Errorf("%+v", s)
	}
	s = Sample{IntervalS: 2, Packages: []Package{{Package: 0}}}
	if e.setPower(&s, joules, joules); s.Machine.PowerW != nil || s.Packages[0].PowerW != nil {
		t.Error("a counter that does not advance was taken as a power of 0")
	}
	for name, h := range map[string]*host.Host{
		"no powercap": machine.Mounted(t, nil), "no RAPL in powercap": machine.Mounted(t, map[string]string{"/sys/class/powercap/": ""}),
		"only root can read /sys/class/powercap/intel-rapl:0/energy_uj": denied(machine.Mounted(t, files)),
	} {
		if e := OpenEnergy(h); e.Why() != name {
			t.Errorf("%s, want %s", e.Why(), name)
		}
	}
}

type deniedFiles struct{ host.Files }

func (d deniedFiles) ReadFile(p string) ([]byte, error) {
	if strings.HasSuffix(p, "/energy_uj") {
		return nil, &fs.PathError{Op: "open", Path: p, Err: fs.ErrPermission}
	}
	return d.Files.ReadFile(p)
}

func denied(h *host.Host) *host.Host {
	h.Files = deniedFiles{h.Files}
	return h
}

// TestTemperatures: sensors of AMD with an offset, and of unknown packages.
func TestTemperatures(t *testing.T) {
	files := map[string]string{
		"/sys/class/hwmon/hwmon0/name": "k10temp\n", "/sys/class/hwmon/hwmon0/temp1_label": "Tctl\n", "/sys/class/hwmon/hwmon0/temp1_input": "80000\n",
		"/sys/class/hwmon/hwmon0/temp2_label": "Tdie\n", "/sys/class/hwmon/hwmon0/temp2_input": "60000\n",
		"/sys/class/hwmon/hwmon1/name": "nvme\n", "/sys/class/hwmon/hwmon1/temp1_input": "90000\n",
	}
	read := func(cpus ...topology) string {
		r := &reading{cpus: map[int]*counters{}, why: map[quantity]string{}}
		r.readTemperatures(machine.Mounted(t, files), cpus)
		return fmt.Sprint(r.celsius, r.why[temperature])
	}
	if got := read(topology{0, 0, 0}); got != "map[0:60]" {
		t.Error(got)
	}
	if got := read(topology{0, 0, 0}, topology{1, 1, 0}); got != "map[-1:60]" {
		t.Errorf("one sensor for two packages: %s", got)
	}
	for i, celsius := range []string{"70000", "80000", "90000"} { // an EPYC 7001 has one per die
		dir := fmt.Sprintf("/sys/class/hwmon/hwmon%d/", i+2)
		files[dir+"name"], files[dir+"temp1_input"] = "k10temp\n", celsius
	}
	if got := read(topology{0, 0, 0}, topology{1, 1, 0}); got != "map[0:70 1:90]" {
		t.Errorf("two sensors per package: %s", got)
	}
	for name := range files {
		if strings.HasSuffix(name, "/name") && files[name] == "k10temp\n" {
			delete(files, name)
		}
	}
	if got := read(); got != "map[]no sensor of a processor in hwmon" {
		t.Errorf("the temperature of a disk is not that of a processor: %s", got)
	}
}

// TestCopy: a copy has settings and values of one moment, and no rates.
func TestCopy(t *testing.T) {
	r := Open(archive(t, "intel")).Report()
	if s := r.Last(); s.Machine.BusyPercent != nil || s.Machine.PowerW != nil || s.Machine.WakeupsPerS != nil || !near(s.Machine.TemperatureC, 41) || !near(s.Machine.ThrottledSinceBoot, 47) {
		t.Errorf("%+v", s.Machine)
	}
	if got := strings.Join(r.Headline.Lines, "\n"); got != "8 CPUs, 800 MHz, 41 °C, throttled by heat 47 times since boot\ngovernor powersave (intel_pstate), EPP balance_performance, boost on, idle driver intel_idle" {
		t.Error(got)
	}
	if len(r.Missing) != 1 || r.Missing[0].What != "rates" {
		t.Errorf("%v", r.Missing)
	}
	r = Open(archive(t, "turbostat")).Report()
	var b strings.Builder
	Print(&ui.Screen{Out: &b, Format: ui.Table}, r, false)
	if got, want := b.String(), "2 CPUs, throttled by heat 18 times since boot\nno governor (no cpufreq), idle driver intel_idle\n\nnot reported here: rates, frequency, temperature (--wide: why)\n"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// TestThisMachine: on this machine the busy time is a share, and each value is known or missing.
func TestThisMachine(t *testing.T) {
	m := Open(host.Live())
	defer m.Close()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); { // until a tick has passed
		if s := m.Sample(); s.Machine.BusyPercent != nil && s.Machine.InterruptsPerS != nil {
			b, err := json.Marshal(m.Report(s))
			if err != nil || *s.Machine.BusyPercent < 0 || *s.Machine.BusyPercent > 100 || len(s.CPUs) == 0 {
				t.Errorf("%s, %v", b, err)
			}
			return
		}
	}
	t.Error("no busy time in 10 s")
}

// TestMissing: whatever a machine lacks, each column is there or named, also in an interval without
// a tick of the kernel.
func TestMissing(t *testing.T) {
	for _, files := range []map[string]string{
		{},
		{"/sys/devices/system/cpu/online": "0\n"},
		{"/sys/devices/system/cpu/online": "0\n", "/proc/stat": "cpu  1 0 0 9 0 0 0 0\ncpu0 1 0 0 9 0 0 0 0\n", "/proc/interrupts": "  CPU0\n  5:  7  ITS-MSI  eth0\n", "/proc/softirqs": "text\n"},
		{"/sys/devices/system/cpu/online": "0\n", "/sys/devices/system/cpu/cpu0/cpuidle/state0/name": "WFI\n", "/sys/class/hwmon/hwmon0/name": "nvme\n", "/sys/class/powercap/dtpm/enabled": "0\n"},
	} {
		m := Open(machine.Mounted(t, files))
		m.last.at = m.last.at.Add(-time.Second)
		r := m.Report(m.Sample())
		for q := range quantities {
			def, known := &quantities[q], quantity(q).known(&r.Last().Machine)
			named := slices.ContainsFunc(r.Missing, func(m Missing) bool { return m.What == def.name && m.Why != "" })
			if def.name != "" && known == named && len(files) > 0 {
				t.Errorf("%v: %s: known %v, named %v", files, def.name, known, named)
			}
		}
		if named := len(r.Missing) == 1 && r.Missing[0].What == "CPUs"; named != (len(files) == 0) {
			t.Errorf("%v: %v", files, r.Missing)
		}
		m.Close()
	}
}

// TestLiveScreen: whatever the size of the terminal, the screen has no more lines than it.
func TestLiveScreen(t *testing.T) {
	r := observe(t, "intel", 10*time.Second)
	for _, cpus := range []int{8, 256} {
		for len(r.Samples[0].CPUs) < cpus {
			r.Samples[0].CPUs = append(r.Samples[0].CPUs, r.Samples[0].CPUs...)
		}
		for height := 5; height < 300; height++ {
			lines := strings.Split(strings.TrimSuffix(LiveScreen(r, time.Minute, 80, height), "\n"), "\n")
			if len(lines) > height {
				t.Fatalf("%d CPUs, %d lines for %d", cpus, len(lines), height)
			}
			for _, l := range lines {
				if n := len([]rune(l)); n > 80 {
					t.Fatalf("%d columns: %s", n, l)
				}
			}
		}
	}
}

// TestOpenMetrics: units and labels, and no metric without a source.
func TestOpenMetrics(t *testing.T) {
	var b strings.Builder
	if err := OpenMetrics(&b, observe(t, "amd", 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# TYPE fettle_power_power_watts gauge\n", `fettle_power_power_watts{scope="machine"} 65.5`, `fettle_power_domain_watts{package="0",domain="core"} 21`,
		`fettle_power_busy_ratio{scope="cpu",package="0",core="3",cpu="7"} 0.3`, `fettle_power_idle_requested_ratio{scope="machine",state="C2"} 0.5`, `fettle_power_frequency_hertz{scope="machine"} 2450000000`, "\n# EOF\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "throttled") || strings.Contains(b.String(), "irq_") {
		t.Error("a metric without a source")
	}
}

// TestTableFits: the table of each machine fits 80 columns.
func TestTableFits(t *testing.T) {
	for name, interval := range map[string]time.Duration{"slide-default": 100 * time.Second, "intel": 10 * time.Second, "amd": 10 * time.Second} {
		var b strings.Builder
		Print(&ui.Screen{Out: &b, Format: ui.Table, Width: 80}, observe(t, name, interval), false)
		for line := range strings.Lines(b.String()) {
			if n := len([]rune(line)) - 1; n > 80 {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
		if name == "intel" {
			inManual(t, b.String())
		}
	}
}

// inManual reports an example that is not in docs/power.md.
func inManual(t *testing.T, example string) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/power.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```\n"+example+"```\n") {
		t.Errorf("docs/power.md does not have\n%s", example)
	}
}
