// video is the plug-in for the power saving of Radeon and amdgpu
// graphics.

package device

import (
	"context"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
)

const videoDir = "/sys/class/drm"

// Video is the plug-in for [video] sections.
var Video = plugin.Plugin{
	Name:       "video",
	Doc:        "sets the power saving of Radeon cards and of laptop panels on amdgpu; devices are connectors such as card0-eDP-1",
	Devices:    videoDevices,
	DevicePath: func(device string) string { return videoDir + "/" + device },
	Options: []plugin.Option{
		{Name: "radeon_powersave", PerDevice: true, Plan: planRadeon,
			Doc: "default, auto, low, mid, high, dynpm, dpm-battery, dpm-balanced or dpm-performance; in a list with commas or spaces, the first value that the card's power method accepts is used"},
		{Name: "panel_power_savings", PerDevice: true, Plan: planPanel,
			Doc: "power saving of a laptop panel, which makes colors less accurate: 0 (none) to 4 (most)"},
	},
}

func attribute(device, name string) string { return videoDir + "/" + device + "/device/" + name }

func panel(device string) string { return videoDir + "/" + device + "/amdgpu/panel_power_savings" }

// videoDevices lists the connectors that have at least one of the plug-in's attributes.
func videoDevices(_ context.Context, h *host.Host) ([]string, error) {
	entries, err := h.Files.ReadDir(videoDir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		d := e.Name()
		if !profile.Fnmatch("card*-*", d) {
			continue
		}
		for _, p := range []string{attribute(d, "power_method"), attribute(d, "power_profile"), attribute(d, "power_dpm_state"), panel(d)} {
			if plugin.Exists(h, p) {
				out = append(out, d)
				break
			}
		}
	}
	plugin.SortDevices(out)
	return out, nil
}

// planRadeon plans the first word that is valid for the card's power method. With dynamic power
// management the driver rejects every write to power_method; without it power_dpm_state does not
// exist (radeon_pm.c, radeon_set_pm_method).
func planRadeon(_ context.Context, r *plugin.Request, o profile.Option, device string) ([]plugin.Item, error) {
	method := plugin.Sysfs(attribute(device, "power_method"))
	words := strings.FieldsFunc(o.Value, func(c rune) bool { return strings.ContainsRune(" \t\n:;,", c) })
	known := []string{"default", "auto", "low", "mid", "high", "dynpm", "dpm-battery", "dpm-balanced", "dpm-performance"}
	for _, w := range words {
		if !slices.Contains(known, w) {
			words = nil
			break
		}
	}
	if len(words) == 0 {
		return plugin.BadValue(method, o, strings.Join(known[:len(known)-1], ", ")+" or "+known[len(known)-1]), nil
	}
	now, ok := plugin.Attribute(r.Host, method.Name)
	if !ok {
		return plugin.Lacks(r.Host, method, o, "%s is not on a card of the radeon driver", device), nil
	}
	for _, w := range words {
		state, dynamic := strings.CutPrefix(w, "dpm-")
		switch {
		case dynamic != (now == "dpm"):
			continue
		case dynamic:
			return []plugin.Item{plugin.Want(plugin.Sysfs(attribute(device, "power_dpm_state")), state, o)}, nil
		case w == "dynpm":
			return []plugin.Item{plugin.Want(method, "dynpm", o)}, nil
		}
		return []plugin.Item{plugin.Want(method, "profile", o), plugin.Want(plugin.Sysfs(attribute(device, "power_profile")), w, o)}, nil
	}
	if now == "dpm" {
		return plugin.Lacks(r.Host, method, o, "the card uses dynamic power management; want dpm-battery, dpm-balanced or dpm-performance"), nil
	}
	return plugin.Lacks(r.Host, method, o, "the card runs without dynamic power management (radeon.dpm=0); dpm- states do not work"), nil
}

func planPanel(_ context.Context, r *plugin.Request, o profile.Option, device string) ([]plugin.Item, error) {
	s := plugin.Sysfs(panel(device))
	items := plugin.Number(s, o, 0, 4, "0 to 4")
	if items[0].Verdict == "" && !plugin.Exists(r.Host, s.Name) {
		return plugin.Lacks(r.Host, s, o, "%s is not a laptop panel on amdgpu", device), nil
	}
	return items, nil
}
