package quiet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/fact/activity"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Check is why a machine is noisy.
type Check struct {
	Schema   string      `json:"schema"` // fettle/quiet-check/v1
	Headline ui.Headline `json:"headline"`
	// CPUs are the CPUs that fettle quiet would measure on. Noise is that of the first of them.
	CPUs string `json:"cpus"`
	// Noise is null on a copy.
	Noise *Noise `json:"noise"`
	// Reasons has the worst first: those with a measured share of the time, then settings by their
	// usual effect.
	Reasons []Reason `json:"reasons"`
	// Limits are the sources of noise that this machine does not let fettle control.
	Limits []string `json:"limits"`
}

// Reason is one source of noise.
type Reason struct {
	Name string `json:"name"`
	// Percent is the share of the time of the measured CPU that it takes; null if that cannot be
	// measured.
	Percent *float64 `json:"percent"`
	// Found is the measured figure, or the present value.
	Found string `json:"found"`
	// Remedy is what fettle quiet does; "" if it can do nothing.
	Remedy string `json:"remedy,omitempty"`
}

// Look finds out why a machine is noisy. On a live machine it measures for a time, on a copy it
// reads the settings only.
func Look(ctx context.Context, h *host.Host, s *State, plan *tune.Plan, lasting time.Duration, live bool) (*Check, error) {
	c := &Check{Schema: "fettle/quiet-check/v1", CPUs: s.Measured.String(), Reasons: []Reason{}, Limits: append([]string{}, s.Limits...)}
	if live {
		if err := c.measure(ctx, h, s, lasting); err != nil {
			return nil, err
		}
		slices.SortStableFunc(c.Reasons, func(a, b Reason) int { return cmp.Compare(share(b), share(a)) })
		c.jobs(s, h.Clock.Now())
	}
	c.settings(plan)
	c.Headline = c.summarize()
	return c, nil
}

func share(r Reason) float64 {
	if r.Percent == nil {
		return 0
	}
	return *r.Percent
}

// counters are the kernel's counters at one time.
type counters struct {
	cpus       map[string]activity.CPUTime
	columns    []int
	interrupts []activity.Interrupt
}

func read(h *host.Host) (c counters) {
	c.cpus, _ = activity.ParseCPUTimes(h.File("/proc/stat").Text)
	c.columns, c.interrupts, _ = activity.ParseInterrupts(h.File("/proc/interrupts").Text)
	return c
}

// leastPercent is the share of the time from which a reason is listed.
const leastPercent = 0.01

// measure measures the noise of the first CPU, and what takes its time meanwhile.
func (c *Check) measure(ctx context.Context, h *host.Host, s *State, lasting time.Duration) error {
	cpu := first(s.Measured)
	reading, before := activity.Begin(h), read(h)
	begun := time.Now()
	piece, err := Calibrate(cpu)
	if err != nil {
		return err
	}
	noise, err := piece.Measure(ctx, cpu, lasting)
	if err != nil {
		return err
	}
	took := time.Since(begun).Seconds()
	reading.LeaveOut = func(p activity.Consumer) bool { return !mayRunOn(h, cpu, p.PID) }
	sample, after := reading.End(), read(h)
	c.Noise = noise
	name := fmt.Sprint("cpu", cpu)
	was, is := before.cpus[name], after.cpus[name]
	if total := is.TotalS() - was.TotalS(); total > 0 {
		c.add("steal", 100*(is.StealS-was.StealS)/total, "the hypervisor ran something else", "")
		c.add("software interrupts", 100*(is.SoftIRQS-was.SoftIRQS)/total, loudest(before, after, cpu, took), moved(s, "moves interrupts to CPU "))
	}
	for _, n := range siblings(h, cpu).Minus(unit.CPUs(cpu)).Numbers() {
		remedy := ""
		if s.Second.Has(n) {
			remedy = "switches SMT off"
		}
		c.add("SMT sibling", busy(before, after, n), fmt.Sprintf("CPU %d shares the core, and was busy meanwhile", n), remedy)
	}
	c.add("other tasks", noise.WaitPercent, busiest(sample.Processes), moved(s, "moves tasks to CPU "))
	for _, m := range []struct{ value, name, unit string }{
		{"swap_in_pages_per_s", "swapping in", "pages/s"}, {"swap_out_pages_per_s", "swapping out", "pages/s"},
		{"direct_reclaims_per_s", "memory reclaim", "times/s"},
	} {
		if v := sample.Find(m.value); v != nil && v.Value != nil && *v.Value > 0 {
			c.Reasons = append(c.Reasons, Reason{Name: m.name, Found: unit.Digits(*v.Value) + " " + m.unit, Remedy: "sets vm.swappiness=0"})
		}
	}
	return nil
}

