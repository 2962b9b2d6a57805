package power

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// atLimit is the share of its power limit from which a package counts as limited by it.
const atLimit = 0.97

// headline returns one line on the CPUs' activity and one on their settings.
func headline(r *Report) (h ui.Headline) {
	s := r.Last()
	v := &s.Machine
	var did []string
	say := func(before, name string, v *float64, unit, after string) {
		if v != nil {
			did = append(did, before+h.Figure(name, rounded(*v), unit)+after)
		}
	}
	if c := r.Command; c != nil {
		took := h.Value("duration_s", c.DurationS, unit.FormatSeconds(c.DurationS))
		if say("the command used ", "energy_j", c.EnergyJ, "J", " in "+took); c.EnergyJ == nil {
			did = append(did, "the command took "+took)
		}
	}
	cpus := h.Count("cpus", len(s.CPUs), "CPU")
	if say(cpus+" busy ", "cpu_busy_percent", v.BusyPercent, "%", ""); v.BusyPercent == nil {
		did = append(did, cpus)
	}
	if value(v.StealPercent) >= 0.05 {
		say("steal ", "cpu_steal_percent", v.StealPercent, "%", "")
	}
	if hz := cmp.Or(v.BusyFrequencyHz, v.FrequencyHz); hz != nil {
		say("", "frequency_mhz", new(*hz/1e6), "MHz", "")
	}
	say("", "power_w", v.PowerW, "W", "")
	say("", "temperature_c", v.TemperatureC, "°C", "")
	switch n, total := v.Throttled, v.ThrottledSinceBoot; {
	case n != nil && *n == 0:
		did = append(did, "not throttled by heat")
	case n != nil:
		did = append(did, "throttled by heat "+h.Count("throttled", int(*n), "time"))
	case total != nil:
		did = append(did, "throttled by heat "+h.Count("throttled_since_boot", int(*total), "time")+" since boot")
	}
	for _, p := range s.Packages {
		if p.PowerW != nil && p.PowerLimitW != nil && *p.PowerW >= atLimit**p.PowerLimitW {
			did = append(did, fmt.Sprintf("package %d is at its power limit (%s W, limit %s W)", p.Package, unit.Digits(rounded(*p.PowerW)), unit.Digits(*p.PowerLimitW)))
		}
	}
	h.Line("%s", strings.Join(did, ", "))
	h.Line("%s", strings.Join(settingsWords(&r.Settings), ", "))
	return h
}

// rounded rounds to one decimal, or to an integer from 100 on, which unit.Digits prints in full.
func rounded(v float64) float64 {
	if v >= 100 {
		return math.Round(v)
	}
	return math.Round(10*v) / 10
}

// settingsWords returns the settings as short phrases.
func settingsWords(s *Settings) (out []string) {
	words := func(label string, f fact.Fact[[]string], absent string) {
		switch v, ok := f.Get(); {
		case ok:
			out = append(out, label+" "+strings.Join(v, " and "))
		case f.Unknown() != "":
			out = append(out, label+" unknown")
		case absent != "":
			out = append(out, absent)
		}
	}
	words("governor", s.Governors, "no governor (no cpufreq)")
	if name, ok := s.Driver.Get(); ok {
		out[len(out)-1] += " (" + name + ")"
	}
	words("EPP", s.Preferences, "")
	if on, ok := s.Boost.Get(); ok {
		out = append(out, map[bool]string{true: "boost on", false: "boost off"}[on])
	}
	switch name, ok := s.IdleDriver.Get(); {
	case ok:
		out = append(out, "idle driver "+name)
	case s.IdleDriver.Unknown() != "":
		out = append(out, "idle driver unknown")
	default:
		out = append(out, "no idle driver")
	}
	if len(s.DisabledStates) > 0 {
		out = append(out, "idle states disabled: "+strings.Join(s.DisabledStates, ", "))
	}
	return out
}

// missingLine names in one sentence what has no source, "no frequency: no cpufreq; no power: no
// powercap", or returns "". Values with the same reason stand together. Without reasons it only
// names the values.
func missingLine(all []Missing, withReasons bool) string {
	var names, reasons []string
	values := map[string]string{}
	for _, m := range all {
		names = append(names, m.What)
		if values[m.Why] == "" {
			reasons = append(reasons, m.Why)
			values[m.Why] = "no " + m.What
		} else {
			values[m.Why] += ", no " + m.What
		}
	}
	if len(all) > 1 && !withReasons {
		return text.Printable("not reported here: " + strings.Join(names, ", ") + " (--wide: why)")
	}
	for i, why := range reasons {
		reasons[i] = values[why] + ": " + why
	}
	return text.Printable(strings.Join(reasons, "; "))
}
