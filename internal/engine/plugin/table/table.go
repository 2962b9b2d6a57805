// Package table lists every plug-in and every setting kind, each once.
package table

import (
	"maps"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/plugin/boot"
	"fettle.dev/fettle/internal/engine/plugin/cpu"
	"fettle.dev/fettle/internal/engine/plugin/device"
	"fettle.dev/fettle/internal/engine/plugin/kernel"
	"fettle.dev/fettle/internal/engine/plugin/service"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// All lists the plug-ins, sorted by name.
var All = []plugin.Plugin{
	device.ACPI,
	device.Audio,
	boot.Bootloader,
	cpu.CPU,
	device.Disk,
	device.EeePCSHE,
	cpu.IRQ,
	cpu.IRQBalance,
	kernel.Modules,
	kernel.Mounts,
	device.Net,
	kernel.RTEntsk,
	cpu.Scheduler,
	service.Script,
	device.SCSIHost,
	kernel.SELinux,
	service.Service,
	kernel.Sysctl,
	kernel.Sysfs,
	cpu.Systemd,
	device.Uncore,
	device.USB,
	device.Video,
	kernel.VM,
}

// Kinds returns the table of setting kinds: the kernel's and those that plug-ins add. A process
// should make one table and keep it, because some kinds hold descriptors.
func Kinds(h *host.Host) setting.Kinds {
	k := setting.Kernel(h)
	k[cpu.KindName] = cpu.NewPMQoS(h)
	k[device.DiskKindName] = device.NewHdparm(h)
	for _, more := range []map[string]setting.Kind{
		boot.Kinds(h), device.EeePCSHEKinds(h), cpu.IRQKinds(h), cpu.IRQBalanceKinds(h), kernel.ModulesKinds(h), kernel.MountsKinds(h),
		device.NetKinds(h), kernel.RtentskKinds(h), cpu.SchedulerKinds(h), service.ScriptKinds(h), service.Kinds(h), cpu.SystemdKinds(h),
	} {
		maps.Copy(k, more)
	}
	return k
}