// busy returns the share of the time in which a CPU was busy, in percent.
func busy(before, after counters, cpu int) float64 {
	name := fmt.Sprint("cpu", cpu)
	was, is := before.cpus[name], after.cpus[name]
	if total := is.TotalS() - was.TotalS(); total > 0 {
		return 100 * (is.BusyS - was.BusyS) / total
	}
	return 0
}

// moved returns a remedy that needs CPUs for housekeeping.
func moved(s *State, text string) string {
	if s.Housekeeping.IsEmpty() {
		return ""
	}
	return text + s.Housekeeping.String()
}

func (c *Check) add(name string, percent float64, found, remedy string) {
	if percent >= leastPercent {
		c.Reasons = append(c.Reasons, Reason{name, &percent, found, remedy})
	}
}

// loudest names the interrupts of a CPU that came most often.
func loudest(before, after counters, cpu int, seconds float64) string {
	column := slices.Index(after.columns, cpu)
	if column < 0 || !slices.Equal(before.columns, after.columns) {
		return "interrupts unknown"
	}
	was, rate := map[string]float64{}, map[string]float64{}
	for _, i := range before.interrupts {
		was[i.Name] = i.Counts[column]
	}
	for _, i := range after.interrupts {
		if n := i.Counts[column] - was[i.Name]; n > 0 {
			words := strings.Fields(i.Text)
			name := i.Name
			if _, named := fmt.Sscan(i.Name, new(int)); named == nil && len(words) > 0 {
				name = words[len(words)-1] // the device
			}
			rate[name] += n / seconds
		}
	}
	return list(rate, "/s")
}

// mayRunOn reports whether a process may run on a CPU. The kernel binds some of its threads to other
// CPUs, such as kworker/0:1. Each thread of a program may have CPUs of its own, so those of its main
// thread do not count.
func mayRunOn(h *host.Host, cpu, pid int) bool {
	task, err := h.Sched.Task(pid)
	if err != nil || !task.Kernel {
		return true
	}
	cpus, err := h.Sched.Affinity(task.TaskID)
	return err != nil || cpus.Has(cpu)
}

// busiest names the processes that used most CPU time. 100 % is one CPU.
func busiest(all []activity.Consumer) string {
	used := map[string]float64{}
	for _, p := range all {
		if p.CPUPercent > 0 {
			used[p.Process()] = p.CPUPercent
		}
	}
	if len(used) == 0 {
		return "they ended meanwhile"
	}
	return list(used, " %")
}

// list returns the three highest values with their names.
func list(values map[string]float64, of string) string {
	names := slices.SortedFunc(maps.Keys(values), func(a, b string) int {
		return cmp.Or(cmp.Compare(values[b], values[a]), strings.Compare(a, b))
	})
	var out []string
	for _, n := range names[:min(3, len(names))] {
		out = append(out, n+" "+unit.Digits(values[n])+of)
	}
	return strings.Join(out, ", ")
}

// soon is how far ahead jobs are listed.
const soon = 10 * time.Minute

// jobs adds the timers that elapse soon.
func (c *Check) jobs(s *State, at time.Time) {
	for _, j := range s.jobs {
		if wait := j.Due.Sub(at); !j.Due.IsZero() && wait < soon {
			c.Reasons = append(c.Reasons, Reason{Name: j.Timer, Found: "starts " + j.Unit + " in " + max(0, wait).Round(time.Second).String(), Remedy: "stops the timer"})
		}
	}
}

