package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/unit"
)

const pmuDir = "/sys/bus/event_source/devices/"

// PMUEvent is an event of a performance monitoring unit, as sysfs describes it
// (Documentation/ABI/testing/sysfs-bus-event_source-devices-events).
type PMUEvent struct {
	Name   string // c6-residency
	Type   uint32
	Config uint64
}

// PMUEvents returns the events of a PMU whose configuration is a number only (event=0x02), and
// the CPUs on which it counts. Without a list of CPUs, cpus is empty: it counts on every CPU. The
// error is fs.ErrNotExist if the machine lacks the PMU.
func (h *Host) PMUEvents(pmu string) (events []PMUEvent, cpus unit.CPUSet, err error) {
	text, err := h.Files.ReadFile(pmuDir + pmu + "/type")
	if err != nil {
		return nil, cpus, err
	}
	kind, err := strconv.ParseUint(trimLine(text), 10, 32)
	if err != nil {
		return nil, cpus, fmt.Errorf("%s%s/type: %w", pmuDir, pmu, err)
	}
	names, err := h.Files.ReadDir(pmuDir + pmu + "/events")
	if err != nil {
		return nil, cpus, err
	}
	for _, d := range names {
		text, err := h.Files.ReadFile(pmuDir + pmu + "/events/" + d.Name())
		if err != nil {
			return nil, cpus, err
		}
		digits, ok := strings.CutPrefix(trimLine(text), "event=0x")
		config, err := strconv.ParseUint(digits, 16, 64)
		if ok && err == nil { // otherwise a scale or a unit, or an event with further fields
			events = append(events, PMUEvent{d.Name(), uint32(kind), config})
		}
	}
	mask, err := h.Files.ReadFile(pmuDir + pmu + "/cpumask")
	if errors.Is(err, fs.ErrNotExist) {
		return events, cpus, nil
	}
	if err == nil {
		cpus, err = unit.ParseCPUList(trimLine(mask))
	}
	return events, cpus, err
}

// PMUCounter counts an event on a CPU.
type PMUCounter struct{ fd int }

// OpenPMU starts to count an event on a CPU (perf_event_open(2)). Only this machine can count.
func (h *Host) OpenPMU(e PMUEvent, cpu int) (PMUCounter, error) {
	if _, is := h.Files.(liveFiles); !is {
		return PMUCounter{}, NotRecorded("performance counters")
	}
	attr := unix.PerfEventAttr{Type: e.Type, Config: e.Config, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))}
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return PMUCounter{}, os.NewSyscallError("perf_event_open", err)
	}
	return PMUCounter{fd}, nil
}

// Count returns the number of events since OpenPMU.
func (c PMUCounter) Count() (uint64, error) {
	var b [8]byte
	if n, err := unix.Read(c.fd, b[:]); err != nil || n != len(b) {
		return 0, errors.Join(err, os.ErrInvalid)
	}
	return binary.NativeEndian.Uint64(b[:]), nil
}

// Close stops counting.
func (c PMUCounter) Close() { _ = unix.Close(c.fd) }
