package power

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// column is a kind of value: a column of the table, and a metric.
type column struct {
	head   string
	metric string // name and unit of the metric, fettle_power_...
	help   string
	get    func(*Values) *float64
	scale  float64 // of the metric, in the table
	places int     // decimals in the table
	wide   bool    // only with --wide
	// notable columns are omitted without --wide if all values are 0.
	notable  bool
	optional bool // omitted on a narrow terminal
}

// columns lists all columns except those of the idle states, which are inserted after the
// frequency.
var columns = []column{
	{"busy %", "busy_ratio", "Time in which the CPU worked, without what the hypervisor took.", func(v *Values) *float64 { return scaled(v.BusyPercent, 0.01) }, 100, 1, false, false, false},
	{"steal %", "steal_ratio", "Time that the hypervisor took.", func(v *Values) *float64 { return scaled(v.StealPercent, 0.01) }, 100, 1, false, true, false},
	{"MHz", "frequency_hertz", "CPU frequency.", func(v *Values) *float64 { return v.FrequencyHz }, 1e-6, 0, false, false, false},
	{"irq/s", "interrupts_per_second", "Interrupts.", func(v *Values) *float64 { return v.InterruptsPerS }, 1, 0, false, false, true},
	{"wake/s", "wakeups_per_second", "Ends of idle states.", func(v *Values) *float64 { return v.WakeupsPerS }, 1, 0, false, false, true},
	{"timer/s", "timer_interrupts_per_second", "Interrupts of local timers.", func(v *Values) *float64 { return v.TimersPerS }, 1, 0, true, false, false},
	{"resched/s", "reschedule_interrupts_per_second", "Wake-ups by other CPUs.", func(v *Values) *float64 { return v.ReschedulesPerS }, 1, 0, true, false, false},
	{"softirq/s", "softirqs_per_second", "Software interrupts.", func(v *Values) *float64 { return v.SoftIRQsPerS }, 1, 0, true, false, false},
	{"heat", "throttled", "Times at which heat lowered the frequency.", func(v *Values) *float64 { return v.Throttled }, 1, 0, false, true, false},
	{"°C", "temperature_celsius", "Highest temperature.", func(v *Values) *float64 { return v.TemperatureC }, 1, 0, false, false, false},
	{"W", "power_watts", "Power of packages and memory.", func(v *Values) *float64 { return v.PowerW }, 1, 1, false, false, false},
}

// afterFrequency is the number of columns before the columns of the idle states.
const afterFrequency = 3

func scaled(v *float64, by float64) *float64 {
	if v == nil {
		return nil
	}
	return new(*v * by)
}

// row is a line of the table.
type row struct {
	pkg, core, cpu string
	*Values
}

// rowsShown is the number of CPUs shown without --all.
const rowsShown = 16

// rows returns the lines of a sample: the machine, its packages if there are several, and CPUs in
// ascending order. If there are more than most CPUs, it returns the busiest ones.
func rows(s *Sample, most int) (out []row, left int) {
	out = append(out, row{"all", "", "", &s.Machine})
	if len(s.Packages) > 1 {
		for i := range s.Packages {
			out = append(out, row{strconv.Itoa(s.Packages[i].Package), "all", "", &s.Packages[i].Values})
		}
	}
	number := func(n int) string {
		if n < 0 {
			return "?"
		}
		return strconv.Itoa(n)
	}
	cpus := make([]*CPU, len(s.CPUs))
	for i := range s.CPUs {
		cpus[i] = &s.CPUs[i]
	}
	if len(cpus) > most {
		slices.SortStableFunc(cpus, func(a, b *CPU) int {
			return cmp.Compare(value(b.BusyPercent), value(a.BusyPercent))
		})
		left = len(cpus) - most
		cpus = cpus[:most]
	}
	for _, c := range cpus {
		out = append(out, row{number(c.Package), number(c.Core), strconv.Itoa(c.CPU), &c.Values})
	}
	return out, left
}