// effects are the settings by their usual effect on measurements, largest first.
var effects = []struct{ end, name, why string }{
	{"/boost", "boost", "depends on heat and other CPUs"},
	{"/no_turbo", "boost", "depends on heat and other CPUs"},
	{"/smt/control", "SMT", "two threads share a core"},
	{"/scaling_governor", "governor", "follows the load"},
	{"kernel.numa_balancing", "NUMA balancing", "unmaps pages to see their users"},
	{"/transparent_hugepage/enabled", "transparent huge pages", "free ones depend on other programs"},
	{"/ksm/run", "KSM", "compares pages"},
	{"kernel.randomize_va_space", "ASLR", "each run has other addresses"},
	{"vm.swappiness", "swappiness", "memory may be swapped out"},
	{"kernel.nmi_watchdog", "NMI watchdog", "interrupts each CPU"},
	{"vm.stat_interval", "vmstat updates", "each CPU adds up counters"},
	{"kernel.timer_migration", "timer migration", "timers move to busy CPUs"},
}

// settings adds the settings that the plan changes.
func (c *Check) settings(plan *tune.Plan) {
	if plan == nil {
		return
	}
	for _, e := range effects {
		var steps []tune.Step
		for _, st := range plan.Steps {
			if st.Action == tune.Write && strings.HasSuffix(st.Setting.Name, e.end) {
				steps = append(steps, st)
			}
		}
		if len(steps) == 0 {
			continue
		}
		now := steps[0].Before.String()
		c.Reasons = append(c.Reasons, Reason{Name: e.name, Found: fmt.Sprintf("%s = %s: %s", path.Base(steps[0].Setting.Name), now, e.why), Remedy: "sets " + steps[0].Want.String()})
	}
	for _, st := range plan.Steps {
		if st.Action == tune.None && st.Verdict == plugin.Overridden {
			c.Limits = append(c.Limits, tune.SettingWords(st.Setting)+": "+st.Why)
		}
	}
}

// measured names the CPU whose noise was measured.
func (c *Check) measured(cpu int) string {
	name := fmt.Sprint("CPU ", cpu)
	if c.CPUs != strconv.Itoa(cpu) {
		name += ", the first of " + c.CPUs
	}
	return name
}

func (c *Check) summarize() (h ui.Headline) {
	if n := c.Noise; n != nil {
		h.Line("%s: work of %s takes %s longer than undisturbed on average, %s 1 time in 100, %s at worst", c.measured(n.CPU), unit.FormatSeconds(n.PieceS),
			h.Figure("mean_percent", n.MeanPercent, "%"), h.Figure("p99_percent", n.P99Percent, "%"), h.Figure("worst_percent", n.WorstPercent, "%"))
	}
	removed := 0
	for _, r := range c.Reasons {
		if r.Remedy != "" {
			removed++
		}
	}
	line := h.Count("reasons", len(c.Reasons), "reason") + " for noise, worst first"
	if len(c.Reasons) == 0 {
		line = "no reason for noise found"
	} else {
		line += "; fettle quiet removes or reduces " + h.Count("removed", removed, "")
	}
	h.Line("%s", line)
	return h
}

// Print prints the check.
func (c *Check) Print(s *ui.Screen) {
	ui.PrintHeadline(s, &c.Headline)
	if len(c.Reasons) > 0 {
		g := &ui.Grid{Columns: []ui.Column{{Head: "reason"}, {Head: "time", Right: true}, {Head: "fettle quiet"}, {Head: "found", Below: true}}}
		for _, r := range c.Reasons {
			percent := "-"
			if r.Percent != nil {
				percent = unit.Digits(*r.Percent) + " %"
			}
			g.Rows = append(g.Rows, []string{r.Name, percent, cmp.Or(r.Remedy, "cannot"), r.Found})
		}
		fmt.Fprintln(s.Out)
		g.Write(s)
	}
	printLimits(s, c.Limits)
}

func printLimits(s *ui.Screen, limits []string) {
	if len(limits) == 0 {
		return
	}
	fmt.Fprintln(s.Out)
	for _, l := range limits {
		ui.PrintLine(s, "· limit: %s", text.PrintableLine(l))
	}
}
