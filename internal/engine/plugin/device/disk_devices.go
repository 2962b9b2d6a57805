package device

import (
	"context"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
)

// buses are the subsystems whose disks are tuned, as in TuneD. A disk without a
// parent device (loop, zram, device mapper, md) is tuned as well.
var buses = []string{"scsi", "virtio", "xen", "nvme", "mmc"}

// diskDevices lists the whole disks that are not removable.
func diskDevices(_ context.Context, h *host.Host) ([]string, error) {
	dir := "/sys/class/block"
	entries, err := h.Files.ReadDir(dir)
	if host.NotFound(err) {
		dir = "/sys/block"
		entries, err = h.Files.ReadDir(dir)
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if tunable(h, path.Join(dir, e.Name())) {
			out = append(out, plugin.SysName(e.Name()))
		}
	}
	plugin.SortDevices(out)
	return out, nil
}

func tunable(h *host.Host, dir string) bool {
	if plugin.Exists(h, dir+"/partition") {
		return false
	}
	if removable, ok := plugin.Attribute(h, dir+"/removable"); !ok || removable != "0" {
		return false
	}
	subsystem, ok := parentSubsystem(h, dir)
	return !ok || slices.Contains(buses, subsystem)
}

// parentSubsystem is the subsystem of the nearest directory above that is a
// device, which is one that has a uevent file (sd_device_get_parent).
func parentSubsystem(h *host.Host, dir string) (string, bool) {
	real, err := h.Files.Resolve(dir)
	if err != nil {
		return "", false
	}
	// Of /sys/devices/virtual/CLASS/NAME the first three are no devices.
	for p := path.Dir(real); strings.HasPrefix(p, "/sys/devices/") && path.Dir(p) != "/sys/devices/virtual"; p = path.Dir(p) {
		if !plugin.Exists(h, p+"/uevent") {
			continue
		}
		link, err := h.Files.Readlink(p + "/subsystem")
		if err != nil {
			return "", true
		}
		return path.Base(link), true
	}
	return "", false
}

// diskSysDir is the sysfs directory of a disk.
func diskSysDir(device string) string { return "/sys/block/" + plugin.SysFile(device) }

// isATA is true for a disk that speaks ATA, directly or through the kernel's
// translation (drivers/ata/libata-scsi.c gives it the vendor "ATA").
func isATA(h *host.Host, device string) bool {
	if vendor, ok := plugin.Attribute(h, diskSysDir(device)+"/device/vendor"); ok {
		return vendor == "ATA"
	}
	return strings.HasPrefix(device, "hd")
}
