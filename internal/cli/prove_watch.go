package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/ui"
)

// watchdog is the process that restores the machine should this one be killed.
type watchdog struct{ end io.WriteCloser }

// deadline is when transactions of an experiment are over, should neither its process
// nor its watchdog have taken them back.
func (m *machine) deadline(d time.Duration) (*journal.Try, error) {
	up, err := m.host.Clock.SinceBoot()
	if err != nil {
		return nil, err
	}
	return &journal.Try{Until: m.host.Clock.Now().Add(d).UTC(), SinceBoot: up + d, Experiment: true}, nil
}

// guard starts the watchdog of an experiment. It reads from a pipe whose other end
// this process alone has: the pipe ends with the process, whatever ends that, and no
// clock wakes the watchdog before. What undoes a pair of commands runs in the
// caller's own directory and environment. It holds the lease too: as long as it has
// something to restore no other experiment begins.
func (m *machine) guard(deadline *journal.Try, undoCmd, dir string, lease *os.File) (*watchdog, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"watch-experiment", "--deadline", deadline.SinceBoot.String(), "--undo-cmd", undoCmd, "--dir", dir}
	if m.stateDir != "" {
		args = append(args, "--state-dir", m.stateDir)
	}
	cmd := exec.Command(self, args...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), watchdogEnv...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	end, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	cmd.ExtraFiles = []*os.File{lease}
	if err := startReady(cmd); err != nil {
		return nil, fmt.Errorf("the watchdog of the experiment cannot be started, so nothing is changed: %w", err)
	}
	return &watchdog{end}, nil
}

// mark is in the environment of what an experiment starts.
func mark(deadline time.Duration, what string) string {
	return "experiment-" + what + "-" + strconv.FormatInt(int64(deadline), 10)
}

// What the watchdog is told.
const (
	applying  = 'a' // a command that makes the change begins
	applied   = 'e' // it has ended
	dismissed = 'd' // the machine is restored
)

// tell tells the watchdog, which is there as long as nobody kills it.
func (w *watchdog) tell(what byte) error {
	if _, err := w.end.Write([]byte{what}); err != nil {
		return fmt.Errorf("the watchdog of the experiment has ended: %w", err)
	}
	return nil
}

// leave ends the process at once, for somebody who does not want to wait.
func (p *proof) leave() {
	if p.guarded.Load() && !p.over.Load() {
		p.screen.Say("left to the watchdog, which restores the machine; fettle status says when it has")
		os.Exit(ui.Incomplete)
	}
	os.Exit(ui.Interrupted)
}

// dismiss tells the watchdog that the machine is restored.
func (w *watchdog) dismiss() {
	_ = w.tell(dismissed)
	_ = w.end.Close()
}

// leaseFD is where a watchdog of an experiment has its lease.
const leaseFD = readyFD + 1

// watchExperimentCommand is the watchdog of an experiment.
func watchExperimentCommand(a *app) *cobra.Command {
	var deadline time.Duration
	var undoCmd, dir string
	var ready bool
	c := &cobra.Command{
		Use: "watch-experiment", Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			// Whoever ends the session ends the experiment with it, which restores
			// the machine itself; this process outlives it.
			ctx := context.WithoutCancel(c.Context())
			signal.Ignore(syscall.SIGHUP, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
			m, err := a.machineAsIs(ctx)
			if err != nil {
				return err
			}
			if ready {
				if err := sayReady(); err != nil {
					return err
				}
			}
			last, told := byte(applied), make([]byte, 1)
			for {
				if n, _ := os.Stdin.Read(told); n == 0 {
					break
				}
				if last = told[0]; last == dismissed {
					return nil
				}
			}
			lease := os.NewFile(leaseFD, "lease")
			_ = tune.Restoring(lease)
			// The work must not load the machine that is restored, and a command that
			// makes the change must not go on beside the one that undoes it.
			_ = host.KillTagged(mark(deadline, "work"))
			if last == applying {
				_ = host.KillTagged(mark(deadline, "apply"))
			}
			return m.restoreExperiment(ctx, deadline, undoCmd, dir)
		},
	}
	c.Flags().BoolVar(&ready, "ready", false, "say on descriptor 3 when signals cannot end it any more")
	c.Flags().DurationVar(&deadline, "deadline", 0, "time since boot that the experiment's transactions bear")
	c.Flags().StringVar(&undoCmd, "undo-cmd", "", "command that undoes the change")
	c.Flags().StringVar(&dir, "dir", "/", "where it is started")
	return c
}

// restoreExperiment takes back what an experiment has left in force, again and again
// until it succeeds; for ten minutes, and then the next fettle prove says it.
func (m *machine) restoreExperiment(ctx context.Context, deadline time.Duration, undoCmd, dir string) error {
	m.engine.Reason = "experiment whose process was killed"
	undone := undoCmd == ""
	var err error
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
		err = nil
		if !undone {
			err = undoByCommand(ctx, undoCmd, dir)
			if undone = err == nil; undone {
				err = tune.Unarm(m.engine.StateDir)
			}
		}
		if err = errors.Join(err, m.takeBackExperiments(ctx, deadline)); err == nil {
			return nil
		}
	}
	_ = m.host.Log("an experiment was killed, and its change could not be undone: " + err.Error())
	return err
}

// undoByCommand undoes the change of a pair of commands, in the time that it may take.
func undoByCommand(ctx context.Context, undoCmd, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	return prove.Shell(ctx, undoCmd, dir)
}

// takeBackExperiments takes back what experiments have left in force: the one with
// this deadline, or with 0 all.
func (m *machine) takeBackExperiments(ctx context.Context, deadline time.Duration) error {
	if _, err := m.engine.Recover(ctx); err != nil { // what was cut off in the middle
		return err
	}
	s, err := m.engine.State()
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
	_, err = m.engine.Undo(ctx, standing...)
	return err
}
