package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"fettle.dev/fettle/internal/evidence"
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

// Run runs every Of-th host, from host First on.
func (w *Worker) Run(ctx context.Context, s fleet.Share, now func(fleet.Now)) (*fleet.Part, error) {
	if w.job == nil {
		return nil, errors.New("received a share of the load before the job")
	}
	j := *w.job
	j.First, j.Step = int(s.First), int(s.Of)
	p, err := j.Plan(ctx, net.DefaultResolver)
	if err != nil {
		return nil, err
	}
	part, err := Drive(ctx, p, func(n Now) { now(fleet.Now{At: n.At, Ended: n.Ended, Failed: n.Failed}) })
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(part)
	return &fleet.Part{Counts: fleet.Counts{Until: part.Took, CPU: part.CPU, Processors: part.Processors}, Scenario: text}, err
}

// fleetLongest is the time after which a run of a fleet counts as over, if its workers still report.
const fleetLongest = 7 * 24 * time.Hour

// RunFleet runs the scenario by the workers of a fleet. Each runs its share of the hosts, and
// their counts are added. If one is lost, the others stop, and the result is what they counted.
func RunFleet(ctx context.Context, p *Plan, f *fleet.Fleet, tell func(Now)) (*Result, error) {
	begin := f.Begin()
	var shares []fleet.Share
	for i := range f.Clients {
		shares = append(shares, fleet.Share{First: int64(i), Of: int64(len(f.Clients))})
	}
	var mu sync.Mutex
	last := make([]fleet.Now, len(f.Clients))
	said, lost := f.Run(ctx, begin, fleetLongest, shares, func(client int, n fleet.Now) {
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
	parts, err := partsOf(f, said)
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		var all []error
		for _, l := range lost {
			all = append(all, l)
		}
		return nil, errors.Join(all...)
	}
	x, err := Judge(p, parts)
	if err != nil {
		return nil, err
	}
	x.clients(ctx, f, said, lost)
	return x, nil
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
