package host

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ProcessTree is what a program starts that this process starts, however far away: a process
// whose parent ends is given to this one (PR_SET_CHILD_SUBREAPER, prctl(2)), whatever
// its session, its group and its environment.
type ProcessTree struct{ before map[int]bool }

// TrackDescendants begins with a brood. Children that there are already are none of it. One at a
// time.
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

// Kill kills all of the brood and returns once none is left. It waits five seconds at
// most.
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
				_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) // nobody else waits for it
			}
		}
		switch {
		case left == 0:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("%d processes that the work has started were killed and do not end", left)
		}
	}
}

// contains is true for a process of the brood.
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

// parents is the parent of each process (proc_pid_stat(5)).
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
		f := stat("/proc/" + p.Name()) // nil where it has ended
		if len(f) < 2 {
			continue
		}
		if out[pid], err = strconv.Atoi(f[1]); err != nil {
			return nil, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
	}
	return out, nil
}
