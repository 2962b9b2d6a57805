// uncore is the plug-in for the frequency of Intel processors outside
// their cores: caches, memory controllers, interconnect.

package device

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

const uncoreDir = "/sys/devices/system/cpu/intel_uncore_frequency"

// Uncore is the plug-in for [uncore] sections.
var Uncore = plugin.Plugin{
	Name:    "uncore",
	Doc:     "limits the uncore frequency of Intel processors; devices are uncoreNN, or package_NN_die_NN if the processor has no uncoreNN",
	Devices: uncoreDevices,
	Options: []plugin.Option{
		{Name: "max_freq_khz", PerDevice: true, Plan: planUncore,
			Doc: "upper limit in kHz, or N% (0 to 100) of the way from the lowest to the highest possible; rounded to steps of 100 MHz"},
		{Name: "min_freq_khz", PerDevice: true, Plan: planUncore,
			Doc: "lower limit in kHz, or N% (0 to 100) of the way from the lowest to the highest possible; rounded to steps of 100 MHz"},
	},
}

// uncoreDevices lists the domains of the TPMI interface. If there are any, the directories of
// whole packages are only views of them and are omitted
// (Documentation/admin-guide/pm/intel_uncore_frequency_scaling.rst).
func uncoreDevices(_ context.Context, h *host.Host) ([]string, error) {
	entries, err := h.Files.ReadDir(uncoreDir)
	if err != nil {
		return nil, err
	}
	var all, tpmi []string
	for _, e := range entries {
		all = append(all, e.Name())
		if strings.HasPrefix(e.Name(), "uncore") {
			tpmi = append(tpmi, e.Name())
		}
	}
	if len(tpmi) > 0 {
		all = tpmi
	}
	plugin.SortDevices(all)
	return all, nil
}

const (
	lower = "min_freq_khz"
	upper = "max_freq_khz"
	step  = 100000 // kHz; intel_uncore_freq uses multiples of the 100 MHz clock
)

func uncorePlace(device, name string) setting.Setting {
	return plugin.Sysfs(uncoreDir + "/" + device + "/" + name)
}

// planUncore plans both limits of a unit together. The limit that makes room is written first.
func planUncore(_ context.Context, r *plugin.Request, o profile.Option, device string) ([]plugin.Item, error) {
	up, hasUpper := r.Option(upper)
	low, hasLower := r.Option(lower)
	switch {
	case hasUpper && hasLower && o.Name == lower:
		return nil, nil // planned with the upper limit
	case !hasUpper || !hasLower:
		other := lower
		if o.Name == lower {
			other = upper
		}
		limit, err := presentLimit(r, device, other)
		if err != nil {
			return nil, err
		}
		return []plugin.Item{one(r.Host, o, device, limit)}, nil
	}
	// Each limit is checked against the other's planned value.
	u, l := one(r.Host, up, device, -1), one(r.Host, low, device, -1)
	if u.Verdict == "" && l.Verdict == "" && khz(u) < khz(l) {
		u = plugin.Refuse(u.Change.Setting, up, plugin.Rejected, "%d kHz is below the lower limit of the same unit, %d kHz", khz(u), khz(l))
	}
	now, err := presentLimit(r, device, upper)
	if err != nil {
		return nil, err
	}
	if u.Verdict == "" && khz(u) < now {
		return []plugin.Item{l, u}, nil
	}
	return []plugin.Item{u, l}, nil
}

func khz(it plugin.Item) int64 {
	n, _ := strconv.ParseInt(it.Change.Want.Text, 10, 64)
	return n
}

// presentLimit returns the limit without the selection in kHz, or -1 if the device lacks it.
func presentLimit(r *plugin.Request, device, name string) (int64, error) {
	v, err := r.Original(uncorePlace(device, name))
	if err != nil || v.Absent {
		return -1, err
	}
	return strconv.ParseInt(strings.TrimSpace(v.Text), 10, 64)
}

// one plans one limit. other is the other limit in kHz, or -1 if there is nothing to check against.
func one(h *host.Host, o profile.Option, device string, other int64) plugin.Item {
	s := uncorePlace(device, o.Name)
	lowest, okLow := initial(h, device, lower)
	highest, okHigh := initial(h, device, upper)
	if !okLow || !okHigh || !plugin.Exists(h, s.Name) {
		return plugin.Lacks(h, s, o, "%s does not report its frequency limits", device)[0]
	}
	op, text := plugin.Modifier(o.Value)
	var why string
	var n int64
	var err error
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		n, err = strconv.ParseInt(strings.TrimSpace(percent), 10, 64)
		if n < 0 || n > 100 {
			err = strconv.ErrRange
		}
		why = fmt.Sprintf("%s of %d to %d kHz", text, lowest, highest)
		n = lowest + n*(highest-lowest)/100
	} else {
		n, err = strconv.ParseInt(text, 10, 64)
	}
	if err != nil || n < 0 {
		return plugin.BadValue(s, o, "kHz, or a percentage from 0% to 100%")[0]
	}
	if rest := n % step; rest != 0 {
		n -= rest
		why = joinUncore(why, "rounded to steps of 100 MHz")
	}
	switch {
	case o.Name == upper && n > highest:
		n, why = highest, joinUncore(why, fmt.Sprintf("%s can be set to %d kHz at most", device, highest))
	case o.Name == lower && n < lowest:
		n, why = lowest, joinUncore(why, fmt.Sprintf("%s can be set to %d kHz at least", device, lowest))
	}
	switch {
	case o.Name == upper && other >= 0 && n < other:
		return plugin.Refuse(s, o, plugin.Rejected, "%d kHz is below the lower limit of %s, %d kHz", n, device, other)
	case o.Name == lower && other >= 0 && n > other:
		return plugin.Refuse(s, o, plugin.Rejected, "%d kHz is above the upper limit of %s, %d kHz", n, device, other)
	}
	it := plugin.Want(s, strconv.FormatInt(n, 10), o)
	it.Change.Op, it.Why = op, why
	return it
}

// initial returns the lowest or highest settable frequency in kHz.
func initial(h *host.Host, device, name string) (int64, bool) {
	text, ok := plugin.Attribute(h, uncoreDir+"/"+device+"/initial_"+name)
	n, err := strconv.ParseInt(text, 10, 64)
	return n, ok && err == nil
}

func joinUncore(a, b string) string {
	if a == "" {
		return b
	}
	return a + ", " + b
}
