// Package live measures running work that cannot be repeated, such as a production server's. An
// experiment's samples are time windows. Their values come from the kernel's pressure, from logs
// and from Prometheus.
package live

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/prove"
)

// Source provides metrics of running work.
type Source interface {
	// Check returns an error if the source cannot be read. It is called before anything is
	// changed.
	Check(context.Context) error
	// Begin begins a window.
	Begin() error
	// Read returns the values of the window so far; lasted is its duration. It returns errNothing
	// if nothing happened in the window.
	Read(ctx context.Context, lasted time.Duration) (prove.Measurement, error)
}

// errNothing is returned if nothing measurable happened in a window.
var errNothing = errors.New("nothing happened")

// Window measures running work as the workload of an experiment.
type Window struct {
	Length  time.Duration // of a window
	Settle  time.Duration // from a switch to the next window
	Sources []Source
	// Seed varies the lengths of windows by up to a tenth. Otherwise a job that runs every ten
	// minutes could always fall into the same arm.
	Seed uint64
	// Exceeded is called with the values so far, about every tenth of a window.
	Exceeded func(prove.Values) error
	Clock    interface{ Now() time.Time }
	// Tell, if not nil, is called with the reason for waiting before the first window.
	Tell func(why error)
	// Wait waits for a duration; nil means the system's clock.
	Wait func(context.Context, time.Duration) error
}

// jitter is the maximum variation of a window's length.
const jitter = 0.1

// A window without events lasts up to longest times its length, or longestLeast if that is longer:
// a busy machine can stall for seconds.
const (
	longest      = 4
	longestLeast = 30 * time.Second
)

// untilNothing returns the maximum duration of a window without events.
func untilNothing(length time.Duration) time.Duration { return max(longest*length, longestLeast) }

// Check returns an error unless all sources can be read. For a log that was just rotated it waits
// as long as for a window. It ignores other activity on the machine: running work is never idle.
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
	return host.Sleep(ctx, d)
}

// length returns the length of a window.
func (w *Window) length(s prove.Step) time.Duration {
	share := rand.New(rand.NewPCG(w.Seed, ^(uint64(s.Block)<<1 | uint64(s.Place)))).Float64()
	return time.Duration(float64(w.Length) * (1 + jitter*(2*share-1)))
}

// Measure waits until the machine has settled after a switch, then measures one window and returns
// its values.
func (w *Window) Measure(ctx context.Context, s prove.Step) (m prove.Measurement, err error) {
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
		case err != nil: // retried: Prometheus may be unavailable briefly
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
		maps.Copy(all.Values, m.Values)
		if m.Within != nil && all.Within == nil {
			all.Within = m.Within
		}
	}
	return all, nil
}
