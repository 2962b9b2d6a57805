package load

import (
	"context"
	"fmt"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/load/fleet"
)

// part is the result of one generator.
type part struct {
	client *fleet.Client // nil: this process
	fleet.Counts
	meter *engine.Meter
	lost  *fleet.Lost // nil unless the client was lost; its counts are then unknown
}

// idle reports whether a share contains no start.
func (p *Plan) idle(s fleet.Share) bool {
	again := *p
	again.of = s
	plan, _, err := again.schedule()
	return err == nil && plan.Schedule != nil && plan.Schedule.Count() == 0
}

// with returns the load with another schedule and separate counters.
func (r *Prepared) with(stages []engine.Stage, length, warmUp time.Duration) *Prepared {
	again := &Prepared{plan: r.plan, probes: r.probes, counts: &engine.Counts{}}
	again.plan.Stages, again.plan.For, again.plan.WarmUp = stages, length, warmUp
	for _, d := range r.dialers {
		own := *d
		own.Counts = again.counts
		again.dialers = append(again.dialers, &own)
	}
	return again
}

// meterOf returns an empty meter for the load, and the engine's plan.
func (p *Plan) meterOf() (*engine.Meter, engine.Plan, error) {
	plan, stretches, err := p.schedule()
	if err != nil {
		return nil, plan, err
	}
	return engine.NewMeter(stretches, p.Timeout, len(p.Set.Requests), p.good), plan, nil
}

// drive generates the load in this process. When ctx ends, it returns the counts so far. It
// calls tell each second.
func (r *Prepared) drive(ctx context.Context, seed uint64, tell func(fleet.Now)) (*part, error) {
	r.plan.Set.Seed = seed
	m, plan, err := r.plan.meterOf()
	if err != nil {
		return nil, err
	}
	use, began := engine.Now(), engine.Now()
	plan.Client, plan.Meter = r.connections(), m
	plan.Tick = func(at time.Duration) {
		took, wanted := use.Share()
		m.CPU(at-time.Millisecond, took, wanted)
		last := m.Now(at)
		tell(fleet.Now{At: at, AnswerRate: perSecond(last.Answered, last.To-last.From), P50S: last.Percentile(50), P99S: last.Percentile(99), ErrorShare: last.Errors()})
	}
	out, err := engine.Run(ctx, plan)
	if err != nil {
		return nil, err
	}
	return &part{meter: m, Counts: fleet.Counts{Until: out.Until, Connections: out.Connections, CPU: engine.Now().CPU() - began.CPU(), Processors: engine.Processors(),
		Handshakes: r.counts.Handshakes.Load(), Resumed: r.counts.Resumed.Load(), Opened: r.counts.Opened.Load(), Reopened: r.counts.Reopened.Load()}}, nil
}

// share returns the part of the rate and connections for generator client of several.
func (p *Plan) share(client, of int, seed uint64) fleet.Share {
	s := fleet.Share{For: p.For, WarmUp: p.WarmUp, Connections: p.Connections / of, Seed: seed + uint64(client)}
	if client < p.Connections%of {
		s.Connections++
	}
	s.Stages, s.First, s.Of = p.Stages, int64(client), int64(of)
	return s
}

// together adds up the results of all clients, except lost ones.
func (p *Plan) together(clients []*fleet.Client, said []*fleet.Part, lost []*fleet.Lost) (whole *engine.Meter, parts []*part, err error) {
	if whole, _, err = p.meterOf(); err != nil {
		return nil, nil, err
	}
	for i, one := range said {
		if lost[i] != nil {
			parts = append(parts, &part{client: clients[i], lost: lost[i], Counts: fleet.Counts{Until: min(lost[i].At, p.Length())}})
			continue
		}
		own, _, err := p.meterOf()
		if err != nil {
			return nil, nil, err
		}
		for _, m := range []*engine.Meter{own, whole} {
			if err := m.Merge(one.Meter); err != nil {
				return nil, nil, fmt.Errorf("client %s: %w", clients[i].Name, err)
			}
		}
		parts = append(parts, &part{client: clients[i], Counts: one.Counts, meter: own})
	}
	return whole, parts, nil
}
