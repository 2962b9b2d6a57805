package activity

import (
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/host"
)

// syscallFile is the file with a thread's system call. Only root, or the process's user, can
// read it.
const syscallFile = "/proc/*/task/*/syscall"

// readLocks counts the threads that wait for each mutex of a process with several threads. The
// kernel has no counter for that: a thread that waits for a mutex looks idle.
func readLocks(h *host.Host, p *process, threads []fs.DirEntry) {
	for _, t := range threads {
		file := path.Join(p.dir("task"), t.Name(), "syscall")
		text, err := h.Files.ReadFile(file)
		if errors.Is(err, fs.ErrPermission) {
			p.locksUnknown = host.Why(file, err)
			return
		}
		if address := parseMutexWait(string(text)); address != "" { // "" also for a thread that has ended
			if p.locks == nil {
				p.locks = map[string]int{}
			}
			p.locks[address]++
		}
	}
}

// parseMutexWait returns the address of the mutex that a thread waits for, or "", from
// /proc/PID/task/TID/syscall: the number of the system call, six arguments, and two registers
// (proc_pid_syscall(5)). glibc waits for a mutex with FUTEX_WAIT, the value 2 ("locked, others
// wait") and no timeout, or with FUTEX_LOCK_PI. Condition variables, semaphores and joins, on
// which idle threads wait, use FUTEX_WAIT_BITSET or other values.
func parseMutexWait(text string) string {
	w := strings.Fields(text)
	if len(w) < 5 || w[0] != strconv.Itoa(unix.SYS_FUTEX) {
		return ""
	}
	operation, err := strconv.ParseUint(w[2], 0, 32)
	if err != nil {
		return ""
	}
	const private, clock = 128, 256 // FUTEX_PRIVATE_FLAG, FUTEX_CLOCK_REALTIME
	switch operation &^ (private | clock) {
	case 0: // FUTEX_WAIT
		if w[3] == "0x2" && w[4] == "0x0" {
			return w[1]
		}
	case 6, 13: // FUTEX_LOCK_PI, FUTEX_LOCK_PI2
		return w[1]
	}
	return ""
}

// lockWaiting returns the number of threads that waited for the same mutex at both readings of a
// process: the highest of all its mutexes.
func lockWaiting(was, now *process) float64 {
	most := 0
	for address, n := range now.locks {
		most = max(most, min(n, was.locks[address]))
	}
	return float64(most)
}

// addLocks adds, by process, the number of threads that waited for one mutex. If no process had
// any, it adds 0 for the whole machine.
func (p *processes) addLocks(all []Consumer) {
	const name = "lock.waiting"
	found := false
	for i := range all {
		if n := all[i].LockWaitingThreads; n > 0 {
			p.own.counters[counter{name, all[i].Process()}], found = n, true
		}
	}
	if found {
		return
	}
	for _, one := range p.all {
		if one.locksUnknown != "" {
			p.own.unknown[syscallFile] = one.locksUnknown
			return
		}
	}
	p.own.set(name, 0)
}
