package load

import (
	"context"
	"errors"
	"slices"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/load/fleet"
)

// Rig holds the generators and the observers of a measurement.
type Rig struct {
	*Prepared
	// Fleet generates the load on other machines; nil means this process.
	Fleet *fleet.Fleet
	// Observers watch servers during the load.
	Observers []*fleet.Observer
}

// Close closes the connections to other machines.
func (g *Rig) Close() {
	if g.Fleet != nil {
		g.Fleet.Close()
	}
	for _, o := range g.Observers {
		o.Close()
	}
}

// Led returns a prepared load for a fleet whose workers are connected to the servers.
func Led(p Plan, f *fleet.Fleet) *Prepared {
	return &Prepared{plan: p, probes: f.Clients[0].Ready.Probes}
}

// Tell is called each second with the progress of a load: elapsed time, total time, counts.
type Tell func(at, all time.Duration, now fleet.Now)

// Run generates the load once. When ctx ends, it returns the results so far.
func (g *Rig) Run(ctx context.Context, seed uint64, tell Tell) (*Result, error) {
	return g.measure(ctx, g.Prepared, seed, tell)
}

// measure generates a load, observes the servers and judges the result.
func (g *Rig) measure(ctx context.Context, r *Prepared, seed uint64, tell Tell) (*Result, error) {
	r.plan.Set.Seed = seed
	all, begin := r.plan.Length(), time.Now()
	if g.Fleet != nil {
		begin = g.Fleet.Begin()
	}
	var seen []*fleet.Course
	for _, o := range g.Observers {
		seen = append(seen, o.Watch(ctx, begin, max(time.Second, all/engine.MaxSlices)))
	}
	whole, parts, err := g.generate(ctx, r, seed, begin, func(now fleet.Now) { tell(now.At, all, now) })
	for _, c := range seen {
		c.Stop()
	}
	if err != nil {
		return nil, err
	}
	return r.result(whole, parts, seen, all)
}

// generate generates the load in this process or by the fleet.
func (g *Rig) generate(ctx context.Context, r *Prepared, seed uint64, begin time.Time, tell func(fleet.Now)) (*engine.Meter, []*part, error) {
	if g.Fleet == nil {
		one, err := r.drive(ctx, seed, tell)
		if err != nil {
			return nil, nil, err
		}
		return one.meter, []*part{one}, nil
	}
	clients := g.Fleet.Clients
	var shares []fleet.Share
	var idle []bool
	for i := range clients {
		shares = append(shares, r.plan.share(i, len(clients), seed))
		idle = append(idle, r.plan.idle(shares[i]))
	}
	sum := &sum{last: make([]fleet.Now, len(clients)), told: slices.Clone(idle), idle: idle, tell: tell}
	said, lost := g.Fleet.Run(ctx, begin, r.plan.Length()+r.plan.Timeout, shares, sum.add)
	if !slices.ContainsFunc(said, func(one *fleet.Part) bool { return one != nil }) {
		var all []error
		for _, l := range lost {
			if l != nil {
				all = append(all, l)
			}
		}
		return nil, nil, errors.Join(all...)
	}
	return r.plan.together(clients, said, lost)
}
