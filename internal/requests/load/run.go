// Package load drives a load against servers and says what came of it: how the server
// answered, from when on the figures count, and whether it was the server or the generator
// that set the limit. Its parts go one way: target says what is asked, rate when, drive
// starts it over the clients of http1 and h2, meter counts, and here it is judged.
package load

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/load/fleet"
)

// Plan is a load.
type Plan struct {
	Set *engine.Set
	// Stages are those of the open model; none for the closed one, which goes on for For.
	Stages []engine.Stage
	For    time.Duration
	// Each is how many requests each connection of the closed model makes; For is then the
	// most that they take. 0: as many as it can in For.
	Each int64
	// WarmUp is a time before, at the first rate, that is in no figure.
	WarmUp time.Duration
	// Connections are how many there are in the closed model, the most in the open one.
	Connections int
	// HTTP2 with so many Streams at a time on each connection.
	HTTP2   bool
	Streams int
	// Close ends each connection after one request.
	Close   bool
	Timeout time.Duration
	// TLS is used for https; Resume takes up sessions.
	TLS    *tls.Config
	Resume bool
	// Wanted are statuses from 400 on that are no errors.
	Wanted []int
	Gates  []*engine.Gate
	// Replay is a log whose requests are made again, in place of Stages.
	Replay *Log

	// of is which of the starts are made here, where several generate.
	of fleet.Share
}

// open says that the load waits for nobody.
func (p *Plan) open() bool { return len(p.Stages) > 0 || p.Replay != nil }

// asked is how many requests the closed model is to make; 0 where it makes as many as it
// can.
func (p *Plan) asked() int64 {
	n := p.Each * int64(p.Connections)
	if p.HTTP2 {
		n *= int64(p.Streams)
	}
	return n
}

// stageName is what a stage of the open model is called.
func (p *Plan) stageName(stage int) string {
	switch {
	case p.Replay != nil:
		return p.Replay.String()
	case len(p.Stages) == 0:
		return ""
	}
	return p.Stages[stage].String()
}

// Length is how long the load takes, without the last answers.
func (p *Plan) Length() time.Duration {
	switch {
	case p.Replay != nil:
		return p.Replay.Length()
	case len(p.Stages) == 0:
		return p.WarmUp + p.For
	}
	all := p.WarmUp
	for _, s := range p.Stages {
		all += s.For
	}
	return all
}

// warmUp is the stage of the slices that are in no figure.
const warmUp = -1

// Prepared is a load whose servers were reached once.
type Prepared struct {
	plan    Plan
	dialers []*engine.Dialer
	counts  *engine.Counts
	probes  []engine.Probe
}

// Prepare connects to each server once. What cannot work is found before anything is
// measured.
func Prepare(ctx context.Context, p Plan) (*Prepared, error) {
	r := &Prepared{plan: p, counts: &engine.Counts{}}
	for _, o := range p.Set.Origins {
		d := &engine.Dialer{Counts: r.counts, Context: ctx}
		if o.TLS {
			d.TLS = p.TLS.Clone()
			d.TLS.ServerName = o.Name
			if len(d.TLS.Certificates) == 0 {
				d.WithoutCertificate()
			}
			if p.HTTP2 {
				d.TLS.NextProtos = []string{"h2"}
			}
			if p.Resume {
				d.TLS.ClientSessionCache = tls.NewLRUClientSessionCache(1024)
			} else {
				d.TLS.SessionTicketsDisabled = true
			}
		}
		probe, err := reach(d, o, p.Timeout)
		if err != nil {
			return nil, err
		}
		r.dialers, r.probes = append(r.dialers, d), append(r.probes, probe)
	}
	return r, nil
}

// reach finds the first address of an origin that takes a connection, and stays with it.
func reach(d *engine.Dialer, o engine.Origin, timeout time.Duration) (engine.Probe, error) {
	var all error
	for _, socket := range o.Sockets {
		d.To = socket
		probe, err := d.Probe(timeout)
		if err == nil {
			return probe, nil
		}
		all = errors.Join(all, err)
		if d.Context.Err() != nil {
			break
		}
	}
	return engine.Probe{}, all
}

// connection is a connection of the engine: one to each server that it is asked for.
type connection struct {
	*Prepared
	shared []*engine.Connection // with HTTP/2: of each origin, that of this number

	mu      sync.Mutex
	clients []engine.Client
	closed  bool
}

// Exchange sends a request over the connection to its server.
func (c *connection) Exchange(request int, until time.Time) engine.Answer {
	r := c.plan.Set.Requests[request]
	client := c.clients[r.Origin]
	if client == nil {
		if client = c.client(r.Origin); client == nil {
			return engine.Answer{Failure: engine.Closed, Err: net.ErrClosed}
		}
	}
	return client.Exchange(r, until)
}

// client makes the client of an origin; nil once all is closed.
func (c *connection) client(origin int) engine.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	if c.shared != nil {
		c.clients[origin] = &engine.Stream{Connection: c.shared[origin]}
	} else {
		c.clients[origin] = &engine.HTTP1Client{Dialer: c.dialers[origin], OneEach: c.plan.Close}
	}
	return c.clients[origin]
}

// Close ends what is under way.
func (c *connection) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, client := range c.clients {
		if client != nil {
			client.Close()
		}
	}
}

// connections makes the connections of the engine.
func (r *Prepared) connections() func(int) engine.Driver {
	var shared [][]*engine.Connection // of each number
	return func(number int) engine.Driver {
		c := &connection{Prepared: r, clients: make([]engine.Client, len(r.dialers))}
		if r.plan.HTTP2 {
			at := number / r.plan.Streams
			for len(shared) <= at {
				var of []*engine.Connection
				for _, d := range r.dialers {
					of = append(of, &engine.Connection{Dialer: d})
				}
				shared = append(shared, of)
			}
			c.shared = shared[at]
		}
		return c
	}
}

// schedule is the plan of the engine, and how its time is cut.
func (p *Plan) schedule() (plan engine.Plan, stretches []engine.Stretch, err error) {
	plan = engine.Plan{For: p.WarmUp + p.For, Connections: p.Connections}
	if p.HTTP2 {
		plan.Connections *= p.Streams
	}
	if p.WarmUp > 0 {
		stretches = append(stretches, engine.Stretch{For: p.WarmUp, Stage: warmUp})
	}
	plan.Timeout, plan.Pick, plan.Each = p.Timeout, p.Set.Pick, p.Each
	switch {
	case p.Replay != nil:
		plan.Schedule, plan.Pick = p.Replay, p.Replay.Pick
		return plan, []engine.Stretch{{For: p.Length()}}, nil
	case len(p.Stages) == 0:
		return plan, append(stretches, engine.Stretch{For: p.For}), nil
	}
	stages := p.Stages
	if p.WarmUp > 0 {
		first := p.Stages[0].From
		if first == 0 {
			first = p.Stages[0].To
		}
		stages = slices.Concat([]engine.Stage{{From: first, To: first, For: p.WarmUp}}, stages)
	}
	for i, s := range p.Stages {
		stretches = append(stretches, engine.Stretch{For: s.For, Stage: i})
	}
	schedule, err := engine.NewRate(stages...)
	if err != nil {
		return plan, nil, err
	}
	plan.Schedule = schedule
	if p.of.Of > 1 {
		plan.Schedule = engine.Every{RateSchedule: schedule, First: p.of.First, N: p.of.Of}
	}
	return plan, stretches, nil
}

// good says whether a status is no error.
func (p *Plan) good(status int) bool { return status < 400 || slices.Contains(p.Wanted, status) }
