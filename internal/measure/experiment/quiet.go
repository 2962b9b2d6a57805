package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/measure/quiet"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Quiet runs a command in a quiet machine state. Set the fields before Run.
type Quiet struct {
	*tune.Machine
	Watchdog tune.Watchdog
	State    *quiet.State
	// Result is from quiet.NewResult; Run completes it.
	Result *quiet.Result
	// Phase is the length of one measurement of the noise.
	Phase time.Duration
	// Out is the command's standard output.
	Out    *os.File
	Screen *ui.Screen

	held    held
	piece   quiet.Piece // of all measurements of the noise
	tag     string      // of the command's processes
	ended   bool        // restore was called
	changed atomic.Bool
}

// Restored reports whether the machine is as it was. It may be called concurrently.
func (q *Quiet) Restored() bool { return !q.changed.Load() }

// Leave ends the process at once, for a user who does not want to wait; the watchdog then restores
// the machine.
func (q *Quiet) Leave() { leave(q.Screen, q.changed.Load()) }

// longest is the time after which the machine is restored even if the command still runs.
const longest = 30 * 24 * time.Hour

// Run measures the noise, applies the state, runs the command, restores the machine, and starts the
// jobs that were missed. If this process is killed, a watchdog ends the command and restores the
// machine. The error of a command that fails has the command's exit code.
func (q *Quiet) Run(ctx context.Context, command []string) (err error) {
	defer func() {
		err = errors.Join(q.restore(ctx), err)
		q.Screen.Status("")
	}()
	if err := q.held.open(ctx, q.Machine, "quiet"); err != nil {
		return err
	}
	deadline, err := deadlineAfter(q.Machine, longest)
	if err != nil {
		return err
	}
	q.tag = mark(deadline.SinceBoot, "work")
	if err := q.held.guard(q.Watchdog, deadline); err != nil {
		return err
	}
	if q.piece, err = quiet.Calibrate(q.State.Measured.Numbers()[0]); err != nil {
		return err
	}
	var without, with [2]*quiet.Noise
	if without[0], err = q.noise(ctx, "before"); err != nil {
		return err
	}
	if err := q.apply(ctx, deadline); err != nil {
		return err
	}
	if with[0], err = q.noise(ctx, "in the quiet state"); err != nil {
		return err
	}
	return q.finish(ctx, q.run(ctx, command), without, with)
}

// finish measures the noise again and restores the machine after the command. failed is the
// command's error, or nil. without and with have the first measurements.
func (q *Quiet) finish(ctx context.Context, failed error, without, with [2]*quiet.Noise) (err error) {
	if with[1], err = q.noise(ctx, "in the quiet state"); err != nil {
		return errors.Join(err, failed)
	}
	if err := q.restore(ctx); err != nil {
		return errors.Join(err, failed)
	}
	if without[1], err = q.noise(ctx, "afterwards"); err != nil {
		return errors.Join(err, failed)
	}
	q.Result.Noise = quiet.Compare(without, with)
	switch r := q.Result; {
	case r.UndoneEarly:
		r.Noise.Invalidate("fettle undo had ended it")
	case len(r.Kept) > 0:
		r.Noise.Invalidate("another program had changed values")
	}
	return failed
}

// noise measures the noise of the first measured CPU.
func (q *Quiet) noise(ctx context.Context, when string) (*quiet.Noise, error) {
	q.Screen.Status("measuring the noise %s, for %s", when, unit.FormatSeconds(q.Phase.Seconds()))
	defer q.Screen.Status("")
	n, err := q.piece.Measure(ctx, q.State.Measured.Numbers()[0], q.Phase)
	if ctx.Err() != nil {
		return nil, ui.Exit(ui.Interrupted, errors.New("interrupted"))
	}
	return n, err
}

