package power

import (
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
	say := func(format string, args ...any) { did = append(did, fmt.Sprintf(format, args...)) }
	if c := r.Command; c != nil {
		took := h.Value("duration_s", c.DurationS, unit.FormatSeconds(c.DurationS))
		if c.EnergyJ != nil {
			say("the command used %s in %s", h.Figure("energy_j", rounded(*c.EnergyJ), "J"), took)
		} else {
			say("the command took %s", took)
		}
	}
	if v.BusyPercent != nil {
		steal := ""
		if v.StealPercent != nil && *v.StealPercent >= 0.05 {
			steal = ", steal " + h.Figure("cpu_steal_percent", rounded(*v.StealPercent), "%")
		}
		say("%s busy %s%s", h.Count("cpus", len(s.CPUs), "CPU"), h.Figure("cpu_busy_percent", rounded(*v.BusyPercent), "%"), steal)
	} else {
		say("%s", h.Count("cpus", len(s.CPUs), "CPU"))
	}
	if v.FrequencyHz != nil {
		say("%s", h.Figure("frequency_mhz", rounded(*v.FrequencyHz/1e6), "MHz"))
	}
	if v.PowerW != nil {
		say("%s", h.Figure("power_w", rounded(*v.PowerW), "W"))
	}
	if v.TemperatureC != nil {
		say("%s", h.Figure("temperature_c", rounded(*v.TemperatureC), "°C"))
	}
	did = append(did, throttlingWords(&h, s)...)
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

// throttlingWords names the causes that lowered the frequency.
func throttlingWords(h *ui.Headline, s *Sample) (out []string) {
	switch n := s.Machine.Throttled; {
	case n != nil && *n > 0:
		out = append(out, "throttled by heat "+times(h.Figure("throttled", *n, "")))
	case n != nil:
		out = append(out, "not throttled by heat")
	case s.Machine.ThrottledSinceBoot != nil:
		out = append(out, "throttled by heat "+times(h.Figure("throttled_since_boot", *s.Machine.ThrottledSinceBoot, ""))+" since boot")
	}
	for _, p := range s.Packages {
		if p.PowerW != nil && p.PowerLimitW != nil && *p.PowerW >= atLimit**p.PowerLimitW {
			out = append(out, fmt.Sprintf("package %d is at its power limit (%s W, limit %s W)", p.Package, unit.Digits(rounded(*p.PowerW)), unit.Digits(*p.PowerLimitW)))
		}
	}
	return out
}

func times(n string) string {
	if n == "1" {
		return "once"
	}
	return n + " times"
}

// settingsWords returns the settings as short phrases.
func settingsWords(s *Settings) (out []string) {
	words := func(label string, f fact.Fact[[]string], none string) {
		v, ok := f.Get()
		switch {
		case ok:
			out = append(out, label+" "+strings.Join(v, " and "))
		case f.Unknown() != "":
			out = append(out, label+" unknown")
		case none != "":
			out = append(out, none)
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
	if len(all) > 1 && !withReasons {
		var names []string
		for _, m := range all {
			names = append(names, m.What)
		}
		return text.Printable("not reported here: " + strings.Join(names, ", ") + " (--wide: why)")
	}
	var reasons []string
	values := map[string][]string{}
	for _, m := range all {
		if values[m.Why] == nil {
			reasons = append(reasons, m.Why)
		}
		values[m.Why] = append(values[m.Why], m.What)
	}
	for i, why := range reasons {
		reasons[i] = "no " + strings.Join(values[why], ", no ") + ": " + why
	}
	return text.Printable(strings.Join(reasons, "; "))
}
