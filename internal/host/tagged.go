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

// tagVariable is the environment variable that tells a call's programs from all
// others: each inherits it, also one that has a session of its own.
const tagVariable = "FETTLE_CALL"

// EnvTag is the entry of an environment that marks a program, and all that it starts,
// for Ender.
func EnvTag(mark string) string { return tagVariable + "=" + mark }

// TaggedKiller ends programs by the mark of the call that they come from.
type TaggedKiller interface {
	// KillTagged kills every program that runs with this Command.Mark, whoever
	// its parent is by now, and returns once none is left. A program that has
	// emptied its environment is not found. It waits five seconds at most.
	KillTagged(mark string) error
}

// KillTagged implements Ender.
func (liveExec) KillTagged(mark string) error { return KillTagged(mark) }

// KillTagged is Ender's, for programs of the kernel that this process runs on.
func KillTagged(mark string) error {
	entry := []byte(EnvTag(mark))
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		// Anew until nothing is found: what is killed may just have forked.
		left, err := killTagged(entry)
		if err != nil || left == 0 {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d programs that were to end go on (%s=%s in their environment)", left, tagVariable, mark)
		}
	}
}

// killTagged kills the processes with this entry in their environment and
// returns how many there were.
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
		// The number may be another's by now: the descriptor is not.
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // ended meanwhile
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

// hasEntry is false for a process that has ended, collected by its parent or not.
func hasEntry(pid int, entry []byte) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
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