// apply applies the state as a trial, and does what cannot be undone. Values that the kernel
// rejects are left as they are.
func (q *Quiet) apply(ctx context.Context, deadline *journal.Try) error {
	t := &prove.Tuning{Engine: q.Engine, Planner: q.State.Planner(q.Engine), Options: tune.ApplyOptions{Kind: journal.Apply, Try: deadline}}
	var places []setting.Setting
	for _, st := range q.Result.Plan.Steps {
		if st.Action == tune.Write {
			places = append(places, st.Setting)
		}
	}
	if err := tune.UnderTest(q.held.lease, places); err != nil {
		return err
	}
	q.changed.Store(true)
	q.held.tunings = append(q.held.tunings, t) // also after an error: Undo decides whether there is something to undo
	err := t.Apply(ctx)
	if a := t.Applied; a != nil {
		q.Result.Transaction, q.Result.Plan = a.Tx, a.Plan
		if a.Result == journal.ResultPartial {
			err = nil
		}
	}
	switch {
	case ctx.Err() != nil:
		return ui.Exit(ui.Interrupted, errors.Join(errors.New("interrupted"), err))
	case err != nil && !errors.Is(err, prove.ErrNoChange):
		return err
	}
	return quiet.Act(q.Host)
}

// run runs the command on the measured CPUs. Then it kills all processes that the command left.
func (q *Quiet) run(ctx context.Context, command []string) error {
	descendants, err := host.TrackDescendants()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, q.Out, os.Stderr
	cmd.Env = append(os.Environ(), host.EnvTag(q.tag))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	started := make(chan error, 1)
	begun := time.Now()
	go func() {
		// Never unlocked: the thread, whose affinity the command inherits, ends with the goroutine.
		runtime.LockOSThread()
		err := quiet.Pin(q.State.Measured)
		if err == nil {
			err = cmd.Start()
		}
		started <- err
	}()
	if err := <-started; err != nil {
		return ui.Exit(ui.Failed, fmt.Errorf("cannot start the command: %w", err))
	}
	err = cmd.Wait()
	code, signal := exitCode(cmd.ProcessState)
	ran := &quiet.Ran{Args: command, ExitCode: code, Signal: signal, DurationS: time.Since(begun).Seconds()}
	q.Result.Command = ran
	if code != 0 {
		err = ui.Exit(code, errors.New(ran.String()))
	}
	// They would be noise, and stay on the measured CPUs afterwards.
	return errors.Join(err, descendants.Kill(), host.KillTagged(q.tag))
}

// exitCode returns the exit code of a process as a shell has it: 128 plus the signal that ended it.
// signal is the name of that signal, or "".
func exitCode(p *os.ProcessState) (code int, signal string) {
	if st, ok := p.Sys().(syscall.WaitStatus); ok && st.Signaled() {
		return 128 + int(st.Signal()), unix.SignalName(st.Signal())
	}
	return p.ExitCode(), ""
}

// restore undoes the state and starts the jobs that were missed. It does nothing the second time,
// also if the first failed.
func (q *Quiet) restore(ctx context.Context) error {
	if q.ended {
		return nil
	}
	q.ended = true
	ctx = context.WithoutCancel(ctx)
	tunings := q.held.tunings
	err := q.held.release(ctx, "cannot restore the machine")
	undone := errors.Is(err, prove.ErrTakenBack) // by fettle undo, which also started the missed jobs
	if err != nil && !undone {
		return err
	}
	q.changed.Store(false)
	if len(tunings) == 0 || q.Result.Transaction == 0 {
		return nil
	}
	q.Result.Undone = true
	state, err := q.Engine.State()
	if err != nil {
		return err
	}
	if undone {
		q.Result.UndoneEarly, q.Result.UndoneBy = true, undoOf(state, q.Result.Transaction)
		return nil
	}
	for _, t := range tunings {
		if t.Undone != nil {
			q.Result.Kept = append(q.Result.Kept, t.Undone.Kept()...)
		}
	}
	q.Result.Missed = append(q.Result.Missed, quiet.StartMissed(ctx, q.Host, state, []int{q.Result.Transaction})...)
	return nil
}

// undoOf returns the transaction that undid another one, or 0 if the journal no longer has it.
func undoOf(state *journal.State, id int) int {
	for _, t := range slices.Backward(state.Txs) {
		if slices.Contains(t.Undoes, id) {
			return t.ID
		}
	}
	return 0
}
