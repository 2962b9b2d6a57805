// scsi_host is the plug-in for the link power management of SATA ports.

package device //nolint:revive // the plug-in's name in profiles

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
)

// SCSIHost is the plug-in for [scsi_host] sections.
var SCSIHost = plugin.Plugin{
	Name:       "scsi_host",
	Doc:        "sets the link power management of SATA ports; devices are SCSI hosts",
	Devices:    scsihostDevices,
	DevicePath: func(device string) string { return "/sys/bus/scsi/devices/" + device },
	Options: []plugin.Option{
		{Name: "alpm", PerDevice: true, Plan: planSCSIHost,
			Doc: "policy of an AHCI port: max_performance, medium_power, med_power_with_dipm, min_power_with_partial or min_power; hot-pluggable ports are left alone"},
	},
}

func scsihostDevices(_ context.Context, h *host.Host) ([]string, error) {
	return plugin.DevicesOfType(h, "/sys/bus/scsi/devices", "scsi_host")
}

// policies are the kernel's policy words (drivers/ata/libata-sata.c, ata_lpm_policy_names).
var policies = []string{"max_performance", "medium_power", "med_power_with_dipm", "min_power_with_partial", "min_power"}

func planSCSIHost(_ context.Context, r *plugin.Request, o profile.Option, device string) ([]plugin.Item, error) {
	dir := "/sys/class/scsi_host/" + device
	s := plugin.Sysfs(dir + "/link_power_management_policy")
	switch {
	case !slices.Contains(policies, o.Value):
		return plugin.BadValue(s, o, strings.Join(policies[:len(policies)-1], ", ")+" or "+policies[len(policies)-1]), nil
	case !plugin.Exists(r.Host, s.Name):
		return plugin.Lacks(r.Host, s, o, "%s is not a SATA port with link power management (AHCI)", device), nil
	case external(r.Host, dir):
		return plugin.Lacks(r.Host, s, o, "%s is hot-pluggable; with link power management it would not notice a removed disk", device), nil
	}
	return []plugin.Item{plugin.Want(s, o.Value, o)}, nil
}

// external reports whether a port is hot-plug capable or external: bits 18 (HPCP) and 21 (ESP) of
// PxCMD (AHCI 1.3.1, 3.3.7). On such a port link power management prevents the detection of a
// removal (7.3).
func external(h *host.Host, dir string) bool {
	const hotPlug, esata = 1 << 18, 1 << 21
	text, _ := plugin.Attribute(h, dir+"/ahci_port_cmd")
	cmd, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 32)
	return err == nil && cmd&(hotPlug|esata) != 0
}
