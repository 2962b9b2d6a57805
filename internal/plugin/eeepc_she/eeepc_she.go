// Package eeepc_she is the plug-in for the bus clock of Asus Eee PC netbooks
// (Super Hybrid Engine). It tunes only dynamically.
package eeepc_she //nolint:revive // the plug-in's name in profiles

import (
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/plugin"
)

// Plugin is the table entry.
var Plugin = plugin.Plugin{
	Name: "eeepc_she",
	Doc:  "lets the bus clock of Asus Eee PC netbooks follow the load where dynamic tuning is on; does nothing otherwise",
	Options: []plugin.Option{
		{Name: "load_threshold_normal", Default: "0.6", Control: true,
			Doc: "load (0 to 1) from which on the clock is set to she_normal"},
		{Name: "load_threshold_powersave", Default: "0.4", Control: true,
			Doc: "load (0 to 1) up to which the clock is set to she_powersave"},
		{Name: "she_powersave", Default: "2", Control: true,
			Doc: "clock at rest: 0 high, 1 normal, 2 saving (sysfs-platform-eeepc-laptop, cpufv)"},
		{Name: "she_normal", Default: "1", Control: true,
			Doc: "clock under load: 0 high, 1 normal, 2 saving"},
	},
}

// ControlFile is the attribute that sets the clock; ok is false on every other
// machine.
func ControlFile(h *host.Host) (path string, ok bool) {
	for _, p := range []string{"/sys/devices/platform/eeepc/cpufv", "/sys/devices/platform/eeepc-wmi/cpufv"} {
		if plugin.Exists(h, p) {
			return p, true
		}
	}
	return "", false
}
