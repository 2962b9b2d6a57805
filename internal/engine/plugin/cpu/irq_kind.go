package cpu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/unit"
)

// IRQKindName is the kind of the CPUs of an interrupt: irq:24/affinity, and
// irq:default/affinity for those that come later. The value is a CPU list
// (Documentation/core-api/irq/irq-affinity.rst).
const IRQKindName = "irq"

// Setting is setting.Setting.
type Setting = setting.Setting

const (
	dir    = "/proc/irq"
	suffix = "/affinity"
)

// Default is the affinity of interrupts that come later.
var Default = Affinity("default")

// Affinity names the affinity of an interrupt by its number.
func Affinity(number string) Setting { return Setting{Kind: IRQKindName, Name: number + suffix} }

// IRQKinds is what the plug-in adds to the table of kinds.
func IRQKinds(h *host.Host) map[string]setting.Kind {
	return map[string]setting.Kind{IRQKindName: irqAffinity{h}}
}

type irqAffinity struct{ host *host.Host }

// irqPlace is the kernel's file of an interrupt. The mask is used because the
// default has no file with a list.
func irqPlace(number string) string {
	if number == "default" {
		return dir + "/default_smp_affinity"
	}
	return dir + "/" + number + "/smp_affinity"
}

func (irqAffinity) file(s Setting) (string, error) {
	number, ok := strings.CutSuffix(s.Name, suffix)
	if _, err := strconv.ParseUint(number, 10, 31); !ok || err != nil && number != "default" {
		return "", fmt.Errorf("%s: want irq:NUMBER%s or irq:default%s", s, suffix, suffix)
	}
	return irqPlace(number), nil
}

func (k irqAffinity) Resolve(s Setting) (Setting, error) {
	_, err := k.file(s)
	return s, err
}

func (k irqAffinity) Read(_ context.Context, s Setting) (setting.Value, error) {
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

func (k irqAffinity) Write(_ context.Context, s Setting, v setting.Value) error {
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
	// kernel/irq/proc.c write_irq_affinity: EIO up to Linux 6.11, EPERM since,
	// where the driver or the controller does not let anybody move it.
	if errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EPERM) && s != Default {
		return fmt.Errorf("the kernel manages this interrupt itself, or its controller cannot move it: %w", notOurs{err})
	}
	return err
}

// notOurs is an error that is no failure: setting.ErrUnsupported.
type notOurs struct{ err error }

func (e notOurs) Error() string        { return errors.Unwrap(e.err).Error() }
func (e notOurs) Unwrap() error        { return e.err }
func (e notOurs) Is(target error) bool { return target == setting.ErrUnsupported }

func (irqAffinity) Equal(a, b setting.Value) bool {
	x, errX := unit.ParseCPUList(a.Text)
	y, errY := unit.ParseCPUList(b.Text)
	return errX == nil && errY == nil && x.Equal(y)
}

func (irqAffinity) Coupled(Setting) []Setting  { return nil }
func (irqAffinity) Lifetime() setting.Lifetime { return setting.Runtime }

// Transient: an interrupt goes with its device.
func (irqAffinity) Transient() {}
