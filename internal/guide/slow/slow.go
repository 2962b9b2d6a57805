package slow

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/fact/activity"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Cause is a value above its limit.
type Cause struct {
	ID string `json:"id"` // such as cpu-steal
	// Text names the value: "CPU steal 31 %".
	Text    string  `json:"text"`
	Measure string  `json:"measure"`
	Item    string  `json:"item,omitempty"`
	Value   float64 `json:"value"`
	Limit   float64 `json:"limit"` // exceeded
	// Avg300 is the five-minute average, for pressure. SinceBoot is the average since boot. Total
	// is the number of events since boot.
	Avg300    *float64 `json:"avg300,omitempty"`
	SinceBoot *float64 `json:"since_boot,omitempty"`
	Total     *float64 `json:"total,omitempty"`
	// AwaitMS is the mean time of a request, for a disk.
	AwaitMS *float64 `json:"await_ms,omitempty"`
	// Reason is true if waiting was measured too, so that this may be why the machine is slow. It
	// is never true for averages since boot.
	Reason bool `json:"reason"`
	// WaitPercent is the share of time in percent in which a task waited, by the measure
	// WaitMeasure.
	WaitPercent float64 `json:"wait_percent"`
	WaitMeasure string  `json:"wait_measure,omitempty"`
	// Because is the id of the cause that this one follows from, or "".
	Because string `json:"because,omitempty"`
	Source  string `json:"source"`
	// Next is a command that shows more.
	Next string `json:"next"`

	uses resource
	last bool
}

// Diagnosis is the result of Diagnose: why a machine is slow.
type Diagnosis struct {
	// Reason is the id of the most likely reason, which is the first cause, or "".
	Reason string `json:"reason"`
	// Headline is the answer, with its evidence.
	Headline ui.Headline `json:"headline"`
	// Causes are the values above their limits: first the most likely reason, then by time waited,
	// then those without measured waiting.
	Causes []Cause `json:"causes"`
	// Who are the cgroups and processes that used and waited the most.
	Who    []Role           `json:"who"`
	Sample *activity.Sample `json:"sample"`
}

// Diagnose compares a sample with the limits.
func Diagnose(s *activity.Sample) *Diagnosis {
	d := &Diagnosis{Sample: s, Causes: []Cause{}, Who: []Role{}}
	measured := map[string]bool{}
	for _, c := range candidates {
		if measured[c.id] {
			continue
		}
		above, known := c.above(s)
		measured[c.id] = known
		if above != nil {
			d.Causes = append(d.Causes, *above)
		}
	}
	d.rank()
	if len(d.Causes) > 0 && d.Causes[0].Reason {
		d.Reason = d.Causes[0].ID
		d.Who = roles(s, d.Causes[0].uses)
	}
	d.AppendTo(&d.Headline)
	return d
}

// has reports whether a value is known: in the sample or, without a sample, since boot.
func has(s *activity.Sample, v activity.Value) bool {
	return v.Value != nil || s.DurationS == 0 && v.SinceBoot != nil
}

// value returns the machine's value of a measure, or else the highest value of an item.
func value(s *activity.Sample, name string) (activity.Value, bool) { return valueOf(s, name, "") }

// valueOf returns an item's value, or else the machine's.
func valueOf(s *activity.Sample, name, item string) (first activity.Value, known bool) {
	for _, v := range s.Values {
		if v.Name != name || !has(s, v) {
			continue
		}
		if v.Item == item {
			return v, true
		}
		if !known && (item == "" || v.Item == "") {
			first, known = v, true
		}
	}
	return first, known
}

func amount(v activity.Value) float64 {
	if v.Value != nil {
		return *v.Value
	}
	return *v.SinceBoot
}

// above returns the cause if a value is above the limit. Among items it uses the one with the most
// measured waiting. known is false if there is no value.
func (c *candidate) above(s *activity.Sample) (worst *Cause, known bool) {
	for _, v := range s.Values {
		if v.Name != c.measure || !has(s, v) {
			continue
		}
		known = true
		if !(amount(v) > c.limit) {
			continue
		}
		if more, ok := valueOf(s, c.and, v.Item); c.and != "" && (!ok || amount(more) < 1) {
			continue
		}
		if one := c.cause(s, v); worst == nil || one.WaitPercent > worst.WaitPercent {
			worst = &one
		}
	}
	return worst, known
}

