package cpu

import (
	"context"
	"strconv"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/setting"
)

// What holds where a profile does not say.
const (
	loadThreshold = 0.2
	latencyLow    = "100"
	latencyHigh   = "1000"
)

// limitFor is the wake-up latency to allow at a load: TuneD's rule. It needs no
// band against flapping, because the load is a mean over a minute.
func limitFor(load, threshold float64, low, high setting.Value) setting.Value {
	if load < threshold {
		return high
	}
	return low
}

// dynamic lets the limit on wake-up latency follow the load, unless a unit's
// other options set it.
func dynamic(_ context.Context, r *plugin.Request) ([]plugin.Loop, []plugin.Item, error) {
	s := setting.Setting{Kind: KindName, Name: DMALatency}
	var items []plugin.Item
	given := false
	for _, name := range []string{"load_threshold", "latency_low", "latency_high"} {
		if o, ok := r.Option(name); ok {
			given = true
			if more, later := firstOnly(r, s, o); later {
				items = append(items, more...)
			}
		}
	}
	if r.Later {
		return nil, items, nil
	}
	for _, name := range []string{"force_latency", "pm_qos_resume_latency_us"} {
		if _, ok := r.Option(name); ok {
			return nil, nil, nil
		}
	}
	if !plugin.Exists(r.Host, dmaLatencyFile) {
		if !given {
			return nil, nil, nil
		}
		o, _ := r.Option("load_threshold")
		return nil, plugin.Lacks(r.Host, s, o, "there is no %s here: this kernel is built without CPU idle management, or this is a container", dmaLatencyFile), nil
	}
	threshold, bad := r.Threshold(s, "load_threshold", loadThreshold)
	low, more := limit(r, s, "latency_low", latencyLow)
	bad = append(bad, more...)
	high, more := limit(r, s, "latency_high", latencyHigh)
	if bad = append(bad, more...); len(bad) > 0 {
		return nil, bad, nil
	}
	return []plugin.Loop{{
		Places: []plugin.Varying{{
			Setting: s, Values: []setting.Value{low, high},
			Reason: plugin.UnitReason(r.Unit, "the wake-up latency follows the load"),
		}},
		Next: func(context.Context, time.Duration) ([]plugin.Wish, error) {
			load, err := plugin.LoadAverage(r.Host)
			if err != nil {
				return nil, err
			}
			return []plugin.Wish{{Setting: s, Want: limitFor(load, threshold, low, high)}}, nil
		},
	}}, nil, nil
}

// limit reads latency_low or latency_high, in the forms of force_latency.
func limit(r *plugin.Request, s setting.Setting, option, standard string) (setting.Value, []plugin.Item) {
	o, given := r.Option(option)
	if !given {
		o = profile.Option{Name: option, Value: standard, Pos: r.Unit.Pos}
	}
	l, reason, wrong := parseLatency(r.Host, o.Value, false)
	switch {
	case l.none:
		return setting.Text(strconv.Itoa(NoLimit)), nil
	case l.text != "":
		return setting.Text(l.text), nil
	case wrong:
		return setting.Value{}, plugin.BadValue(s, o, "microseconds, cstate.id:N, cstate.name:NAME, None, or alternatives a|b")
	}
	return setting.Value{}, plugin.Lacks(r.Host, s, o, "%s", reason)
}
