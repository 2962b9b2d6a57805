// Package load generates a load against servers and evaluates it: how the servers answered,
// which period counts, and whether the server or the generator was the bottleneck.
package load

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"sync"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/load/fleet"
)

// Plan describes a load: the requests, their schedule, and the thresholds.
type Plan struct {
	Set *engine.Set
	// Stages is the schedule of the open model. Without Stages and Replay, the closed model
	// runs for the duration For.
	Stages []engine.Stage
	For    time.Duration
	// Each is the number of requests per connection in the closed model, limited by For. 0
	// means as many as possible within For.
	Each int64
	// WarmUp is a period at the first rate, before the load, that does not count.
	WarmUp time.Duration
	// Connections is the number of connections; in the open model it is the maximum.
	Connections int
	// HTTP2 selects HTTP/2, with Streams concurrent requests on each connection.
	HTTP2   bool
	Streams int
	// Close closes each connection after one request.
	Close   bool
	Timeout time.Duration
	// TLS is used for https; Resume enables session resumption.
	TLS    *tls.Config
	Resume bool
	// Wanted lists statuses of 400 and above that count as success.
	Wanted []int
	Gates  []*engine.Gate
	// Replay is a log to replay instead of Stages.
	Replay *Log

	// of is this process's share of the starts, if there are several generators.
	of fleet.Share
}

// open reports whether requests start on a schedule, independent of the answers.
func (p *Plan) open() bool { return len(p.Stages) > 0 || p.Replay != nil }

// asked returns the total number of requests in the closed model, or 0 if the duration decides.
func (p *Plan) asked() int64 {
	n := p.Each * int64(p.Connections)
	if p.HTTP2 {
		n *= int64(p.Streams)
	}
	return n
}

// stageName names a stage of the open model.
func (p *Plan) stageName(stage int) string {
	switch {
	case p.Replay != nil:
		return p.Replay.String()
	case len(p.Stages) == 0:
		return ""
	}
	return p.Stages[stage].String()
}

// Length returns the duration of the load, without the time for the last answers.
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

// warmUp is the stage number of slices that do not count.
const warmUp = -1

// Prepared is a load that is connected to its servers.
type Prepared struct {
	plan    Plan
	dialers []*engine.Dialer
	counts  *engine.Counts
	probes  []engine.Probe
}

// Prepare connects to each server once, so an invalid setup fails before the measurement.
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
		probe, err := d.Reach(o.Sockets, p.Timeout)
		if err != nil {
			return nil, err
		}
		r.dialers, r.probes = append(r.dialers, d), append(r.probes, probe)
	}
	return r, nil
}

// connection is one connection of the engine. It has a client for each server.
type connection struct {
	*Prepared
	shared []*engine.Connection // with HTTP/2: the connection shared by several streams, by origin

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

// client returns the client for an origin, creating it if necessary. It returns nil once the
// connection is closed.
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

// Close cuts off the requests in flight.
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

// connections returns the function that creates the engine's connections.
func (r *Prepared) connections() func(int) engine.Driver {
	var shared [][]*engine.Connection // by number, then by origin
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

// schedule returns the engine's plan and the stretches of its meter.
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

// good reports whether a status counts as success.
func (p *Plan) good(status int) bool { return status < 400 || slices.Contains(p.Wanted, status) }
