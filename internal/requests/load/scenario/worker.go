package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"fettle.dev/fettle/internal/requests/load/fleet"
)

// Worker runs shares of a scenario's hosts for a fleet.
type Worker struct {
	// Stored is a job as JSON, or nil. The fields in the caller's message replace its own.
	Stored []byte
	// Able returns an error if this process cannot run a number of hosts of a plan.
	Able func(p *Plan, hosts int) error

	job *Job
}

// turn is what a worker does in a run.
type turn struct {
	Do task `json:"do"`
	// Shared holds the values of the setup, with runHosts; nil without a setup.
	Shared []sharedValue `json:"shared"`
	// Objects holds the objects to remove, with runUndo.
	Objects []object `json:"objects,omitempty"`
}

type task string

// Tasks of a worker. It does nothing without one.
const (
	runHosts task = "hosts" // its share
	runSetup task = "setup"
	runUndo  task = "undo"
)

// Prepare reads a job. Each host connects at its first request.
func (w *Worker) Prepare(ctx context.Context, text []byte) (*fleet.Ready, error) {
	j := &Job{}
	if w.Stored != nil {
		if err := json.Unmarshal(w.Stored, j); err != nil {
			return nil, fmt.Errorf("the stored job: %w", err)
		}
	}
	if err := json.Unmarshal(text, j); err != nil {
		return nil, err
	}
	p, err := j.Plan(ctx, net.DefaultResolver)
	if err != nil {
		return nil, err
	}
	if err := w.Able(p, (p.Hosts()+max(1, j.Step)-1)/max(1, j.Step)); err != nil {
		return nil, err
	}
	w.job = j
	return &fleet.Ready{}, nil
}

// Run runs every Of-th host, from host First on, or the other task that the turn names. The
// coordinator records the objects that are created and removed.
func (w *Worker) Run(ctx context.Context, s fleet.Share, to fleet.Coordinator) (*fleet.Part, error) {
	if w.job == nil {
		return nil, errors.New("received a share of the load before the job")
	}
	var now turn
	if err := json.Unmarshal(s.Scenario, &now); err != nil {
		return nil, fmt.Errorf("what to run: %w", err)
	}
	j := *w.job
	j.First, j.Step = int(s.First), int(s.Of)
	p, err := j.Plan(ctx, net.DefaultResolver)
	if err != nil {
		return nil, err
	}
	if p.Creates {
		p.Journal = recordingAt(to)
	}
	p.shared = now.Shared
	switch now.Do {
	case runHosts:
	case runUndo:
		return undoTurn(ctx, p, now.Objects, to)
	case runSetup:
		defer reporting(ctx, to, func() int64 { return 0 })()
	default:
		return nil, fmt.Errorf("unknown task %q", now.Do)
	}
	part, err := drive(ctx, p, now.Do == runSetup, func(n Now) { to.Now(fleet.Now{At: n.At, Ended: n.Ended, Failed: n.Failed}) })
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(part)
	return &fleet.Part{Counts: fleet.Counts{Until: part.Took, CPU: part.CPU, Processors: part.Processors}, Scenario: text}, err
}

// undoTurn removes objects.
func undoTurn(ctx context.Context, p *Plan, objects []object, to fleet.Coordinator) (*fleet.Part, error) {
	var done atomic.Int64
	defer reporting(ctx, to, done.Load)()
	undone, err := Undo(ctx, p, p.Journal, &Objects{Head: Head{Options: p.Options}, all: objects}, func(n, _ int) { done.Store(int64(n)) })
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(undone)
	return &fleet.Part{Scenario: text}, err
}

// reporting sends the progress of a long task to the coordinator each second, until end is called.
// ended returns the progress.
func reporting(ctx context.Context, to fleet.Coordinator, ended func() int64) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	at := time.Duration(0)
	go func() {
		defer close(over)
		tick(ctx, func() {
			at += time.Second
			to.Now(fleet.Now{At: at, Ended: ended()})
		})
	}()
	return func() {
		cancel()
		<-over
	}
}
