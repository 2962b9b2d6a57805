package host

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ProcessTree tracks all direct and indirect descendants of this process, even in other
// sessions and process groups. When a parent ends, its children are reparented to this process
// (PR_SET_CHILD_SUBREAPER, prctl(2)).
type ProcessTree struct{ before map[int]bool }

// TrackDescendants starts tracking; existing children are ignored. Only one
// ProcessTree may be active at a time.
func TrackDescendants() (*ProcessTree, error) {
	b := &ProcessTree{before: map[int]bool{}}
	parents, err := parents()
	if err != nil {
		return nil, err
	}
	for pid, parent := range parents {
		if parent == os.Getpid() {
			b.before[pid] = true
		}
	}
	return b, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// Kill kills all tracked processes. It returns when none is left, or an error after five seconds.
func (b *ProcessTree) Kill() error {
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		parents, err := parents()
		if err != nil {
			return err
		}
		left := 0
		for pid := range parents {
			if !b.contains(parents, pid) {
				continue
			}
			left++
			_ = unix.Kill(pid, unix.SIGKILL)
			if parents[pid] == os.Getpid() {
				_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) // reaps the process; nothing else waits for it
			}
		}
		switch {
		case left == 0:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("%d processes of the measured command were killed but have not ended", left)
		}
	}
}

// contains reports whether pid descends from this process.
func (b *ProcessTree) contains(parents map[int]int, pid int) bool {
	for range len(parents) {
		switch parent := parents[pid]; {
		case b.before[pid] || parent == 0:
			return false
		case parent == os.Getpid():
			return true
		default:
			pid = parent
		}
	}
	return false
}

// parents returns the parent of each process (proc_pid_stat(5)).
func parents() (map[int]int, error) {
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	out := map[int]int{}
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		f := stat("/proc/" + p.Name()) // nil if the process has ended
		if len(f) < 2 {
			continue
		}
		if out[pid], err = strconv.Atoi(f[1]); err != nil {
			return nil, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
	}
	return out, nil
}