func value(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// statesShown is the number of idle states with a column of their own without --wide.
const statesShown = 3

// stateColumns returns the columns of the idle states: the entered ones if they are known, else the
// requested ones. Those with most time are shown, the others only with --wide.
func stateColumns(r *Report) (out []column) {
	s := r.Last()
	hardware := map[string]float64{} // the longest time of a package
	for _, p := range s.Packages {
		for name, percent := range p.EnteredPercent {
			hardware[name] = max(hardware[name], percent)
		}
	}
	if len(hardware) > 0 {
		out = shownStates(slices.Sorted(maps.Keys(hardware)), hardware, "hw ", func(v *Values) map[string]float64 { return v.EnteredPercent })
	}
	requested := shownStates(r.Settings.IdleStates, s.Machine.RequestedPercent, "", func(v *Values) map[string]float64 { return v.RequestedPercent })
	for i := range requested {
		requested[i].wide = requested[i].wide || len(hardware) > 0
	}
	return append(out, requested...)
}

// shownStates returns a column for each state with a known share. Without --wide, only the states
// with most time are shown.
func shownStates(names []string, share map[string]float64, prefix string, of func(*Values) map[string]float64) (out []column) {
	most := slices.SortedStableFunc(slices.Values(names), func(a, b string) int { return cmp.Compare(share[b], share[a]) })
	for _, name := range names {
		if _, known := share[name]; !known {
			continue
		}
		wide := share[name] < 0.05 || slices.Index(most, name) >= statesShown
		out = append(out, column{head: prefix + name + " %", scale: 1, places: 1, wide: wide, get: func(v *Values) *float64 {
			if percent, ok := of(v)[name]; ok {
				return &percent
			}
			return nil
		}})
	}
	return out
}

// grid returns the table of a report's last sample, with at most most CPUs, and the number of CPUs
// left out.
func grid(r *Report, most int) (g ui.Grid, left int) {
	lines, left := rows(r.Last(), most)
	g.Columns = []ui.Column{{Head: "pkg", Right: true}, {Head: "core", Right: true}, {Head: "CPU", Right: true}}
	g.Rows = make([][]string, len(lines))
	for i, l := range lines {
		g.Rows[i] = []string{l.pkg, l.core, l.cpu}
	}
	all := slices.Concat(columns[:afterFrequency], stateColumns(r), columns[afterFrequency:])
	for _, c := range all {
		known, some := false, false
		cells := make([]string, len(lines))
		for i, l := range lines {
			v := c.get(l.Values)
			if v == nil {
				cells[i] = ""
				continue
			}
			cells[i] = unit.Decimals(*v*c.scale, c.places)
			known, some = true, some || cells[i] != "0"
		}
		if !known {
			continue
		}
		g.Columns = append(g.Columns, ui.Column{Head: c.head, Right: true, Optional: c.optional, Wide: c.wide || c.notable && !some})
		for i := range lines {
			g.Rows[i] = append(g.Rows[i], cells[i])
		}
	}
	return g, left
}

// Print prints a report: the headline, the table of the last sample, and the missing values. With
// all, it prints every CPU.
func Print(s *ui.Screen, r *Report, all bool) {
	ui.PrintHeadline(s, &r.Headline)
	most := rowsShown
	if all {
		most = len(r.Last().CPUs)
	}
	for i := range r.Samples {
		part := *r
		part.Samples = r.Samples[i : i+1]
		g, left := grid(&part, most)
		if len(g.Columns) == 3 {
			continue // nothing is known of any CPU
		}
		fmt.Fprintln(s.Out)
		if len(r.Samples) > 1 {
			ui.PrintLine(s, "%s:", part.Last().Time.Format(time.TimeOnly+"Z"))
		}
		g.Write(s)
		if left > 0 {
			ui.PrintLine(s, "%s less busy not shown (--all)", text.Count(left, "CPU"))
		}
	}
	if line := missingLine(r.Missing, s.Wide); line != "" {
		fmt.Fprintln(s.Out)
		ui.PrintLine(s, "%s", line)
	}
}

// LiveScreen renders a report in width columns and height lines.
func LiveScreen(r *Report, watched time.Duration, width, height int) string {
	var b bytes.Buffer
	say := func(line string) {
		if runes := []rune(line); width > 0 && len(runes) > width {
			line = string(runes[:width-1]) + "…"
		}
		fmt.Fprintln(&b, ui.Printable(line))
	}
	say(fmt.Sprintf("watching for %s, every %s; stop with Ctrl-C", unit.FormatSeconds(watched.Round(time.Second).Seconds()), unit.FormatSeconds(r.Last().IntervalS)))
	for _, l := range r.Headline.Lines {
		say(l)
	}
	missing := missingLine(r.Missing, false)
	room := height - strings.Count(b.String(), "\n") - 2 // an empty line and the heads
	if missing != "" {
		room--
	}
	above := 1 // the machine and its packages
	if n := len(r.Last().Packages); n > 1 {
		above += n
	}
	if room < above+len(r.Last().CPUs) {
		room-- // for the number of the others
	}
	most := max(0, room-above)
	g, left := grid(r, most)
	if len(g.Rows) > max(0, room) {
		g.Rows = g.Rows[:max(0, room)]
	}
	if room > 0 {
		fmt.Fprintln(&b)
		g.Write(&ui.Screen{Out: &b, Format: ui.Table, Width: width})
	}
	if left > 0 && room >= 0 {
		say(text.Count(left, "CPU") + " less busy not shown")
	}
	if missing != "" {
		say(missing)
	}
	return b.String()
}
