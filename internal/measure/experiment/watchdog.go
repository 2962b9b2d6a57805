package experiment

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
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/measure/quiet"
	"fettle.dev/fettle/internal/ui"
)

// watchdog is the process that restores the machine if this one is killed.
type watchdog struct{ end io.WriteCloser }

// deadlineAfter returns the deadline of an experiment's transactions, for the case that neither
// its process nor its watchdog undoes them.
func deadlineAfter(m *tune.Machine, d time.Duration) (*journal.Try, error) {
	deadline, err := m.DeadlineAfter(d)
	if err != nil {
		return nil, err
	}
	deadline.Experiment = true
	return deadline, nil
}

// guard starts the watchdog of an experiment. The watchdog waits on a pipe that only this process
// can write to, and wakes when the process ends. The command that undoes the change runs in the
// caller's directory and environment. The watchdog also holds the lease: no other experiment
// begins while it restores the machine.
func guard(w tune.Watchdog, deadline *journal.Try, undoCmd, dir string, lease *os.File) (*watchdog, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := append([]string{"watch-experiment", "--deadline", deadline.SinceBoot.String(), "--undo-cmd", undoCmd, "--dir", dir}, w.Args...)
	cmd := exec.Command(self, args...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), w.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	end, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	cmd.ExtraFiles = []*os.File{lease}
	if err := tune.StartReady(cmd); err != nil {
		return nil, fmt.Errorf("cannot start the watchdog of the experiment; nothing changed: %w", err)
	}
	return &watchdog{end}, nil
}

// mark returns the tag in the environment of processes that an experiment starts.
func mark(deadline time.Duration, what string) string {
	return "experiment-" + what + "-" + strconv.FormatInt(int64(deadline), 10)
}

// Messages to the watchdog.
const (
	applying  = 'a' // the command that makes the change starts
	applied   = 'e' // that command has ended
	dismissed = 'd' // the machine is restored
)

func (w *watchdog) send(message byte) error {
	if _, err := w.end.Write([]byte{message}); err != nil {
		return fmt.Errorf("the watchdog of the experiment has ended: %w", err)
	}
	return nil
}

func (w *watchdog) dismiss() {
	_ = w.send(dismissed)
	_ = w.end.Close()
}

// Leave ends the process at once, for a user who does not want to wait; the watchdog then restores
// the machine.
func (p *Experiment) Leave() { leave(p.Screen, p.guarded.Load() && !p.restored.Load()) }

// leave ends the process. changed reports whether the watchdog has something to restore.
func leave(s *ui.Screen, changed bool) {
	if changed {
		s.Say("left to the watchdog, which restores the machine; see fettle status")
		os.Exit(ui.Incomplete)
	}
	os.Exit(ui.Interrupted)
}

// leaseFD is the file descriptor of the lease in an experiment's watchdog.
const leaseFD = tune.ReadyFD + 1

// Watch runs the watchdog. It returns when the experiment dismisses it. If the experiment's
// process ends first, it undoes the change.
func Watch(ctx context.Context, m *tune.Machine, deadline time.Duration, undoCmd, dir string) error {
	last, message := byte(applied), make([]byte, 1)
	for {
		if n, _ := os.Stdin.Read(message); n == 0 {
			break
		}
		if last = message[0]; last == dismissed {
			return nil
		}
	}
	lease := os.NewFile(leaseFD, "lease")
	_ = tune.Restoring(lease)
	// The work must not load the machine during the restore. The command that makes the change
	// must not run concurrently with the one that undoes it.
	_ = host.KillTagged(mark(deadline, "work"))
	if last == applying {
		_ = host.KillTagged(mark(deadline, "apply"))
	}
	return restore(ctx, m, deadline, undoCmd, dir)
}

// restore undoes changes that an experiment left in force. It retries for ten minutes. After that
// the next fettle prove reports them.
func restore(ctx context.Context, m *tune.Machine, deadline time.Duration, undoCmd, dir string) error {
	m.Reason = "experiment whose process was killed"
	undone := undoCmd == ""
	var err error
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
		err = nil
		if !undone {
			err = undoByCommand(ctx, undoCmd, dir)
			if undone = err == nil; undone {
				err = tune.Unarm(m.StateDir)
			}
		}
		if err = errors.Join(err, undoExperiments(ctx, m, deadline)); err == nil {
			return nil
		}
	}
	_ = m.Host.Log("an experiment was killed, and its change could not be undone: " + err.Error())
	return err
}

func undoByCommand(ctx context.Context, undoCmd, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	return prove.Shell(ctx, undoCmd, dir)
}

// undoExperiments undoes changes that experiments left in force: of the experiment with this
// deadline, or of all if deadline is 0.
func undoExperiments(ctx context.Context, m *tune.Machine, deadline time.Duration) error {
	if _, err := m.Recover(ctx); err != nil { // interrupted transactions
		return err
	}
	s, err := m.State()
	if err != nil {
		return err
	}
	var standing []int
	for _, t := range s.Live() {
		if t.Try != nil && t.Try.Experiment && (deadline == 0 || t.Try.SinceBoot == deadline) {
			standing = append(standing, t.ID)
		}
	}
	if len(standing) == 0 {
		return nil
	}
	if _, err = m.Undo(ctx, standing...); err != nil {
		return err
	}
	quiet.LogMissed(m.Host, quiet.StartMissed(ctx, m.Host, s, standing))
	return nil
}
