// acpi is the plug-in for the firmware's platform profile.

package device

import (
	"context"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
)

const acpiPlace = "/sys/firmware/acpi/platform_profile"

// ACPI is the plug-in for [acpi] sections.
var ACPI = plugin.Plugin{
	Name: "acpi",
	Doc:  "sets the firmware's platform profile, which weighs speed against heat, noise and power",
	Options: []plugin.Option{
		{Name: "platform_profile", Plan: planACPI,
			Doc: "a profile that the firmware offers (low-power, cool, quiet, balanced, balanced-performance, performance), or alternatives a|b; the first that the firmware offers is used"},
	},
}

func planACPI(_ context.Context, r *plugin.Request, o profile.Option, _ string) ([]plugin.Item, error) {
	s := plugin.Sysfs(acpiPlace)
	wanted, ok := plugin.Alternatives(o.Value)
	if !ok {
		return plugin.BadValue(s, o, "a profile such as balanced, or alternatives a|b"), nil
	}
	if !plugin.Exists(r.Host, acpiPlace) {
		why := "the firmware of this machine offers no platform profiles"
		if plugin.IsGuest(r.Host) {
			why = "this machine is a guest; only physical machines have platform profiles"
		}
		return plugin.Lacks(r.Host, s, o, "%s", why), nil
	}
	offered := plugin.Choices(r.Host, acpiPlace+"_choices")
	for _, w := range wanted {
		if slices.Contains(offered, w) {
			return []plugin.Item{plugin.Want(s, w, o)}, nil
		}
	}
	return plugin.Lacks(r.Host, s, o, "the firmware offers only %s", strings.Join(offered, ", ")), nil
}