func (c *candidate) cause(s *activity.Sample, v activity.Value) Cause {
	n := amount(v)
	out := Cause{ID: c.id, Measure: c.measure, Item: v.Item, Value: n, Limit: c.limit, Source: c.source, Next: c.next, uses: c.uses, last: c.last,
		Text: c.title + of(v.Item) + " " + show(c.measure, n), Total: v.Total}
	if show(c.measure, n) == unit.Digits(n) {
		out.Text = c.title + of(v.Item) + ": " + unit.Digits(n)
	}
	if s.DurationS > 0 {
		out.SinceBoot = v.SinceBoot
	} else if v.Total != nil && n < 0.01 { // a few events: their rate says nothing
		out.Text = c.title + of(v.Item) + " " + unit.Digits(*v.Total)
	}
	if base, ok := strings.CutSuffix(v.Name, "_percent"); ok {
		if avg, known := value(s, base+"_avg300_percent"); known {
			out.Avg300 = avg.Value
		}
	}
	if await, ok := valueOf(s, "disk_await_ms", v.Item); ok && c.id == "disk" {
		ms := amount(await)
		out.AwaitMS = &ms
	}
	if at := strings.LastIndex(v.Item, " (pid "); at >= 0 {
		out.Next = strings.ReplaceAll(c.next, "PID", strings.TrimSuffix(v.Item[at+len(" (pid "):], ")"))
	}
	for _, w := range c.waits {
		waited, known := valueOf(s, w.measure, v.Item)
		if !known {
			continue
		}
		out.WaitMeasure, out.WaitPercent = w.measure, min(100, amount(waited)*w.percent)
		out.Reason = s.DurationS > 0 && amount(waited)*w.percent >= w.least
		if w.measure == "listen_waiting" {
			out.Item = waited.Item
			out.Text += " (port " + waited.Item + ")"
		}
		break
	}
	return out
}

func of(item string) string {
	if item == "" {
		return ""
	}
	if name := cmp.Or(activity.Container(item), activity.Unit(item)); name != "" {
		item = name
	}
	return " of " + item
}

// rank sorts the causes by time waited, and puts consequences after their cause.
func (d *Diagnosis) rank() {
	reasons := map[string]bool{}
	for _, c := range d.Causes {
		reasons[c.ID] = c.Reason
	}
	for i := range d.Causes {
		c := &d.Causes[i]
		for _, by := range candidates {
			if reasons[by.id] && by.id != c.ID && slices.Contains(by.explains, c.ID) {
				c.Because = by.id
				break
			}
		}
		if c.ID == "cpu" && c.Because == "" && reasons["cpu-throttled"] && !d.saturated() {
			c.Because = "cpu-throttled" // throttled tasks count as waiting for a CPU
		}
	}
	level := func(c *Cause) int {
		switch {
		case !c.Reason:
			return 2
		case c.Because != "" || c.last:
			return 1
		case c.ID == "cpu-throttled" && reasons["cpu"] && d.saturated():
			return 1 // a limit slows one cgroup, busy CPUs slow all
		}
		return 0
	}
	slices.SortStableFunc(d.Causes, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(level(&a), level(&b)), cmp.Compare(b.WaitPercent, a.WaitPercent))
	})
}

// saturated reports whether the CPUs had almost no idle time.
func (d *Diagnosis) saturated() bool {
	busy, known := value(d.Sample, "cpu_busy_percent")
	return known && amount(busy) >= 90
}

