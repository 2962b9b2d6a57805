package memory

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Visit is what one process is asked to measure: a cell, once.
type Visit struct {
	Pages Pages `json:"pages"`
	// Bytes is the size of the mapping, a multiple of the page.
	Bytes int64 `json:"size_bytes"`
	Reads int64 `json:"reads"`
	// CPUs are those that may be used, and Node is where the memory has to be; no
	// CPUs: wherever the kernel chooses.
	CPUs []int `json:"cpus,omitempty"`
	Node int   `json:"node"`
	// Seed is that of the order of the reads, the same for all cells of a round.
	Seed uint64 `json:"seed"`
}

// Sample is what a visit has found.
type Sample struct {
	// TouchCPUS and RandomCPUS are times of the CPU (user and system) in seconds,
	// TouchS and RandomS those of the clock on the wall.
	TouchCPUS  float64 `json:"touch_cpu_s"`
	TouchS     float64 `json:"touch_s"`
	RandomCPUS float64 `json:"random_cpu_s"`
	RandomS    float64 `json:"random_s"`
	Faults     int64   `json:"page_faults"` // of the first touch
	// Huge is the share of the mapping that is in pages of the size asked for, or of
	// 4k the share that is not: /proc/self/smaps.
	Huge float64 `json:"huge_share"`
	// Placed is the share that is on the node asked for: /proc/self/numa_maps; 1
	// where none was asked for.
	Placed float64 `json:"placed_share"`
}

// The constants of mbind(2) and of MAP_HUGETLB (include/uapi/linux).
const (
	mpolBind      = 2
	mapHugeShift  = 26
	bitsOfNodes   = 1024 // of the mask that is handed in; the kernel's are 1 << CONFIG_NODES_SHIFT at most
	bytesOfRead   = 8
	multiplier    = 6364136223846793005 // Knuth's for a linear congruence of 64 bits
	increment     = 1442695040888963407
	highestOfHash = 33
)

// Measure makes one visit in this process: on one thread, which it binds.
func (v Visit) Measure() (Sample, error) {
	var s Sample
	if v.Bytes <= 0 || v.Bytes%v.Pages.Page() != 0 {
		return s, fmt.Errorf("%d bytes are no whole number of pages of %d bytes", v.Bytes, v.Pages.Page())
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := v.bindCPU(); err != nil {
		return s, err
	}
	// What the visit before has given back to the kernel, and whether a hypervisor has
	// backed it, must not decide: the memory is touched once before it counts.
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
	runtime.KeepAlive(read(region, v.Reads, v.Seed)) // else the compiler may leave it out
	end, err := now()
	if err != nil {
		return s, err
	}
	s.TouchCPUS, s.TouchS, s.Faults = touched.cpu-began.cpu, touched.wall-began.wall, touched.faults-began.faults
	s.RandomCPUS, s.RandomS = end.cpu-reading.cpu, end.wall-reading.wall
	return s, nil
}

// moment is what a thread has used until now.
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

// touch writes one word of every 4 KiB, in order, as a program that fills its memory
// does.
func touch(region []byte) {
	for at := 0; at < len(region); at += small {
		region[at] = 0
	}
}

// read reads words all over the region. Where the next one is depends on what the last
// one holds, so that no two reads are under way at a time; all hold 0, which the
// processor cannot know.
func read(region []byte, n int64, seed uint64) uint64 {
	words := uint64(len(region) / bytesOfRead)
	state := seed
	for range n {
		state = state*multiplier + increment
		// The upper bits, scaled to the region without a division.
		at := (state >> highestOfHash) * words >> (64 - highestOfHash) * bytesOfRead
		state += binary.LittleEndian.Uint64(region[at:])
	}
	return state
}

// bindCPU keeps the thread on the CPUs asked for.
func (v Visit) bindCPU() error {
	if len(v.CPUs) == 0 {
		return nil
	}
	var set unix.CPUSet
	for _, c := range v.CPUs {
		set.Set(c)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("the thread cannot be kept on CPUs %v: %w", v.CPUs, err)
	}
	return nil
}

// mapped maps the region, without touching it.
func (v Visit) mapped() ([]byte, func(), error) {
	flags := unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	length := v.Bytes
	switch v.Pages {
	case HugeTLB2M:
		flags |= unix.MAP_HUGETLB | 21<<mapHugeShift
	case HugeTLB1G:
		flags |= unix.MAP_HUGETLB | 30<<mapHugeShift
	default:
		length += huge // to begin where a huge page does
		flags |= unix.MAP_NORESERVE
	}
	all, err := unix.Mmap(-1, 0, int(length), unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		if v.Pages.reserved() && errors.Is(err, unix.ENOMEM) {
			err = fmt.Errorf("%w: there are not so many free huge pages", err)
		}
		return nil, nil, fmt.Errorf("%d bytes in pages of %s: %w", v.Bytes, v.Pages, err)
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
		// EINVAL: the kernel was built without transparent huge pages, and so gives
		// small ones anyway.
		if err := unix.Madvise(region, advice); err != nil && (v.Pages == THP || !errors.Is(err, unix.EINVAL)) {
			return fail("madvise", err)
		}
	}
	if len(v.CPUs) > 0 {
		if err := bindMemory(region, v.Node); err != nil {
			return fail(fmt.Sprintf("the memory cannot be bound to node %d", v.Node), err)
		}
	}
	return region, func() { _ = unix.Munmap(all) }, nil
}

// bindMemory is mbind(2) to one node, which x/sys does not have.
func bindMemory(region []byte, node int) error {
	if node < 0 || node >= bitsOfNodes {
		return unix.EINVAL
	}
	var mask [bitsOfNodes / 64]uint64
	mask[node/64] |= 1 << (node % 64)
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(&region[0])), uintptr(len(region)), mpolBind,
		uintptr(unsafe.Pointer(&mask[0])), bitsOfNodes, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
