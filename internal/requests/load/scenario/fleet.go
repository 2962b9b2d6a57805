package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/requests/load/fleet"
)

// fleetLongest is the time after which a run of a fleet counts as over, if its workers still report.
const fleetLongest = 7 * 24 * time.Hour

// RunFleet runs the scenario by the workers of a fleet. The first runs the setup, whose values all
// get. Each runs its share of the hosts, and their counts are added. The objects that they create
// are recorded in the plan's journal, before their requests. If a worker is lost, the others stop,
// and the result is what they counted.
func RunFleet(ctx context.Context, p *Plan, f *fleet.Fleet, tell func(Now)) (*Result, error) {
	runs := &fleetRun{Fleet: f, plan: p}
	var setup *Part
	of := turn{Do: runHosts}
	if len(p.setup) > 0 {
		var err error
		if setup, err = runs.setup(ctx); err != nil {
			return nil, err
		}
		of.Shared = setup.Shared
	}
	var mu sync.Mutex
	last := make([]fleet.Now, len(f.Clients))
	said, lost, err := runs.turn(ctx, of, f.Clients, func(client int, n fleet.Now) {
		mu.Lock()
		defer mu.Unlock()
		last[client] = n
		all := Now{Passes: int64(p.Hosts() * max(1, p.Options.Load.Repeat))}
		for _, one := range last {
			all.At = max(all.At, one.At)
			all.Ended, all.Failed = all.Ended+one.Ended, all.Failed+one.Failed
		}
		if tell != nil {
			tell(all)
		}
	})
	if err != nil {
		return nil, err
	}
	parts, err := partsOf(f, said)
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		return nil, joined(lost)
	}
	if setup != nil {
		parts[0].include(setup, len(p.setup))
	}
	x, err := Judge(p, parts)
	if err != nil {
		return nil, err
	}
	x.clients(ctx, f, said, lost)
	return x, nil
}

// fleetRun is a run of a scenario by a fleet.
type fleetRun struct {
	*fleet.Fleet
	plan *Plan
}

// turn lets some clients do their part of a turn.
func (r *fleetRun) turn(ctx context.Context, of turn, clients []*fleet.Client, now func(client int, n fleet.Now)) ([]*fleet.Part, []*fleet.Lost, error) {
	text, err := json.Marshal(of)
	if err != nil {
		return nil, nil, err
	}
	turn := &fleet.Fleet{Clients: clients, Quiet: r.Quiet, Patience: r.Patience}
	if j := r.plan.Journal; j != nil {
		before := j.last.Load()
		if of.Do == runUndo { // its objects have their numbers
			before = 0
		}
		turn.Record = j.recordFor(len(clients), before)
	}
	var shares []fleet.Share
	for i := range clients {
		shares = append(shares, fleet.Share{First: int64(i), Of: int64(len(clients)), Scenario: text})
	}
	said, lost := turn.Run(ctx, turn.Begin(), fleetLongest, shares, now)
	return said, lost, nil
}

// first lets the first client do a turn.
func (r *fleetRun) first(ctx context.Context, of turn, now func(fleet.Now), into any) error {
	said, lost, err := r.turn(ctx, of, r.Clients[:1], func(_ int, n fleet.Now) { now(n) })
	switch {
	case err != nil:
		return err
	case said[0] == nil:
		return joined(lost)
	}
	return json.Unmarshal(said[0].Scenario, into)
}

// setup lets the first client run the setup.
func (r *fleetRun) setup(ctx context.Context) (*Part, error) {
	part := &Part{}
	return part, r.first(ctx, turn{Do: runSetup}, func(fleet.Now) {}, part)
}

// UndoFleet is Undo by the first worker of a fleet: this process may not reach the servers.
func UndoFleet(ctx context.Context, p *Plan, f *fleet.Fleet, j *Journal, x *Objects, tell func(done, all int)) (*Undone, error) {
	again := *p
	again.Journal = j
	undone := &Undone{}
	err := (&fleetRun{Fleet: f, plan: &again}).first(ctx, turn{Do: runUndo, Objects: x.all}, func(n fleet.Now) { tell(int(n.Ended), len(x.all)) }, undone)
	return undone, err
}

func joined(lost []*fleet.Lost) error {
	var all []error
	for _, l := range lost {
		if l != nil {
			all = append(all, l)
		}
	}
	return errors.Join(all...)
}

// recordingAt returns the journal of a worker: its coordinator writes it.
func recordingAt(to fleet.Coordinator) *Journal {
	j := newJournal("", nil)
	j.store = func(lines []byte) error {
		array := append([]byte{'['}, bytes.ReplaceAll(bytes.TrimSuffix(lines, []byte{'\n'}), []byte{'\n'}, []byte{','})...)
		return to.Record(append(array, ']'))
	}
	return j
}

// recordFor returns the function that records the objects of several clients. Each client numbers
// its own objects from 1; in the journal, all numbers are above before. The function counts the
// objects.
func (j *Journal) recordFor(clients int, before int64) func(client int, text json.RawMessage) error {
	return func(client int, text json.RawMessage) error {
		var all []object
		if err := json.Unmarshal(text, &all); err != nil {
			return err
		}
		var lines []byte
		intended, created := int64(0), int64(0)
		for _, o := range all {
			if o.N < 1 {
				return fmt.Errorf("object %d: not a number of an object", o.N)
			}
			if o.Step != "" {
				intended++
			}
			if o.Remove != "" {
				created++
			}
			o.N = before + (o.N-1)*int64(clients) + int64(client) + 1
			for last := j.last.Load(); o.N > last && !j.last.CompareAndSwap(last, o.N); last = j.last.Load() {
			}
			line, err := json.Marshal(o)
			if err != nil {
				return err
			}
			lines = append(append(lines, line...), '\n')
		}
		if err := j.appendLines(lines); err != nil {
			return err
		}
		j.intended.Add(intended)
		j.created.Add(created)
		return nil
	}
}

// partsOf returns the parts of the clients that have reported, with their names.
func partsOf(f *fleet.Fleet, said []*fleet.Part) (parts []*Part, err error) {
	for i, one := range said {
		if one == nil {
			continue
		}
		part := &Part{}
		if err := json.Unmarshal(one.Scenario, part); err != nil {
			return nil, fmt.Errorf("client %s: %w", f.Clients[i].Name, err)
		}
		part.Client = f.Clients[i].Name
		parts = append(parts, part)
	}
	return parts, nil
}

// clients records what the coordinator knows of the clients. Without one of them the result
// covers only the others, and has no verdict about the server.
func (x *Result) clients(ctx context.Context, f *fleet.Fleet, said []*fleet.Part, lost []*fleet.Lost) {
	g := &x.Generator
	known := g.Clients
	g.Clients = nil
	var without []string
	for i, c := range f.Clients {
		one := Client{Name: c.Name}
		if said[i] != nil {
			one, known = known[0], known[1:]
			one.LateBeginS = said[i].Late.Seconds()
		}
		one.ClockErrorS = c.Off.Seconds()
		switch {
		case lost[i] != nil:
			one.Lost = evidence.EscapeInvalidUTF8(lost[i].Why())
			without = append(without, c.Name)
		case said[i].Stopped && ctx.Err() == nil:
			one.Lost = "stopped on its machine"
			without = append(without, c.Name)
		}
		g.Clients = append(g.Clients, one)
	}
	if len(without) > 0 {
		x.Word, x.Text = Partial, "without client "+strings.Join(without, ", ")+": "+x.Text
	}
}
