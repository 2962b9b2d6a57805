package host

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// taskRecorder makes the kernel record the names of recently started processes in a ring
// buffer for each CPU. So the name of a process is known after it has ended. It causes no
// wake-ups: the rings are read on demand (perf_event_open(2), write_backward; the events have
// the dummy type, which counts nothing).
type taskRecorder struct {
	pages int // pages of one ring, a power of two; 0 means nothing is recorded
	mu    sync.Mutex
	rings map[int]*taskRing // by CPU
}

type taskRing struct {
	fd   int
	area []byte // struct perf_event_mmap_page, then the ring
}

// ringBytes is the maximum total size of all rings, largestRing the maximum size of one. Each ring
// has at least one page, even if the total is then larger. The start and end of a process need
// about 150 bytes.
const (
	ringBytes   = 512 << 10
	largestRing = 64 << 10
)

// pagesOfRing returns the number of pages of one ring on a machine with this many CPUs.
func pagesOfRing(pageSize, cpus int) int {
	pages := max(1, largestRing/pageSize)
	for pages > 1 && pages*pageSize*cpus > ringBytes {
		pages /= 2
	}
	return pages
}

// recordTasks starts recording on all online CPUs. With an error, it returns a recorder that
// records nothing.
func recordTasks() (*taskRecorder, error) {
	cpus, err := onlineCPUs()
	if err != nil {
		return &taskRecorder{}, err
	}
	r := &taskRecorder{pages: pagesOfRing(os.Getpagesize(), cpus.Len()), rings: map[int]*taskRing{}}
	for _, cpu := range cpus.Numbers() {
		if err := r.add(cpu); err != nil {
			r.close()
			return &taskRecorder{}, fmt.Errorf("perf_event_open: %w", err)
		}
	}
	return r, nil
}

// follow adds the CPUs that came online since the last call.
func (r *taskRecorder) follow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pages == 0 {
		return
	}
	cpus, err := onlineCPUs()
	if err != nil {
		return
	}
	for _, cpu := range cpus.Numbers() {
		if r.rings[cpu] == nil {
			_ = r.add(cpu) // may be offline again
		}
	}
}

func (r *taskRecorder) add(cpu int) error {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY,
		Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Sample_type: unix.PERF_SAMPLE_TIME,
		Bits: unix.PerfBitComm | unix.PerfBitTask | unix.PerfBitSampleIDAll | unix.PerfBitWriteBackward,
	}
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return err
	}
	// Without PROT_WRITE the kernel overwrites old records.
	area, err := unix.Mmap(fd, 0, (1+r.pages)*os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		unix.Close(fd)
		return err
	}
	r.rings[cpu] = &taskRing{fd, area}
	return nil
}

func (r *taskRecorder) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pages = 0
	for cpu, ring := range r.rings {
		_ = unix.Munmap(ring.area)
		unix.Close(ring.fd)
		delete(r.rings, cpu)
	}
}

// headAt is the offset of data_head in struct perf_event_mmap_page.
const headAt = 1024

// ringSlack is how many bytes beyond the head the kernel may be overwriting: one record for
// each context that can interrupt another.
const ringSlack = 512

// read copies the records of one ring, newest first. whole is false if older records were
// overwritten.
func (ring *taskRing) read() (records []byte, whole bool) {
	data := ring.area[os.Getpagesize():]
	size := uint64(len(data))
	head := (*uint64)(unsafe.Pointer(&ring.area[headAt]))
	// The head decreases from 0. Records written during the copy overwrite the oldest records,
	// at the end.
	for range 4 {
		from := atomic.LoadUint64(head)
		at := from & (size - 1)
		out := append(append(make([]byte, 0, size), data[at:]...), data[:at]...)
		moved := from - atomic.LoadUint64(head)
		if moved+ringSlack < size {
			n := min(-from, size-moved-ringSlack)
			return out[:n], n == -from
		}
	}
	return nil, false
}

// recorded returns the contents of all rings.
func (r *taskRecorder) recorded() recordedTasks {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := recordedTasks{tasks: map[int]recordedTask{}}
	for _, ring := range r.rings {
		s.add(ring.read())
	}
	return s
}

// recordedTasks contains the newest record of each process id.
type recordedTasks struct {
	tasks map[int]recordedTask
	// since is the time from which all rings are complete, by the recorder's clock.
	since uint64
}

type recordedTask struct {
	comm   string
	named  uint64 // time of this name
	parent int
	began  uint64 // time of the fork
}

// add parses the records of a ring: struct perf_event_header, then PERF_RECORD_COMM or
// PERF_RECORD_FORK, then the time (include/uapi/linux/perf_event.h). It stops at an invalid
// record.
func (s *recordedTasks) add(b []byte, whole bool) {
	const head, trailer = 8, 8
	oldest := ^uint64(0) // for a ring without records
	for len(b) >= head+trailer {
		size := int(native.Uint16(b[6:]))
		if size < head+trailer || size > len(b) {
			break
		}
		body, at := b[head:size-trailer], native.Uint64(b[size-trailer:])
		oldest = at
		switch native.Uint32(b) {
		case unix.PERF_RECORD_COMM:
			if len(body) < 8 || native.Uint32(body) != native.Uint32(body[4:]) {
				break // the name of a thread
			}
			pid := int(native.Uint32(body))
			name, _, _ := bytes.Cut(body[8:], []byte{0})
			if t := s.tasks[pid]; t.comm == "" || at > t.named {
				t.comm, t.named = printable(string(name)), at
				s.tasks[pid] = t
			}
		case unix.PERF_RECORD_FORK:
			if len(body) < 16 || native.Uint32(body) != native.Uint32(body[8:]) {
				break // a thread
			}
			pid := int(native.Uint32(body))
			if t := s.tasks[pid]; t.parent == 0 || at > t.began {
				t.parent, t.began = int(native.Uint32(body[4:])), at
				s.tasks[pid] = t
			}
		}
		b = b[size:]
	}
	if !whole {
		s.since = max(s.since, oldest)
	}
}

// name returns the latest name of a process since its start: the parent's name if the process was
// certainly never renamed.
func (s *recordedTasks) name(pid int) string {
	for range 8 {
		t := s.tasks[pid]
		switch {
		case t.comm != "" && t.named >= t.began:
			return t.comm
		case t.parent == 0 || t.began < s.since:
			return ""
		}
		if name := commOf(t.parent); name != "" {
			return name
		}
		pid = t.parent
	}
	return ""
}
