package slow

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact/activity"
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
	// Longer has the same value over a longer time: "5 min: 28 %; since boot: 3.1 %".
	Longer string `json:"longer,omitempty"`
	// Reason reports whether waiting was measured, too, so that this may be why the machine is
	// slow. It is never set for averages since boot.
	Reason bool `json:"reason"`
	// WaitPercent is the share of the time in which something waited, by the measure WaitMeasure.
	WaitPercent float64 `json:"wait_percent"`
	WaitMeasure string  `json:"wait_measure,omitempty"`
	// Because is the id of the cause from which this one follows, or "".
	Because string `json:"because,omitempty"`
	Source  string `json:"source"`
	// Next is a command that shows more.
	Next string `json:"next"`

	uses resource
}

// Diagnosis says why a machine is slow.
type Diagnosis struct {
	// Reason is the id of the most likely reason, the first of the causes, or "".
	Reason  string `json:"reason"`
	Summary string `json:"summary"`
	// Causes are the values above their limits: the most likely reason first, then by the time
	// that was waited, then those without measured waiting.
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
	d.Summary = d.summary()
	return d
}

// has reports whether a value is known: in the sample, or without one since boot.
func has(s *activity.Sample, v activity.Value) bool {
	return v.Value != nil || s.DurationS == 0 && v.SinceBoot != nil
}

// value returns the first value of a measure: that of the machine, or that of the item with the
// highest.
func value(s *activity.Sample, name string) (activity.Value, bool) { return valueOf(s, name, "") }

// valueOf returns the value of an item, or else that of the machine.
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

// above returns the cause if a value is above the limit: that of the item for which the most
// waiting was measured. known reports whether there is a value.
func (c *candidate) above(s *activity.Sample) (worst *Cause, known bool) {
	if more, ok := value(s, c.and); c.and != "" && (!ok || amount(more) < 1) {
		_, known = value(s, c.measure)
		return nil, known
	}
	for _, v := range s.Values {
		if v.Name != c.measure || !has(s, v) {
			continue
		}
		known = true
		if !(amount(v) > c.limit) {
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
	out := Cause{ID: c.id, Measure: c.measure, Item: v.Item, Value: n, Limit: c.limit, Source: c.source, Next: c.next, uses: c.uses,
		Text: c.title + of(v.Item) + " " + show(c.measure, n), Longer: longer(s, v)}
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

// longer says what a value was over five minutes and since boot.
func longer(s *activity.Sample, v activity.Value) string {
	var parts []string
	if base, ok := strings.CutSuffix(v.Name, "_percent"); ok {
		if avg, known := value(s, base+"_avg300_percent"); known {
			parts = append(parts, "5 min: "+show(v.Name, amount(avg)))
		}
	}
	switch {
	case s.DurationS == 0:
	case v.Total != nil:
		parts = append(parts, "since boot: "+number(*v.Total))
	case v.SinceBoot != nil:
		parts = append(parts, "since boot: "+show(v.Name, *v.SinceBoot))
	}
	return strings.Join(parts, "; ")
}

// rank sorts the causes by the time that was waited, and puts consequences behind their cause.
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
		case c.Reason && c.Because == "":
			return 0
		case c.Reason:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(d.Causes, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(level(&a), level(&b)), cmp.Compare(b.WaitPercent, a.WaitPercent))
	})
}

// saturated reports whether the CPUs had hardly any idle time.
func (d *Diagnosis) saturated() bool {
	busy, known := value(d.Sample, "cpu_busy_percent")
	return known && amount(busy) >= 90
}

// when names the time of the sample: "in the last 2 s".
func (d *Diagnosis) when() string {
	if d.Sample.DurationS > 0 {
		return "in the last " + number(math.Round(d.Sample.DurationS*10)/10) + " s"
	}
	if d.Sample.UptimeS > 0 {
		return "on average since boot (" + unit.FormatSeconds(math.Round(d.Sample.UptimeS)) + ")"
	}
	return "on average since boot"
}

// evidence returns a cause with its limit and its value over a longer time: "CPU steal 31 %
// (limit 10 %; since boot: 2.1 %)".
func (c *Cause) evidence(when string) string {
	text := c.Text + when + " (limit " + show(c.Measure, c.Limit)
	if c.Longer != "" {
		text += "; " + c.Longer
	}
	return text + ")"
}

// summary returns the answer in one sentence.
func (d *Diagnosis) summary() string {
	switch {
	case d.Reason != "":
		return "Most likely reason that this machine is slow: " + d.Causes[0].evidence(" "+d.when())
	case d.Sample.DurationS == 0 && len(d.Causes) > 0:
		return "Above a limit " + d.when() + ": " + d.Causes[0].evidence("")
	case len(d.Causes) > 0:
		return "Nothing here explains slowness: no waiting was measured " + d.when() + "; above a limit: " + d.Causes[0].evidence("")
	}
	var parts, missing []string
	for _, m := range []struct{ name, title string }{
		{"cpu_busy_percent", "CPUs busy"}, {"cpu_steal_percent", "steal"}, {"cpu_some_percent", "CPU pressure"},
		{"memory_some_percent", "memory pressure"}, {"io_some_percent", "I/O pressure"},
	} {
		if v, known := value(d.Sample, m.name); known {
			parts = append(parts, m.title+" "+show(m.name, amount(v)))
		} else {
			missing = append(missing, m.title)
		}
	}
	text := "Nothing here explains slowness; measured " + d.when() + ": " + strings.Join(parts, ", ")
	if len(parts) == 0 {
		return "Whether something is slow is unknown: the counters of the kernel could not be read"
	}
	if len(missing) > 0 {
		text += "; not measured: " + strings.Join(missing, ", ")
	}
	return text
}

// show formats a value with the unit that the name of its measure ends with.
func show(measure string, v float64) string {
	switch {
	case strings.HasSuffix(measure, "_percent"):
		return number(v) + " %"
	case strings.HasSuffix(measure, "_per_s"):
		return number(v) + "/s"
	case strings.HasSuffix(measure, "_ms"):
		return number(v) + " ms"
	}
	return number(v)
}

// number formats a number with three significant digits and without an exponent.
func number(v float64) string {
	if v == 0 || math.Abs(v) < 0.001 {
		return "0"
	}
	scale := math.Pow(10, 2-math.Floor(math.Log10(math.Abs(v))))
	if math.Abs(v) >= 1000 {
		scale = 1
	}
	return strconv.FormatFloat(math.Round(v*scale)/scale, 'f', -1, 64)
}
