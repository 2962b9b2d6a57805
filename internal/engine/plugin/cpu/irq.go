// irq is the plug-in that sets the CPUs that handle an interrupt.

package cpu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/unit"
)

// IRQ is the plug-in for [irq] sections.
var IRQ = plugin.Plugin{
	Name:    "irq",
	Doc:     "sets which CPUs handle each interrupt; devices are irqN, with the number N, and DEFAULT for new interrupts",
	Devices: irqDevices,
	Options: []plugin.Option{
		{Name: "mode", Control: true, Default: "set",
			Doc: "set writes affinity as given; intersect keeps the present CPUs that are also in affinity, or writes affinity as given if there are none"},
		{Name: "affinity", PerDevice: true, Plan: planIRQ,
			Doc: "CPU list, such as 1,3-4; empty leaves the interrupt unchanged"},
	},
}

// defaultDevice is /proc/irq/default_smp_affinity as a device.
const defaultDevice = "DEFAULT"

func irqDevices(_ context.Context, h *host.Host) ([]string, error) {
	numbers, err := irqNumbers(h)
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
	s := irqSetting(strings.TrimPrefix(device, "irq"))
	if device == defaultDevice {
		s = defaultIRQ
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
		present, err := cpuList(r.Host, "present")
		if missing := cpus.Minus(present); err == nil && !missing.IsEmpty() {
			return []plugin.Item{plugin.Refuse(s, o, plugin.Rejected, "this machine has no CPU %s, only %s", missing, present)}, nil
		}
	case "intersect":
		if cpus, err = within(r, s, cpus); err != nil {
			return nil, err
		}
	default:
		m, _ := r.Option("mode")
		return []plugin.Item{plugin.Refuse(s, m, plugin.Rejected, "%q is not a mode: want set or intersect", mode)}, nil
	}
	it := plugin.Want(s, cpus.String(), o)
	it.Device = device
	return []plugin.Item{it}, nil
}

// within returns the part of an interrupt's affinity that is in cpus, or all of cpus if there is
// none.
func within(r *plugin.Request, s setting.Setting, cpus unit.CPUSet) (unit.CPUSet, error) {
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

// irqNumbers lists the interrupts with an affinity, in numerical order.
func irqNumbers(h *host.Host) ([]string, error) {
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

// irqKind is the setting kind of interrupt affinities: irq:24/affinity, and irq:default/affinity
// for future interrupts. The value is a CPU list (Documentation/core-api/irq/irq-affinity.rst).
const irqKind = "irq"

const (
	dir    = "/proc/irq"
	suffix = "/affinity"
)

// defaultIRQ is the affinity of future interrupts.
var defaultIRQ = irqSetting("default")

// irqSetting returns the setting for an interrupt's affinity, given its number or "default".
func irqSetting(number string) setting.Setting {
	return setting.Setting{Kind: irqKind, Name: number + suffix}
}

// IRQKinds returns the setting kinds that this plug-in adds.
func IRQKinds(h *host.Host) map[string]setting.Kind {
	return map[string]setting.Kind{irqKind: irqAffinity{h}}
}

type irqAffinity struct{ host *host.Host }

// irqPlace returns the kernel file with an interrupt's CPU mask. The default has no file with a
// list.
func irqPlace(number string) string {
	if number == "default" {
		return dir + "/default_smp_affinity"
	}
	return dir + "/" + number + "/smp_affinity"
}

func (irqAffinity) file(s setting.Setting) (string, error) {
	number, ok := strings.CutSuffix(s.Name, suffix)
	if _, err := strconv.ParseUint(number, 10, 31); !ok || err != nil && number != "default" {
		return "", fmt.Errorf("%s: want irq:NUMBER%s or irq:default%s", s, suffix, suffix)
	}
	return irqPlace(number), nil
}

func (k irqAffinity) Resolve(s setting.Setting) (setting.Setting, error) {
	_, err := k.file(s)
	return s, err
}

func (k irqAffinity) Read(_ context.Context, s setting.Setting) (setting.Value, error) {
	file, err := k.file(s)
	if err != nil {
		return setting.Value{}, err
	}
	b, err := k.host.Files.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return setting.Absent, nil
	case err != nil:
		return setting.Value{}, err
	}
	cpus, err := unit.ParseCPUMask(strings.TrimSpace(string(b)))
	return setting.Text(cpus.String()), err
}

func (k irqAffinity) Write(_ context.Context, s setting.Setting, v setting.Value) error {
	file, err := k.file(s)
	if err != nil {
		return err
	}
	if v.Absent {
		return fmt.Errorf("%s: an interrupt's affinity cannot be removed", s)
	}
	cpus, err := unit.ParseCPUList(v.Text)
	if err != nil {
		return err
	}
	err = k.host.Files.Store(file, []byte(cpus.Mask()))
	// kernel/irq/proc.c write_irq_affinity: EIO up to Linux 6.11, then EPERM, if the driver or the
	// controller allows no change.
	if errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EPERM) && s != defaultIRQ {
		return fmt.Errorf("the kernel manages this interrupt, or its controller cannot move it: %w", notOurs{err})
	}
	return err
}

// notOurs marks an error as setting.ErrUnsupported: it is not a failure.
type notOurs struct{ err error }

func (e notOurs) Error() string        { return errors.Unwrap(e.err).Error() }
func (e notOurs) Unwrap() error        { return e.err }
func (e notOurs) Is(target error) bool { return target == setting.ErrUnsupported }

func (irqAffinity) Equal(a, b setting.Value) bool             { return sameCPUs(a.Text, b.Text) }
func (irqAffinity) Coupled(setting.Setting) []setting.Setting { return nil }
func (irqAffinity) Lifetime() setting.Lifetime                { return setting.Runtime }

// Transient marks the setting as transient: an interrupt ends with its device.
func (irqAffinity) Transient() {}
