package network

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/stats"
)

// sample holds the values of a run by quantity.
type sample map[string]float64

// side is one of the networks that a bench compares, with its runs.
type side struct {
	client *Client
	plan   *Plan
	path   Path
	change *Change // in force during its runs; may be nil
	runs   map[Cell][]sample
}

func (s *side) findPath(ctx context.Context) (err error) {
	s.path, err = s.client.path(ctx)
	return err
}

func (s *side) keep(c Cell, v sample) {
	if s.runs == nil {
		s.runs = map[Cell][]sample{}
	}
	s.runs[c] = append(s.runs[c], v)
}

// sum returns the summaries of the cells with runs, and the series for comparisons, with the prefix
// in their names.
func (s *side) sum(prefix string) (cells []Summary, all []evidence.Series, err error) {
	for _, cell := range s.plan.Cells {
		runs := s.runs[cell]
		if len(runs) == 0 {
			continue
		}
		d := Deciding(cell)
		series := evidence.Series{Name: "network:" + prefix + cell.Name(), Unit: d.Unit, More: d.More}
		sum := Summary{Cell: cell.Name(), Runs: len(runs)}
		for _, name := range quantities {
			values, known := valuesOf(runs, name)
			if !known {
				continue
			}
			sum.Figures = append(sum.Figures, figure(name, values))
			for _, v := range values {
				if name != d.name {
					break
				}
				if err := series.Add(v * d.scale); err != nil {
					return nil, nil, err
				}
			}
		}
		cells, all = append(cells, sum), append(all, series)
	}
	return cells, all, nil
}

// valuesOf returns a quantity of all runs, or false if a run lacks it. Added times may be negative.
// In all other quantities, -1 means that the kernel does not report the value.
func valuesOf(runs []sample, name string) (values []float64, known bool) {
	for _, run := range runs {
		v, has := run[name]
		if !has || v < 0 && name != addedP50 && name != addedP99 {
			return nil, false
		}
		values = append(values, v)
	}
	return values, len(values) > 0
}

// once runs a cell once.
func (s *side) once(ctx context.Context, cell Cell, round int) (v sample, err error) {
	p, rtt := s.plan, s.client.RTT
	run := p.Run(rtt)
	worked := watchCPU(s.client.host)
	defer func() {
		if v != nil {
			s.others(v, cell, worked())
		}
	}()
	switch cell.Kind {
	case Request:
		return s.requests(ctx, run, cell.Size)
	case Probes:
		t, err := s.client.probes(ctx, run, p.Every, p.Size)
		if err != nil {
			return nil, err
		}
		return t.sample()
	case LoadUp, LoadDown:
		return s.loaded(ctx, cell, round%2 == 1)
	}
	for try := 1; ; try++ {
		r, err := s.client.stream(ctx, s.job(cell, run), nil)
		if err != nil {
			return nil, err
		}
		v, err := r.sample(run, p.warm(rtt), s.client.Local, s.client.Remote)
		if errors.Is(err, errNothing) && (s.path.Up.How == BlackHole || s.path.Down.How == BlackHole) {
			return nil, fmt.Errorf("nothing arrived: path MTU %s; lower the MTU of the interface, or let the ICMP messages through; --cells udp,request-1 measures the rest", s.path.words())
		}
		if !errors.Is(err, errNothing) || try == tries {
			return v, err
		}
	}
}

// others sets the share of this machine's processors that other programs used during a run. Runs of
// streams report that share themselves. If the peer is on this machine, its CPU time is unknown.
func (s *side) others(v sample, cell Cell, p processors) {
	c := s.client
	if cell.Kind == Send || cell.Kind == Receive || c.Local.Boot == c.Remote.Boot {
		return
	}
	v[othersHere], v[stolenHere] = p.others(c.Local.CPUs, 0), p.Stolen
}

func (s *side) job(cell Cell, run time.Duration) streamJob {
	return streamJob{Down: cell.Kind == Receive || cell.Kind == LoadDown, Streams: cell.Streams, For: run, Bytes: max(s.plan.Bytes/Rounds, int64(cell.Streams))}
}

func (s *side) requests(ctx context.Context, run time.Duration, size int) (sample, error) {
	r, err := s.client.request(ctx, run, size)
	if err != nil {
		return nil, err
	}
	v := sample{rate: r.rate, lateStarts: r.late}
	v.setTimes(r.timesS, p99, p999)
	return v, nil
}

// setTimes sets the median, and each percentile that at least one value exceeds.
func (v sample) setTimes(times []float64, percentiles ...string) {
	v[p50] = stats.Median(times)
	for i, q := range []float64{0.99, 0.999}[:len(percentiles)] {
		if float64(len(times))*(1-q) >= 1 {
			v[percentiles[i]] = stats.Quantile(times, q)
		}
	}
}

// loaded measures the round trip on the idle and on the loaded path. Every second time it measures
// the loaded path first.
func (s *side) loaded(ctx context.Context, cell Cell, loadedFirst bool) (sample, error) {
	p := s.plan
	half := p.Run(s.client.RTT) / 2
	var idle, loaded *train
	turns := []func() error{
		func() (err error) {
			idle, err = s.client.probes(ctx, half, p.Every, p.Size)
			return err
		},
		func() (err error) {
			loaded, err = s.probesUnderLoad(ctx, cell, half)
			return err
		},
	}
	if loadedFirst {
		slices.Reverse(turns)
	}
	for _, turn := range turns {
		if err := turn(); err != nil {
			return nil, err
		}
	}
	return addedLatency(idle, loaded)
}

// probesUnderLoad sends a train while streams fill the path.
func (s *side) probesUnderLoad(ctx context.Context, cell Cell, run time.Duration) (*train, error) {
	warm := max(run/4, 4*s.client.RTT)
	j := s.job(cell, warm+run+tail)
	j.Bytes = math.MaxInt64 / 2 // the time bounds it: the path must be full while it is probed
	t := s.client.newTrain(s.plan.Every, s.plan.Size)
	defer t.stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sent := make(chan error, 1)
	_, err := s.client.stream(ctx, j, func() {
		go func() {
			select {
			case <-time.After(warm):
				sent <- t.send(ctx, run)
			case <-ctx.Done():
				sent <- ctx.Err()
			}
		}()
	})
	if err == nil {
		err = <-sent
	}
	if err == nil {
		err = t.finish(ctx)
	}
	return t, err
}

// addedLatency compares a train on the loaded path with one on the idle path.
func addedLatency(idle, loaded *train) (sample, error) {
	for _, t := range []*train{idle, loaded} {
		if _, err := t.sample(); err != nil {
			return nil, err
		}
	}
	v := sample{idleP50: stats.Median(idle.rttsS), loadP50: stats.Median(loaded.rttsS)}
	v[addedP50] = v[loadP50] - v[idleP50]
	v[lateStarts] = float64(idle.late+loaded.late) / float64(max(1, idle.sent()+loaded.sent()))
	v[unstampedHere] = max(idle.unstampedHere, loaded.unstampedHere)
	v[unstampedPeer] = max(idle.unstampedPeer, loaded.unstampedPeer)
	if n := min(len(idle.rttsS), len(loaded.rttsS)); n >= 100 {
		v[loadP99] = stats.Quantile(loaded.rttsS, 0.99)
		v[addedP99] = v[loadP99] - stats.Quantile(idle.rttsS, 0.99)
	}
	return v, nil
}
