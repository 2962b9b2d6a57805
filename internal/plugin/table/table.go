// Package table lists every plug-in and every kind of setting, once.
package table

import (
	"errors"
	"maps"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/plugin"
	"fettle.dev/fettle/internal/plugin/acpi"
	"fettle.dev/fettle/internal/plugin/audio"
	"fettle.dev/fettle/internal/plugin/bootloader"
	"fettle.dev/fettle/internal/plugin/cpu"
	"fettle.dev/fettle/internal/plugin/disk"
	"fettle.dev/fettle/internal/plugin/eeepc_she"
	"fettle.dev/fettle/internal/plugin/irq"
	"fettle.dev/fettle/internal/plugin/irqbalance"
	"fettle.dev/fettle/internal/plugin/modules"
	"fettle.dev/fettle/internal/plugin/mounts"
	"fettle.dev/fettle/internal/plugin/net"
	"fettle.dev/fettle/internal/plugin/rtentsk"
	"fettle.dev/fettle/internal/plugin/scheduler"
	"fettle.dev/fettle/internal/plugin/script"
	"fettle.dev/fettle/internal/plugin/scsi_host"
	"fettle.dev/fettle/internal/plugin/selinux"
	"fettle.dev/fettle/internal/plugin/service"
	"fettle.dev/fettle/internal/plugin/sysctl"
	"fettle.dev/fettle/internal/plugin/sysfs"
	"fettle.dev/fettle/internal/plugin/systemd"
	"fettle.dev/fettle/internal/plugin/uncore"
	"fettle.dev/fettle/internal/plugin/usb"
	"fettle.dev/fettle/internal/plugin/video"
	"fettle.dev/fettle/internal/plugin/vm"
	"fettle.dev/fettle/internal/profile"
	"fettle.dev/fettle/internal/setting"
)

// All lists the plug-ins by name.
var All = []plugin.Plugin{
	acpi.Plugin,
	audio.Plugin,
	bootloader.Plugin,
	cpu.Plugin,
	disk.Plugin,
	eeepc_she.Plugin,
	irq.Plugin,
	irqbalance.Plugin,
	modules.Plugin,
	mounts.Plugin,
	net.Plugin,
	rtentsk.Plugin,
	scheduler.Plugin,
	script.Plugin,
	scsi_host.Plugin,
	selinux.Plugin,
	service.Plugin,
	sysctl.Plugin,
	sysfs.Plugin,
	systemd.Plugin,
	uncore.Plugin,
	usb.Plugin,
	video.Plugin,
	vm.Plugin,
}

// Kinds is the table of the kinds of setting: the kernel's own and those that
// plug-ins bring. A process makes one table and keeps it, because some kinds
// hold descriptors.
func Kinds(h *host.Host) setting.Kinds {
	k := setting.Kernel(h)
	k[cpu.KindName] = cpu.NewPMQoS(h)
	k[disk.KindName] = disk.NewHdparm(h)
	for _, more := range []map[string]setting.Kind{
		bootloader.Kinds(h), eeepc_she.Kinds(h), irq.Kinds(h), irqbalance.Kinds(h), modules.Kinds(h), mounts.Kinds(h),
		net.Kinds(h), rtentsk.Kinds(h), scheduler.Kinds(h), script.Kinds(h), service.Kinds(h), systemd.Kinds(h),
	} {
		maps.Copy(k, more)
	}
	return k
}

// Lookup finds the plug-in of a section type. The error is made for a person
// and suggests the nearest name; it names no place.
func Lookup(name string) (*plugin.Plugin, error) {
	if p, ok := plugin.Find(All, name); ok {
		return p, nil
	}
	return nil, errors.New(plugin.UnknownType(All, &profile.Unit{Type: name}).Text)
}
