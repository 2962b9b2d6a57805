package tune

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
)

// Watchdog holds the arguments for starting this program as a watchdog.
type Watchdog struct {
	Args []string // global flags
	Env  []string // additional environment variables
}

// DeadlineAfter returns the deadline d from now on both clocks.
func (m *Machine) DeadlineAfter(d time.Duration) (*journal.Try, error) {
	up, err := m.Host.Clock.SinceBoot()
	if err != nil {
		return nil, err
	}
	return &journal.Try{Until: m.Host.Clock.Now().Add(d).UTC(), SinceBoot: up + d}, nil
}

// StartTrial starts the watchdog that undoes a trial after d, and returns the deadline. The
// watchdog starts before anything is written. It runs in its own session, so it survives the
// terminal and a kill -9 of this process. If it is killed too, the next fettle that writes, or the
// next boot, reads the deadline from the journal.
func (m *Machine) StartTrial(d time.Duration, w Watchdog) (*journal.Try, error) {
	if err := journal.Prepare(m.StateDir); err != nil {
		return nil, err
	}
	try, err := m.DeadlineAfter(d)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"watch-trial", "--deadline", try.SinceBoot.String(), "--parent", strconv.Itoa(os.Getpid())}
	args = append(args, w.Args...)
	// Under systemd a process that must survive its login session needs its own unit:
	// KillUserProcesses= ends everything in the session's scope. A shutdown does not wait for the
	// watchdog; the next boot ends the trial.
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		if run, err := m.Host.Exec.LookPath("systemd-run"); err == nil {
			cmd := exec.Command(run, append([]string{"--quiet", "--collect", "--no-ask-password", "--property=KillSignal=SIGKILL", self}, args...)...)
			if cmd.Run() == nil {
				return try, nil
			}
		}
	}
	cmd := exec.Command(self, args...)
	cmd.Dir = "/"
	cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, w.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := StartReady(cmd); err != nil {
		return nil, fmt.Errorf("cannot start the watchdog of the trial; nothing changed: %w", err)
	}
	return try, nil
}

// ReadyFD is the file descriptor on which a watchdog reports readiness.
const ReadyFD = 3

// StartReady starts a watchdog and waits until it ignores the signals that end a session, because
// the terminal may close at any moment.
func StartReady(cmd *exec.Cmd) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd.ExtraFiles = append([]*os.File{w}, cmd.ExtraFiles...)
	cmd.Args = append(cmd.Args, "--ready")
	err = cmd.Start()
	w.Close()
	if err != nil {
		return err
	}
	_ = r.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.ReadFull(r, make([]byte, 1)); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return fmt.Errorf("the watchdog ended before it was ready (%w)", err)
	}
	return cmd.Process.Release()
}

// ReportReady tells the parent of this watchdog that it is ready.
func ReportReady() error {
	f := os.NewFile(ReadyFD, "ready")
	_, err := f.Write([]byte{1})
	return errors.Join(err, f.Close())
}

// WatchTrial is the watchdog: it undoes the trial at its deadline (time since boot). It returns
// when the trial is confirmed or undone, or if the parent ended without beginning it. A signal
// ends the trial, because nothing else would undo it later.
func (m *Machine) WatchTrial(ctx context.Context, deadline time.Duration, parent int, stop <-chan os.Signal) error {
	var ended time.Duration // time at which the trial ended; 0 until then
	stopped, seen := false, false
	wait := func(d time.Duration) {
		select {
		case <-stop:
			stopped = true
		case <-time.After(d):
		}
	}
	for {
		up, err := m.Host.Clock.SinceBoot()
		if err != nil {
			return err
		}
		var standing []int
		// Check before reading the journal: once the parent has ended, the journal is complete.
		_, gone := os.Stat("/proc/" + strconv.Itoa(parent))
		if s, err := m.State(); err == nil {
			for _, t := range s.Live() {
				if t.Try != nil && t.Try.SinceBoot == deadline && !t.Confirmed {
					standing = append(standing, t.ID)
				}
			}
			// confirmed, undone, or never begun
			if len(standing) == 0 && (seen || gone != nil) {
				return nil
			}
			seen = seen || len(standing) > 0
		}
		if up < deadline && !(stopped && len(standing) > 0) {
			// short sleeps: CLOCK_BOOTTIME counts a suspend, timers do not
			pause := 10 * time.Second
			if stopped {
				pause = 50 * time.Millisecond // until the trial has begun
			}
			wait(min(deadline-up, pause))
			continue
		}
		if ended == 0 {
			ended = up
		}
		if up < deadline {
			e := *m.Engine
			e.Reason = "trial ended because its watchdog was stopped"
			_, err = e.Undo(ctx, standing...)
		} else {
			_, err = m.Recover(ctx)
		}
		// Retry: another fettle may hold the lock, or a write may fail temporarily.
		switch {
		case err == nil:
			return nil
		case errors.Is(err, journal.ErrBusy):
			wait(200 * time.Millisecond)
		case up > ended+10*time.Minute:
			return err
		default:
			wait(5 * time.Second)
		}
	}
}
