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
	"fettle.dev/fettle/internal/ui"
)

// watchdogEnv is added to the watchdog's environment; only the tests set it, to
// name the machine that stands in.
var watchdogEnv []string

// startTrial starts the watchdog that undoes the trial and returns the
// deadline. The watchdog is a process of its own in a session of its own, so
// that it outlives the terminal and a kill -9 of this process; it is started
// before anything is written. Should it die as well, the next fettle that
// writes, or the next boot, finds the deadline in the journal.
func (m *machine) startTrial(d time.Duration) (*journal.Try, error) {
	// A watchdog for a journal that cannot be begun would have nothing to do.
	if err := journal.Prepare(m.engine.StateDir); err != nil {
		return nil, err
	}
	up, err := m.host.Clock.SinceBoot()
	if err != nil {
		return nil, err
	}
	try := &journal.Try{Until: m.host.Clock.Now().Add(d).UTC(), SinceBoot: up + d}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"watch-trial", "--deadline", try.SinceBoot.String(), "--parent", strconv.Itoa(os.Getpid())}
	if m.stateDir != "" {
		args = append(args, "--state-dir", m.stateDir)
	}
	// Under systemd a process that must outlive its login session needs a unit
	// of its own: KillUserProcesses= ends everything in the session's scope. A
	// shutdown need not wait for it: the next boot ends the trial.
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		if run, err := m.host.Exec.LookPath("systemd-run"); err == nil {
			cmd := exec.Command(run, append([]string{"--quiet", "--collect", "--no-ask-password", "--property=KillSignal=SIGKILL", self}, args...)...)
			if cmd.Run() == nil {
				return try, nil
			}
		}
	}
	cmd := exec.Command(self, args...)
	cmd.Dir = "/"
	cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, watchdogEnv...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := startReady(cmd); err != nil {
		return nil, fmt.Errorf("the watchdog of the trial cannot be started, so nothing is changed: %w", err)
	}
	return try, nil
}

// readyFD is where a watchdog says that it is on its guard.
const readyFD = 3

// startReady starts the watchdog and waits until no signal can end it any more:
// the terminal may go at the very next moment.
func startReady(cmd *exec.Cmd) error {
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
		return fmt.Errorf("it ended before it was ready (%w)", err)
	}
	return cmd.Process.Release()
}

// sayReady tells the parent that no signal can end this watchdog any more.
func sayReady() error {
	f := os.NewFile(readyFD, "ready")
	_, err := f.Write([]byte{1})
	return errors.Join(err, f.Close())
}

// watchTrialCommand is the watchdog: it sleeps until the deadline and then takes
// back the trials that nobody confirmed.
func watchTrialCommand(a *app) *cobra.Command {
	var deadline time.Duration
	var parent int
	var ready bool
	c := &cobra.Command{
		Use: "watch-trial", Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			// The terminal may go, and take no trial with it.
			ctx := context.WithoutCancel(c.Context())
			signal.Ignore(syscall.SIGHUP, os.Interrupt)
			told := make(chan os.Signal, 1)
			signal.Notify(told, syscall.SIGTERM)
			m, err := a.machineAsIs(ctx)
			if err != nil {
				return err
			}
			if ready {
				if err := sayReady(); err != nil {
					return err
				}
			}
			return m.watchTrial(ctx, deadline, parent, told)
		},
	}
	c.Flags().IntVar(&parent, "parent", 0, "process that begins the trial")
	c.Flags().BoolVar(&ready, "ready", false, "say on descriptor 3 when signals cannot end it any more")
	c.Flags().DurationVar(&deadline, "deadline", 0, "time since boot at which the trial is over")
	return c
}

// watchTrial ends when the trial is confirmed, taken back or never begun. Whoever
// tells it to end (SIGTERM) ends the trial: without a watchdog nothing would.
func (m *machine) watchTrial(ctx context.Context, deadline time.Duration, parent int, told <-chan os.Signal) error {
	var ended time.Duration // when the trial was over; 0 until then
	stopped, seen := false, false
	wait := func(d time.Duration) {
		select {
		case <-told:
			stopped = true
		case <-time.After(d):
		}
	}
	for {
		up, err := m.host.Clock.SinceBoot()
		if err != nil {
			return err
		}
		var standing []int
		// Asked before the journal is read: what the parent has begun is in it
		// once the parent is gone.
		_, gone := os.Stat("/proc/" + strconv.Itoa(parent))
		if s, err := m.engine.State(); err == nil {
			for _, t := range s.Live() {
				if t.Try != nil && t.Try.SinceBoot == deadline && !t.Confirmed {
					standing = append(standing, t.ID)
				}
			}
			// Confirmed, taken back already, or never begun.
			if len(standing) == 0 && (seen || gone != nil) {
				return nil
			}
			seen = seen || len(standing) > 0
		}
		if up < deadline && !(stopped && len(standing) > 0) {
			// Short sleeps: CLOCK_BOOTTIME goes on in suspend, timers do not.
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
			e := *m.engine
			e.Reason = "trial ended with its watchdog, which was told to stop"
			_, err = e.Undo(ctx, standing...)
		} else {
			_, err = m.engine.Recover(ctx)
		}
		// Another fettle may hold the lock, or a place refuse for a moment: the
		// trial is over all the same.
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

// ConfirmResult is the JSON form of fettle confirm.
type ConfirmResult struct {
	Schema       string `json:"schema"` // fettle/confirm/v1
	Transactions []int  `json:"transactions"`
}

func confirmCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "confirm", Short: "Keep what fettle tune --try has put on trial", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := a.mustBeLive(); err != nil {
				return err
			}
			if err := mustBeRoot(); err != nil {
				return err
			}
			m, err := a.machineAsIs(c.Context())
			if err != nil {
				return err
			}
			ids, err := m.engine.Confirm(c.Context())
			if err != nil {
				return err
			}
			if a.data() {
				return ui.Data(a.screen, ConfirmResult{"fettle/confirm/v1", ids}, ui.Done)
			}
			for _, id := range ids {
				fmt.Fprintf(a.screen.Out, "✓ transaction %d stays\n", id)
			}
			return nil
		},
	}
}

// recoverCommand is what the early unit runs at boot, before anything else
// tunes: what was cut off and what was on trial goes back.
func recoverCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "recover", Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			m, err := a.machineAsIs(c.Context())
			if err != nil {
				return err
			}
			ids, err := m.engine.Recover(context.WithoutCancel(c.Context()))
			for _, id := range ids {
				a.screen.Say("transaction %d taken back", id)
			}
			return err
		},
	}
}
