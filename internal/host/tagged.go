package host

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// tagVariable is the environment variable that identifies the programs of one call.
// Descendants inherit it, even in other sessions.
const tagVariable = "FETTLE_CALL"

// EnvTag returns the environment entry that tags a program and its descendants for
// TaggedKiller.
func EnvTag(mark string) string { return tagVariable + "=" + mark }

// TaggedKiller kills programs by the tag of the call that started them.
type TaggedKiller interface {
	// KillTagged kills every program with this Command.Tag, regardless of its parent. It
	// returns when none is left, or an error after five seconds. It does not find programs
	// that cleared their environment.
	KillTagged(mark string) error
}

// KillTagged implements TaggedKiller.
func (liveExec) KillTagged(mark string) error { return KillTagged(mark) }

// KillTagged kills the tagged programs of this process's kernel, as TaggedKiller specifies.
func KillTagged(mark string) error {
	entry := []byte(EnvTag(mark))
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		// Repeat until none is found: a program may have forked before it was killed.
		left, err := killTagged(entry)
		if err != nil || left == 0 {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d programs were killed but have not ended (%s=%s in their environment)", left, tagVariable, mark)
		}
	}
}

// killTagged kills the processes with an entry in their environment and returns their number.
func killTagged(entry []byte) (int, error) {
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	n := 0
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil || pid == os.Getpid() || !hasEntry(pid, entry) {
			continue
		}
		// A process id may be reused, but not a descriptor.
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // ended since
		}
		if hasEntry(pid, entry) {
			n++
			err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		unix.Close(fd)
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return n, fmt.Errorf("process %d: %w", pid, err)
		}
	}
	return n, nil
}

// hasEntry reports whether a process has an entry in its environment. It returns false for an
// ended process.
func hasEntry(pid int, entry []byte) bool {
	env, err := readCapped("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for e := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.Equal(e, entry) {
			return true
		}
	}
	return false
}
