package disk

import (
	"context"
	"errors"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/text"
)

// Run executes a plan in places that are open. It calls progress before each sample. It deletes the places' files before it
// returns. With an error it also returns the figures so far.
func (b *Bench) Run(ctx context.Context, plan Plan, places []*Place, progress func(done, all int, p *Place, c Cell)) (e *Evidence, err error) {
	defer func() {
		for _, p := range places {
			err = errors.Join(err, p.Close())
		}
	}()
	for _, p := range places {
		if err := b.Prepare(ctx, p); err != nil {
			return nil, err
		}
	}
	samples := make([][][]Sample, len(places))
	for i := range samples {
		samples[i] = make([][]Sample, len(plan.Cells))
	}
	steps := plan.Steps()
	var cut *evidence.Interruption
	for n, s := range steps {
		c, p := plan.Cells[s.Cell], places[s.Place]
		progress(n, len(steps), p, c)
		var watch func([]float64) bool
		if plan.Mode == Sustained {
			watch = lasting
		}
		v, failed := b.Measure(ctx, p, c, plan.runtime(c), uint64(n+1), watch)
		if failed != nil && n == 0 {
			return nil, failed
		}
		if failed != nil {
			err, cut = failed, (&evidence.Interruption{Done: n, Planned: len(steps), Of: "measurements"}).EndedBy(ctx, failed)
			break
		}
		v.Round = s.Round
		if plan.Mode == Sustained {
			v.Value = lastly(c, &v)
		}
		samples[s.Place][s.Cell] = append(samples[s.Place][s.Cell], v)
		if b.Finished == nil {
			continue
		}
		by := &evidence.Interruption{Done: n + 1, Planned: len(steps), Of: "measurements"}
		if by.Done == by.Planned {
			by = nil
		}
		if err = b.Finished(b.found(plan, places, samples, by)); err != nil {
			cut = by
			break
		}
	}
	return b.found(plan, places, samples, cut), err
}

// found summarizes the samples of each place and cell.
func (b *Bench) found(plan Plan, places []*Place, samples [][][]Sample, cut *evidence.Interruption) *Evidence {
	e := &Evidence{Plan: plan, Cut: cut, FIO: b.Engine.Version, Queue: b.Queue}
	for i, p := range places {
		var results []Result
		for j, c := range plan.Cells {
			if len(samples[i][j]) == 0 {
				continue
			}
			r := result(plan.Mode, c, samples[i][j])
			if n := len(r.Samples); n < plan.Repeats {
				r.Doubts = append(r.Doubts, Doubt{Incomplete, text.Sprintf("measured only %d of %s", n, text.Count(plan.Repeats, "time"))})
			}
			results = append(results, r)
		}
		e.Places = append(e.Places, measured(p, results))
	}
	return e
}
