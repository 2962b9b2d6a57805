package memory

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
)

// Task describes one measurement of a cell, made by one process.
type Task struct {
	Pages Pages `json:"pages"`
	Bytes int64 `json:"size_bytes"` // of the mapping, a multiple of the page
	Reads int64 `json:"reads"`
	// CPUs are the CPUs to use; Node is the node for the memory. If CPUs is nil, the kernel
	// selects both.
	CPUs []int `json:"cpus,omitempty"`
	Node int   `json:"node"`
	// Seed determines the order of the reads. It is the same for all cells of a round.
	Seed uint64 `json:"seed"`
}

// Sample is what a Task measured.
type Sample struct {
	// TouchCPUS and RandomCPUS are CPU times (user and system); TouchS and RandomS are elapsed
	// times. All are in seconds.
	TouchCPUS  float64 `json:"touch_cpu_s"`
	TouchS     float64 `json:"touch_s"`
	RandomCPUS float64 `json:"random_cpu_s"`
	RandomS    float64 `json:"random_s"`
	Faults     int64   `json:"page_faults"` // of the first touch
	// Huge is the share of the mapping in pages of the requested size (/proc/self/smaps).
	Huge float64 `json:"huge_share"`
	// Placed is the share on the requested node (/proc/self/numa_maps); 1 if the kernel chooses.
	Placed float64 `json:"placed_share"`
}

const (
	mapHugeShift  = 26 // MAP_HUGE_SHIFT (include/uapi/linux/mman.h)
	bytesOfRead   = 8
	multiplier    = 6364136223846793005 // Knuth's 64-bit linear congruential generator
	increment     = 1442695040888963407
	highestOfHash = 33
)

// Measure takes one sample in this process, on one thread bound to the CPUs.
func (v Task) Measure() (Sample, error) {
	var s Sample
	if v.Bytes <= 0 || v.Bytes%v.Pages.Page() != 0 {
		return s, fmt.Errorf("%s: want a multiple of the page size, %s", text.Count(v.Bytes, "byte"), text.Count(v.Pages.Page(), "byte"))
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := v.bindCPU(); err != nil {
		return s, err
	}
	// Touch the memory once before measuring. Otherwise the result depends on memory that the
	// previous sample freed or that a hypervisor has backed.
	region, unmap, err := v.mapped()
	if err != nil {
		return s, err
	}
	touch(region)
	unmap()
	if region, unmap, err = v.mapped(); err != nil {
		return s, err
	}
	defer unmap()
	began, err := now()
	if err != nil {
		return s, err
	}
	touch(region)
	touched, err := now()
	if err != nil {
		return s, err
	}
	if s.Huge, s.Placed, err = v.backing(region); err != nil {
		return s, err
	}
	reading, err := now()
	if err != nil {
		return s, err
	}
	runtime.KeepAlive(read(region, v.Reads, v.Seed)) // keeps the compiler from removing the reads
	end, err := now()
	if err != nil {
		return s, err
	}
	s.TouchCPUS, s.TouchS, s.Faults = touched.cpu-began.cpu, touched.wall-began.wall, touched.faults-began.faults
	s.RandomCPUS, s.RandomS = end.cpu-reading.cpu, end.wall-reading.wall
	return s, nil
}

// moment holds the resource usage of a thread at a point in time.
type moment struct {
	cpu, wall float64 // in seconds
	faults    int64
}

func now() (moment, error) {
	var use unix.Rusage
	var cpu, wall unix.Timespec
	err := errors.Join(unix.Getrusage(unix.RUSAGE_THREAD, &use), unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &cpu), unix.ClockGettime(unix.CLOCK_MONOTONIC, &wall))
	seconds := func(t unix.Timespec) float64 { return time.Duration(t.Nano()).Seconds() }
	return moment{seconds(cpu), seconds(wall), use.Minflt + use.Majflt}, err
}

// touch writes one byte of every 4 KiB, in order, like a program that fills its memory.
func touch(region []byte) {
	for at := 0; at < len(region); at += small {
		region[at] = 0
	}
}

// read reads words all over the region. Each address depends on the previous value, so reads
// cannot overlap. All values are 0, but the processor cannot predict them.
func read(region []byte, n int64, seed uint64) uint64 {
	words := uint64(len(region) / bytesOfRead)
	state := seed
	for range n {
		state = state*multiplier + increment
		// The upper bits, scaled to the region's size without a division.
		at := (state >> highestOfHash) * words >> (64 - highestOfHash) * bytesOfRead
		state += binary.LittleEndian.Uint64(region[at:])
	}
	return state
}

// bindCPU binds the thread to the CPUs.
func (v Task) bindCPU() error {
	if len(v.CPUs) == 0 {
		return nil
	}
	var set unix.CPUSet
	for _, c := range v.CPUs {
		set.Set(c)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("the thread cannot be bound to CPUs %v: %w", v.CPUs, err)
	}
	return nil
}

// mapped maps the region without touching it.
func (v Task) mapped() ([]byte, func(), error) {
	flags := unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	length := v.Bytes
	switch v.Pages {
	case HugeTLB2M:
		flags |= unix.MAP_HUGETLB | 21<<mapHugeShift
	case HugeTLB1G:
		flags |= unix.MAP_HUGETLB | 30<<mapHugeShift
	default:
		length += huge // room to align the region to a huge page
		flags |= unix.MAP_NORESERVE
	}
	all, err := unix.Mmap(-1, 0, int(length), unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		if v.Pages.reserved() && errors.Is(err, unix.ENOMEM) {
			err = fmt.Errorf("%w: too few free huge pages", err)
		}
		return nil, nil, fmt.Errorf("%s in pages of %s: %w", text.Count(v.Bytes, "byte"), v.Pages, err)
	}
	region := all
	if !v.Pages.reserved() {
		start := uintptr(unsafe.Pointer(&all[0]))
		skip := int64((start+huge-1)&^(huge-1) - start)
		region = all[skip : skip+v.Bytes]
	}
	fail := func(what string, err error) ([]byte, func(), error) {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", what, err), unix.Munmap(all))
	}
	advice := 0
	switch v.Pages {
	case Small:
		advice = unix.MADV_NOHUGEPAGE
	case THP:
		advice = unix.MADV_HUGEPAGE
	}
	if advice != 0 {
		// EINVAL: the kernel has no transparent huge pages, only small ones.
		if err := unix.Madvise(region, advice); err != nil && (v.Pages == THP || !errors.Is(err, unix.EINVAL)) {
			return fail("madvise", err)
		}
	}
	if len(v.CPUs) > 0 {
		if err := host.BindMemory(region, v.Node, 0); err != nil {
			return fail(fmt.Sprintf("the memory cannot be bound to node %d", v.Node), err)
		}
	}
	return region, func() { _ = unix.Munmap(all) }, nil
}
