// Package live measures work that goes on by itself and cannot be repeated, as that of
// a production server: the visits of an experiment are windows of time, and what is
// measured in them is read from the kernel's pressure, from logs and from a Prometheus.
package live

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"fettle.dev/fettle/internal/measure/prove"
)

// Source is where metrics of running work are read.
type Source interface {
	// Check looks whether there is something to read, before anything is changed.
	Check(context.Context) error
	// Begin begins a window.
	Begin() error
	// Read is what the window has measured so far, after it has lasted for a time. It
	// is errNothing where nothing has happened in it.
	Read(ctx context.Context, lasted time.Duration) (prove.Measurement, error)
}

// errNothing is that nothing has happened in a window that could be measured.
var errNothing = errors.New("nothing happened")

// Window is running work as the workload of an experiment.
type Window struct {
	Length  time.Duration // of one window
	Settle  time.Duration // after each switch, until a window begins
	Sources []Source
	// Seed makes the windows longer or shorter, by at most a tenth: a job that runs
	// every ten minutes must not always fall into the same arm.
	Seed uint64
	// Exceeded is asked during the window, about a tenth of it apart.
	Exceeded func(prove.Values) error
	Clock    interface{ Now() time.Time }
	// Tell is called with what has to be waited for before the first window; may be nil.
	Tell func(why error)
	// Wait waits; nil is by the system's clock.
	Wait func(context.Context, time.Duration) error
}

// jitter is by how much of its length a window may be longer or shorter.
const jitter = 0.1

// longest is how many times its length a window may last until something happens in it,
// and longestLeast how long it may whatever its length: a busy machine stands still for
// seconds.
const (
	longest      = 4
	longestLeast = 30 * time.Second
)

// untilNothing is how long a window of some length may last until something happens in
// it.
func untilNothing(length time.Duration) time.Duration { return max(longest*length, longestLeast) }

// Check looks whether all sources can be read. A log that was just rotated is waited for,
// as long as a window would be: running work is never at rest, and nothing else of the
// machine would make the answer worthless.
func (w *Window) Check(ctx context.Context) error {
	for _, s := range w.Sources {
		if err := w.check(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (w *Window) check(ctx context.Context, s Source) error {
	err := s.Check(ctx)
	if !errors.Is(err, errEmpty) {
		return err
	}
	if w.Tell != nil {
		w.Tell(err)
	}
	began := w.Clock.Now()
	for {
		err := s.Check(ctx)
		if !errors.Is(err, errEmpty) {
			return err
		}
		if waited := w.Clock.Now().Sub(began); waited >= untilNothing(w.Length) {
			return fmt.Errorf("%w after %v", err, waited.Round(time.Second))
		}
		if err := w.wait(ctx, min(w.Length/10, time.Second)); err != nil {
			return err
		}
	}
}

func (w *Window) wait(ctx context.Context, d time.Duration) error {
	if w.Wait != nil {
		return w.Wait(ctx, d)
	}
	return sleep(ctx, d)
}

// length is that of one window.
func (w *Window) length(s prove.Step) time.Duration {
	stream := uint64(s.Quad)<<3 | uint64(s.Place)<<1
	if s.Phase == prove.Placebo {
		stream |= 1
	}
	share := rand.New(rand.NewPCG(w.Seed, ^stream)).Float64()
	return time.Duration(float64(w.Length) * (1 + jitter*(2*share-1)))
}

// Visit waits until the machine has settled, where it has just been switched, and then
// for a window, and reads what happened in it.
func (w *Window) Visit(ctx context.Context, s prove.Step) (m prove.Measurement, err error) {
	if s.Switch {
		if err := w.wait(ctx, w.Settle); err != nil {
			return m, err
		}
	}
	for _, source := range w.Sources {
		if err := source.Begin(); err != nil {
			return m, err
		}
	}
	began, length := w.Clock.Now(), w.length(s)
	for {
		step := length / 10
		if left := length - w.Clock.Now().Sub(began); left > 0 {
			step = min(step, left)
		}
		if err := w.wait(ctx, step); err != nil {
			return m, err
		}
		lasted := w.Clock.Now().Sub(began)
		m, err = w.read(ctx, lasted)
		over := lasted >= length
		switch {
		case errors.Is(err, errNothing) && lasted < untilNothing(length):
		case errors.Is(err, errNothing):
			return m, fmt.Errorf("in %v %w", lasted.Round(time.Second), err)
		case err != nil && over:
			return m, err
		case err != nil: // asked again: a Prometheus may be away for a moment
		case over:
			return m, nil
		default:
			if err := w.Exceeded(m.Values); err != nil {
				return m, err
			}
		}
	}
}

func (w *Window) read(ctx context.Context, lasted time.Duration) (prove.Measurement, error) {
	all := prove.Measurement{Values: prove.Values{}}
	for _, source := range w.Sources {
		m, err := source.Read(ctx, lasted)
		if err != nil {
			return all, err
		}
		for name, v := range m.Values {
			all.Values[name] = v
		}
		if m.Within != nil && all.Within == nil {
			all.Within = m.Within
		}
	}
	return all, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
