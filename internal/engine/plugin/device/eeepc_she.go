// eeepc_she is the plug-in for the bus clock of Asus Eee PC netbooks
// (Super Hybrid Engine). It tunes only dynamically.

package device //nolint:revive // the plug-in's name in profiles

import (
	"context"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/setting"
)

// EeePCSHE is the table entry.
var EeePCSHE = plugin.Plugin{
	Name:    "eeepc_she",
	Doc:     "lets the bus clock of Asus Eee PC netbooks follow the load where dynamic tuning is on; does nothing otherwise",
	Dynamic: eeepcsheDynamic,
	Options: []plugin.Option{
		{Name: "load_threshold_normal", Default: "0.6", Control: true,
			Doc: "load average of one minute from which on the clock is set to she_normal"},
		{Name: "load_threshold_powersave", Default: "0.4", Control: true,
			Doc: "load average of one minute up to which the clock is set to she_powersave; between the two it stays as it is"},
		{Name: "she_powersave", Default: "2", Control: true,
			Doc: "clock at rest: 0 high, 1 normal, 2 saving (sysfs-platform-eeepc-laptop, cpufv)"},
		{Name: "she_normal", Default: "1", Control: true,
			Doc: "clock under load: 0 high, 1 normal, 2 saving"},
	},
}

// band is where the clock changes: a load at or below rest, at or above busy.
type band struct{ rest, busy float64 }

// clock is the clock for a load, TuneD's rule; ok is false where it stays.
func (b band) clock(load float64, saving, normal setting.Value) (v setting.Value, ok bool) {
	switch {
	case load <= b.rest:
		return saving, true
	case load >= b.busy:
		return normal, true
	}
	return v, false
}

func eeepcsheDynamic(_ context.Context, r *plugin.Request) ([]plugin.Loop, []plugin.Item, error) {
	s := Clock
	whole := profile.Option{Name: r.Unit.Name, Pos: r.Unit.Pos}
	path, ok := controlFile(r.Host)
	switch {
	case !ok:
		return nil, plugin.LacksFiles(r.Host, s, whole, controlFiles, "only Asus Eee PC netbooks have it"), nil
	case !readable(r.Host, path):
		return nil, plugin.Lacks(r.Host, s, whole, "the driver of this machine does not tell which clock is set, so it could not be given back"), nil
	}
	var bad []plugin.Item
	note := func(more []plugin.Item) { bad = append(bad, more...) }
	rest, more := r.Threshold(s, "load_threshold_powersave", 0.4)
	note(more)
	busy, more := r.Threshold(s, "load_threshold_normal", 0.6)
	note(more)
	saving, more := clock(r, "she_powersave", "2")
	note(more)
	normal, more := clock(r, "she_normal", "1")
	note(more)
	if len(bad) > 0 {
		return nil, bad, nil
	}
	b := band{rest, busy}
	return []plugin.Loop{{
		Places: []plugin.Varying{{
			Setting: s, Values: []setting.Value{saving, normal}, Reason: plugin.UnitReason(r.Unit, "the bus clock follows the load"),
		}},
		Next: func(context.Context, time.Duration) ([]plugin.Wish, error) {
			load, err := plugin.LoadAverage(r.Host)
			if err != nil {
				return nil, err
			}
			if v, ok := b.clock(load, saving, normal); ok {
				return []plugin.Wish{{Setting: s, Want: v}}, nil
			}
			return nil, nil
		},
	}}, nil, nil
}

// clock reads she_powersave or she_normal.
func clock(r *plugin.Request, option, standard string) (setting.Value, []plugin.Item) {
	o, given := r.Option(option)
	if !given {
		return setting.Text(standard), nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(o.Value))
	if err != nil || n < 0 || n > 2 {
		return setting.Value{}, plugin.BadValue(Clock, o, "0, 1 or 2")
	}
	return setting.Text(strconv.Itoa(n)), nil
}
