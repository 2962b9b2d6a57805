package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/unit"
)

// perfEvents are the counted hardware and scheduler events (perf_event_open(2)). Virtual
// machines often lack the hardware events.
var perfEvents = []struct {
	name   string
	kind   uint32
	config uint64
}{
	{"cycles", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CPU_CYCLES},
	{"instructions", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_INSTRUCTIONS},
	{"cache_references", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CACHE_REFERENCES},
	{"cache_misses", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CACHE_MISSES},
	{"branch_misses", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_BRANCH_MISSES},
	{"dtlb_load_misses", unix.PERF_TYPE_HW_CACHE, unix.PERF_COUNT_HW_CACHE_DTLB | unix.PERF_COUNT_HW_CACHE_OP_READ<<8 | unix.PERF_COUNT_HW_CACHE_RESULT_MISS<<16},
	{"cpu_migrations", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CPU_MIGRATIONS},
}

// Perf is a set of running performance counters.
type Perf struct{ open map[string][]int }

// OpenPerf starts counting on all CPUs. It omits events that the machine lacks, or that this
// user may not count (kernel.perf_event_paranoid). On copies it omits all.
func (h *Host) OpenPerf() (*Perf, error) {
	p := &Perf{map[string][]int{}}
	if _, is := h.Files.(liveFiles); !is {
		return p, nil
	}
	text, err := h.Files.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return p, err
	}
	cpus, err := unit.ParseCPUList(strings.TrimSpace(string(text)))
	if err != nil {
		return p, fmt.Errorf("/sys/devices/system/cpu/online: %w", err)
	}
	for _, e := range perfEvents {
		attr := unix.PerfEventAttr{Type: e.kind, Config: e.config, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
			Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING}
		for _, cpu := range cpus.Numbers() {
			fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
			if err != nil { // a sum needs every CPU
				closeAll(p.open[e.name])
				delete(p.open, e.name)
				break
			}
			p.open[e.name] = append(p.open[e.name], fd)
		}
	}
	return p, nil
}

// Read returns the counts since OpenPerf, by event. If an event shared a counter with others,
// its count is extrapolated to the whole time.
func (p *Perf) Read() (map[string]float64, error) {
	counted := map[string]float64{}
	for name, fds := range p.open {
		for _, fd := range fds {
			n, was, err := readCounter(fd, name)
			if err != nil {
				return nil, err
			}
			if was {
				counted[name] += n
			}
		}
	}
	return counted, nil
}

// readCounter returns the count of an event, extrapolated to the time for which it was enabled.
// counted is false if it was never counted.
func readCounter(fd int, name string) (n float64, counted bool, err error) {
	var b [24]byte // value, time enabled, time running
	if n, err := unix.Read(fd, b[:]); err != nil || n != len(b) {
		return 0, false, fmt.Errorf("performance counter %s: %w", name, errors.Join(err, os.ErrInvalid))
	}
	value, enabled, running := binary.NativeEndian.Uint64(b[:]), binary.NativeEndian.Uint64(b[8:]), binary.NativeEndian.Uint64(b[16:])
	if running == 0 {
		return 0, false, nil
	}
	return float64(value) * float64(enabled) / float64(running), true, nil
}

// Close stops counting.
func (p *Perf) Close() {
	for _, fds := range p.open {
		closeAll(fds)
	}
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