// evidence returns a cause with its limit and its value over a longer time: "CPU steal 31 % in
// the last 2 s (limit 10 %; since boot: 2.13 %)". It records the figures in h.
func (c *Cause) evidence(when string, h *ui.Headline) string {
	h.Value(c.Measure, c.Value, "")
	limit := "0" // a count, whatever its unit is
	if c.Limit > 0 {
		limit = show(c.Measure, c.Limit)
	}
	text := c.Text
	if c.AwaitMS != nil {
		text += ", " + h.Value("disk_await_ms", *c.AwaitMS, show("_ms", *c.AwaitMS)) + " a request"
		if when != "" {
			text += ","
		}
	}
	text += when + " (limit " + h.Value(figure(c.Measure, "limit"), c.Limit, limit)
	if c.Avg300 != nil {
		text += "; 5 min: " + h.Value(figure(c.Measure, "avg300"), *c.Avg300, show(c.Measure, *c.Avg300))
	}
	switch {
	case c.Total != nil:
		text += "; since boot: " + h.Value(strings.TrimSuffix(c.Measure, "_per_s")+"_since_boot", *c.Total, unit.Digits(*c.Total))
	case c.SinceBoot != nil:
		text += "; since boot: " + h.Value(figure(c.Measure, "since_boot"), *c.SinceBoot, show(c.Measure, *c.SinceBoot))
	}
	return text + ")"
}

// figure returns the name of a figure with the unit at the end of a measure's name.
func figure(measure, what string) string {
	for _, unit := range []string{"_percent", "_per_s", "_ms"} {
		if base, ok := strings.CutSuffix(measure, unit); ok {
			return base + "_" + what + unit
		}
	}
	return measure + "_" + what
}

// when returns the time of the sample as text: "in the last 2 s".
func (d *Diagnosis) when(h *ui.Headline) string {
	if s := d.Sample.DurationS; s > 0 {
		return "in the last " + h.Figure("sample_s", math.Round(s*10)/10, "s")
	}
	if s := d.Sample.UptimeS; s > 0 {
		return "on average since boot (" + h.Value("uptime_s", s, unit.FormatSeconds(math.Round(s))) + ")"
	}
	return "on average since boot"
}

// AppendTo appends the result to a headline, as one or two lines.
func (d *Diagnosis) AppendTo(h *ui.Headline) {
	switch {
	case d.Reason != "":
		h.Line("Most likely reason that this machine is slow: %s", d.Causes[0].evidence(" "+d.when(h), h))
	case d.Sample.DurationS == 0 && len(d.Causes) > 0:
		h.Line("Above a limit %s: %s", d.when(h), d.Causes[0].evidence("", h))
	case len(d.Causes) > 0:
		h.Line("No cause of slowness found: no waiting measured %s; above a limit: %s", d.when(h), d.Causes[0].evidence("", h))
	default:
		d.appendMeasured(h)
	}
}

// appendMeasured appends the statement that nothing explains slowness, with the measured values.
func (d *Diagnosis) appendMeasured(h *ui.Headline) {
	var parts, missing []string
	for _, m := range []struct{ name, title string }{
		{"cpu_busy_percent", "CPUs busy"}, {"cpu_steal_percent", "steal"}, {"cpu_some_percent", "pressure (some) on CPUs"},
		{"memory_some_percent", "on memory"}, {"io_some_percent", "on I/O"}, {"lock_waiting_threads", "threads waiting for a mutex"},
	} {
		if m.name == "lock_waiting_threads" && d.Sample.DurationS == 0 {
			continue
		}
		if v, known := value(d.Sample, m.name); known {
			parts = append(parts, m.title+" "+h.Value(m.name, amount(v), show(m.name, amount(v))))
		} else {
			missing = append(missing, m.title)
		}
	}
	if len(parts) == 0 {
		h.Line("Slowness unknown: the kernel's counters could not be read")
		return
	}
	text := "Measured " + d.when(h) + ": " + strings.Join(parts, ", ")
	if len(missing) > 0 {
		text += "; not measured: " + strings.Join(missing, ", ")
	}
	h.Line("No cause of slowness found")
	h.Line("%s", text)
}

// show formats a value with the unit at the end of its measure's name.
func show(measure string, v float64) string {
	switch {
	case strings.HasSuffix(measure, "_percent"):
		return unit.Digits(v) + " %"
	case strings.HasSuffix(measure, "_per_s"):
		return unit.Digits(v) + "/s"
	case strings.HasSuffix(measure, "_ms"):
		return unit.Digits(v) + " ms"
	}
	return unit.Digits(v)
}
