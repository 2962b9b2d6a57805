package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/journal"
)

// watchdog is the process that restores the machine should this one be killed.
type watchdog struct {
	cmd *exec.Cmd
	end io.WriteCloser
}

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
// clock wakes the watchdog before.
func (m *machine) guard(deadline *journal.Try, undoCmd string) (*watchdog, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if err := journal.Prepare(m.engine.StateDir); err != nil {
		return nil, err
	}
	args := []string{"watch-experiment", "--deadline", deadline.SinceBoot.String(), "--undo-cmd", undoCmd}
	if m.stateDir != "" {
		args = append(args, "--state-dir", m.stateDir)
	}
	cmd := exec.Command(self, args...)
	cmd.Dir = "/"
	cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, watchdogEnv...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	end, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := startReady(cmd); err != nil {
		return nil, fmt.Errorf("the watchdog of the experiment cannot be started, so nothing is changed: %w", err)
	}
	return &watchdog{cmd, end}, nil
}

// dismiss tells the watchdog that the machine is restored.
func (w *watchdog) dismiss() {
	_, _ = w.end.Write([]byte{1})
	_ = w.end.Close()
}

// watchExperimentCommand is the watchdog of an experiment.
func watchExperimentCommand(a *app) *cobra.Command {
	var deadline time.Duration
	var undoCmd string
	var ready bool
	c := &cobra.Command{
		Use: "watch-experiment", Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			// Whoever ends the session ends the experiment with it, which restores
			// the machine itself; this process outlives it.
			ctx := context.WithoutCancel(c.Context())
			signal.Ignore(syscall.SIGHUP, os.Interrupt, syscall.SIGTERM)
			m, err := a.machineAsIs(ctx)
			if err != nil {
				return err
			}
			if ready {
				if err := sayReady(); err != nil {
					return err
				}
			}
			if n, _ := io.ReadFull(os.Stdin, make([]byte, 1)); n == 1 {
				return nil // dismissed
			}
			return m.restoreExperiment(ctx, deadline, undoCmd)
		},
	}
	c.Flags().BoolVar(&ready, "ready", false, "say on descriptor 3 when signals cannot end it any more")
	c.Flags().DurationVar(&deadline, "deadline", 0, "time since boot that the experiment's transactions bear")
	c.Flags().StringVar(&undoCmd, "undo-cmd", "", "command that undoes the change")
	return c
}

// restoreExperiment takes back what an experiment has left in force.
func (m *machine) restoreExperiment(ctx context.Context, deadline time.Duration, undoCmd string) error {
	var errs []error
	if undoCmd != "" {
		errs = append(errs, exec.CommandContext(ctx, "/bin/sh", "-c", undoCmd).Run())
	}
	m.engine.Reason = "experiment whose process was killed"
	for try := range 3000 {
		err := m.takeBackExperiment(ctx, deadline)
		if err == nil {
			return errors.Join(errs...)
		}
		if !errors.Is(err, journal.ErrBusy) && try > 100 {
			return errors.Join(append(errs, err)...)
		}
		time.Sleep(200 * time.Millisecond)
	}
	return errors.Join(append(errs, journal.ErrBusy)...)
}

func (m *machine) takeBackExperiment(ctx context.Context, deadline time.Duration) error {
	if _, err := m.engine.Recover(ctx); err != nil { // what was cut off in the middle
		return err
	}
	s, err := m.engine.State()
	if err != nil {
		return err
	}
	var standing []int
	for _, t := range s.Live() {
		if t.Try != nil && t.Try.Experiment && t.Try.SinceBoot == deadline {
			standing = append(standing, t.ID)
		}
	}
	if len(standing) == 0 {
		return nil
	}
	_, err = m.engine.Undo(ctx, standing...)
	return err
}
