// usb is the plug-in for the autosuspend of USB devices.

package device

import (
	"context"
	"math"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
)

const usbDir = "/sys/bus/usb/devices"

// USB is the plug-in for [usb] sections.
var USB = plugin.Plugin{
	Name:       "usb",
	Doc:        "sets the autosuspend time of USB devices; root hubs are devices, interfaces are not",
	Devices:    usbDevices,
	DevicePath: func(device string) string { return usbDir + "/" + device },
	Options: []plugin.Option{
		{Name: "autosuspend", PerDevice: true, Words: plugin.OnlyTrue, Plan: planUSB,
			Doc: "idle seconds after which a device is suspended: 0 at once, -1 never; true means 1 and false means 0"},
	},
}

func usbDevices(_ context.Context, h *host.Host) ([]string, error) {
	return plugin.DevicesOfType(h, usbDir, "usb_device")
}

// planUSB expects seconds, as the kernel does and TuneD documents. TuneD itself reads true and 1
// as 1, and all else as 0.
func planUSB(_ context.Context, r *plugin.Request, o profile.Option, device string) ([]plugin.Item, error) {
	s := plugin.Sysfs(usbDir + "/" + device + "/power/autosuspend")
	n, err := strconv.ParseInt(strings.TrimSpace(o.Value), 10, 32)
	if err != nil {
		on, ok := plugin.Truth(o.Value)
		if !ok {
			return plugin.BadValue(s, o, "seconds, or -1 for never"), nil
		}
		if on {
			n = 1
		}
	}
	// drivers/usb/core/sysfs.c, autosuspend_store: milliseconds as an int.
	if n < -1 || n > math.MaxInt32/1000 {
		return plugin.BadValue(s, o, "seconds, or -1 for never"), nil
	}
	if !plugin.Exists(r.Host, s.Name) {
		return plugin.Lacks(r.Host, s, o, "%s has no power management", device), nil
	}
	return []plugin.Item{plugin.Want(s, strconv.FormatInt(n, 10), o)}, nil
}
