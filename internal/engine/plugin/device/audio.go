// audio is the plug-in for the power saving of sound cards.

package device

import (
	"context"
	"math"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// modules are the drivers whose power saving is a module parameter. The module is the device,
// because the parameter applies to all its cards.
var modules = []string{"snd_ac97_codec", "snd_hda_intel"}

// Audio is the plug-in for [audio] sections. Its defaults apply in every unit, even without
// options, as in TuneD 2.20 to 2.28. reset_controller is on by default, as in 2.28.
var Audio = plugin.Plugin{
	Name:    "audio",
	Doc:     "sets when idle sound codecs go to sleep; devices are the modules snd_hda_intel and snd_ac97_codec",
	Devices: audioDevices,
	Always:  planDefaults,
	Options: []plugin.Option{
		{Name: "timeout", Default: defaultTimeout, PerDevice: true, Plan: planTimeout,
			Doc: "seconds without sound after which the codec sleeps (0 or more); 0 (default) never"},
		{Name: "reset_controller", Default: defaultReset, PerDevice: true, Plan: planReset,
			Doc: "true (default) or false: the controller also sleeps, and is reset when it wakes"},
	},
}

const defaultTimeout, defaultReset = "0", "true"

// planDefaults plans the options that a unit omits.
func planDefaults(ctx context.Context, r *plugin.Request) ([]plugin.Item, error) {
	var items []plugin.Item
	for _, d := range []struct {
		name, value string
		plan        func(context.Context, *plugin.Request, profile.Option, string) ([]plugin.Item, error)
	}{{"timeout", defaultTimeout, planTimeout}, {"reset_controller", defaultReset, planReset}} {
		if _, given := r.Option(d.name); given {
			continue
		}
		o := profile.Option{Name: d.name, Value: d.value, Raw: d.value, Pos: r.Unit.Pos}
		for _, module := range r.Devices {
			more, err := d.plan(ctx, r, o, module)
			if err != nil {
				return items, err
			}
			if more[0].Verdict != "" {
				continue // not requested, so not reported
			}
			more[0].Why, more[0].Device = d.name+"="+d.value+" is the default", module
			items = append(items, more...)
		}
	}
	return items, nil
}

func audioDevices(_ context.Context, h *host.Host) ([]string, error) {
	const dir = "/sys/class/sound"
	entries, err := h.Files.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "card") {
			continue
		}
		link, err := h.Files.Readlink(path.Join(dir, e.Name(), "device/driver"))
		if err != nil {
			continue
		}
		if m := path.Base(link); slices.Contains(modules, m) && !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	plugin.SortDevices(out)
	return out, nil
}

func parameter(module, name string) setting.Setting {
	return plugin.Sysfs("/sys/module/" + module + "/parameters/" + name)
}

func planTimeout(_ context.Context, r *plugin.Request, o profile.Option, module string) ([]plugin.Item, error) {
	s := parameter(module, "power_save")
	items := plugin.Number(s, o, 0, math.MaxInt32, "seconds, 0 or more")
	if items[0].Verdict == "" && !plugin.Exists(r.Host, s.Name) {
		items = plugin.Lacks(r.Host, s, o, "the module %s of this kernel is built without power saving", module)
	}
	return items, nil
}

func planReset(_ context.Context, r *plugin.Request, o profile.Option, module string) ([]plugin.Item, error) {
	s := parameter(module, "power_save_controller")
	on, ok := plugin.Truth(o.Value)
	if !ok {
		return plugin.BadValue(s, o, "true or false"), nil
	}
	if !plugin.Exists(r.Host, s.Name) {
		return plugin.Lacks(r.Host, s, o, "the module %s has no controller to put to sleep", module), nil
	}
	value := "0"
	if on {
		value = "1" // the kernel shows it as Y
	}
	return []plugin.Item{plugin.Want(s, value, o)}, nil
}
