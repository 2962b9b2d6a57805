package power

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
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
		m := Open(h)
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
		for _, p := range columns { // what has no source is unknown, not 0
			if v := p.get(&r.Last().Machine); v != nil && (p.head == "W" || p.head == "°C" || p.head == "irq/s" || p.head == "heat") {
				t.Errorf("%s: %s is %v", name, p.head, *v)
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
		"time of cpuidle": {new(cpu.RequestedPercent["C6"]), 30}, "state without time": {new(cpu.RequestedPercent["C1E"]), 0},
	} {
		if !near(x.got, x.want) {
			t.Errorf("%s: %s, want %v", what, shown(x.got), x.want)
		}
	}
	want := "8 CPUs busy 30.5 %, 2,100 MHz, 207 W, 92 °C, throttled by heat 5 times, package 1 is at its power limit (150 W, limit 150 W)"
	if got := r.Headline.Lines[0]; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if len(r.Missing) != 1 || r.Missing[0].What != entered {
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
		"busy": {s.Machine.BusyPercent, 30}, "C2": {new(s.Machine.RequestedPercent["C2"]), 50}, "wake-ups": {s.Machine.WakeupsPerS, 1200},
	} {
		if !near(x.got, x.want) {
			t.Errorf("%s: %s, want %v", what, shown(x.got), x.want)
		}
	}
	if on, ok := r.Settings.Boost.Get(); !ok || !on || s.Machine.Throttled != nil {
		t.Errorf("boost %v %v, throttled %v", on, ok, s.Machine.Throttled)
	}
	if line := missingLine(r.Missing, true); line != "no entered idle states: no cstate_core or cstate_pkg in perf; no throttling: no thermal_throttle" {
		t.Error(line)
	}
}

// TestEntered: residencies count at the rate of the time stamp counter, per core and package.
func TestEntered(t *testing.T) {
	cpus := []topology{{0, 0, 0}, {1, 0, 1}, {2, 0, 0}}
	r := &residency{counters: []residencyCounter{{cpu: 0}, {cpu: 0, state: "C6"}, {cpu: 1}, {cpu: 1, state: "C6"}, {cpu: 0, pkg: true}, {cpu: 0, pkg: true, state: "PC6"}}}
	s := Sample{IntervalS: 1, Packages: []Package{{Package: 0}}, CPUs: []CPU{{CPU: 0}, {CPU: 1, Core: 1}, {CPU: 2}}}
	r.set(&s, cpus, []float64{100, 50, 100, 50, 0, 0}, []float64{1100, 550, 2100, 2050, 1000, 250})
	s.Packages[0].combine(s.CPUs)
	got := fmt.Sprint(s.CPUs[0].EnteredPercent, s.CPUs[1].EnteredPercent, s.CPUs[2].EnteredPercent, s.Packages[0].EnteredPercent)
	if want := "map[C6:50] map[C6:100] map[C6:50] map[C6:66.66666666666667 PC6:25]"; got != want {
		t.Errorf("%s, want %s", got, want)
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
	e.setPower(&s, e.byZone())
	if p := s.Packages[0]; !near(p.PowerW, 1) || !near(s.Machine.PowerW, 2.5) || p.DomainsW["dram"] != 1.5 {
		t.Errorf("%+v", s)
	}
	s = Sample{IntervalS: 2, Packages: []Package{{Package: 0}}}
	if e.setPower(&s, make([]float64, 5)); s.Machine.PowerW != nil || s.Packages[0].PowerW != nil {
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
	h := machine.Mounted(t, files)
	if got, err := readTemperatures(h, []topology{{0, 0, 0}}); err != nil || fmt.Sprint(got) != "{map[0:60] map[] []}" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := readTemperatures(h, []topology{{0, 0, 0}, {1, 1, 0}}); err != nil || fmt.Sprint(got) != "{map[] map[] [60]}" {
		t.Errorf("one sensor for two packages: %v, %v", got, err)
	}
	delete(files, "/sys/class/hwmon/hwmon0/name")
	if _, err := readTemperatures(machine.Mounted(t, files), nil); err == nil {
		t.Error("the temperature of a disk is not that of a processor")
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
	if len(r.Missing) != 1 || r.Missing[0].What != rates {
		t.Errorf("%v", r.Missing)
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
	if strings.Contains(b.String(), "throttled") || strings.Contains(b.String(), "entered") {
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
			inManual(t, strings.Replace(b.String(), "perf counts on a running machine only", "no cstate_core or cstate_pkg in perf", 1))
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
