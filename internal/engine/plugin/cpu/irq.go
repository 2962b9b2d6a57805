// irq is the plug-in that says which CPUs answer an interrupt.

package cpu

import (
	"context"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/unit"
)

// IRQ is the table entry.
var IRQ = plugin.Plugin{
	Name:    "irq",
	Doc:     "says which CPUs answer each interrupt; devices are irqN by number, and DEFAULT for interrupts that come later",
	Devices: irqDevices,
	Options: []plugin.Option{
		{Name: "mode", Control: true, Default: "set",
			Doc: "set writes the affinity as it is; intersect keeps of the present CPUs those that are in it, and writes it whole where none is"},
		{Name: "affinity", PerDevice: true, Plan: planIRQ,
			Doc: "CPU list, such as 1,3-4; empty leaves the interrupt alone"},
	},
}

// defaultDevice is /proc/irq/default_smp_affinity as a device.
const defaultDevice = "DEFAULT"

func irqDevices(_ context.Context, h *host.Host) ([]string, error) {
	numbers, err := Numbers(h)
	if err != nil {
		return nil, err
	}
	out := []string{defaultDevice}
	for _, n := range numbers {
		out = append(out, "irq"+n)
	}
	plugin.SortDevices(out)
	return out, nil
}

func planIRQ(_ context.Context, r *plugin.Request, o profile.Option, device string) ([]plugin.Item, error) {
	if strings.TrimSpace(o.Value) == "" {
		return nil, nil
	}
	s := Affinity(strings.TrimPrefix(device, "irq"))
	if device == defaultDevice {
		s = Default
	}
	cpus, err := profile.ParseCPUs(o.Value)
	if err != nil || cpus.IsEmpty() {
		return plugin.BadValue(s, o, "a CPU list, such as 1,3-4"), nil
	}
	mode := "set"
	if m, ok := r.Option("mode"); ok && strings.TrimSpace(m.Value) != "" {
		mode = strings.TrimSpace(m.Value)
	}
	switch mode {
	case "set":
		if present, ok := plugin.Attribute(r.Host, "/sys/devices/system/cpu/present"); ok {
			all, err := unit.ParseCPUList(present)
			if missing := cpus.Minus(all); err == nil && !missing.IsEmpty() {
				return []plugin.Item{plugin.Refuse(s, o, plugin.Rejected, "this machine has no CPU %s: it has %s", missing, all)}, nil
			}
		}
	case "intersect":
		if cpus, err = Within(r, s, cpus); err != nil {
			return nil, err
		}
	default:
		m, _ := r.Option("mode")
		return []plugin.Item{plugin.Refuse(s, m, plugin.Rejected, "%q is no mode: want set or intersect", mode)}, nil
	}
	it := plugin.Want(s, cpus.String(), o)
	it.Device = device
	return []plugin.Item{it}, nil
}

// Within is what an interrupt is to have so that it stays within cpus: those of
// its own that are in it, or all of it where none is.
func Within(r *plugin.Request, s Setting, cpus unit.CPUSet) (unit.CPUSet, error) {
	v, err := r.Original(s)
	if err != nil || v.Absent {
		return cpus, err
	}
	own, err := unit.ParseCPUList(v.Text)
	if err != nil {
		return cpus, err
	}
	if both := own.Intersect(cpus); !both.IsEmpty() {
		return both, nil
	}
	return cpus, nil
}

// Numbers lists the interrupts that have an affinity, in order.
func Numbers(h *host.Host) ([]string, error) {
	entries, err := h.Files.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if _, err := strconv.ParseUint(e.Name(), 10, 31); err == nil && plugin.Exists(h, irqPlace(e.Name())) {
			out = append(out, e.Name())
		}
	}
	plugin.SortDevices(out)
	return out, nil
}
