package network

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/evidence"
)

// Record kinds and schema of a result.
const (
	Schema     = "fettle/bench-network/v1"
	RecordKind = "bench-network"
)

// Result is the result of a bench.
type Result struct {
	Schema string                 `json:"schema"`
	Cut    *evidence.Interruption `json:"cut,omitempty"` // set if the bench ended early
	Series []evidence.Series      `json:"series"`
	Peer   string                 `json:"peer"`                // address
	Name   string                 `json:"peer_name,omitempty"` // host name
	Local  End                    `json:"local"`
	Remote End                    `json:"remote"`
	ForS   float64                `json:"duration_s"` // of a cell
	Bytes  int64                  `json:"most_bytes"` // of a cell
	EveryS float64                `json:"probe_interval_s"`
	Path   *Path                  `json:"path,omitempty"`
	Cells  []Summary              `json:"cells"`
	// Overlay is the result inside the overlay network. Path describes the network outside, which
	// carries the tunnels.
	Overlay *Overlay `json:"overlay,omitempty"`
	// Changed lists the effect of each tested change of this machine.
	Changed []Changed `json:"changed,omitempty"`
	Text    string    `json:"verdict"`
	// Doubts lists reasons why the figures may show a busy machine rather than the network.
	Doubts []string `json:"doubts,omitempty"`
}

// JSONBody marks the body of a run.
func (Result) JSONBody() {}

// Bench measures a plan with a peer.
type Bench struct {
	Client *Client
	// Overlay is a second connection to the peer, through an overlay network, and Forecast the
	// overlay's calculated MTU. Both may be nil.
	Overlay  *Client
	Forecast []Forecast
	Plan     Plan
	Progress func(done, all int, c Cell) // before each run; may be nil
	// Finished, if not nil, is called with the result so far after each round except the last. An
	// error ends the bench.
	Finished func(*Result) error
}

// Run measures every cell once per round, in reverse order in every second round. If ctx ends, Run
// returns the completed rounds and the error.
func (b *Bench) Run(ctx context.Context) (*Result, error) {
	c, p := b.Client, &b.Plan
	r := &Result{Schema: Schema, Peer: c.Peer.String(), Name: c.Name, Local: c.Local, Remote: c.Remote, ForS: p.For.Seconds(), Bytes: p.Bytes, EveryS: p.Every.Seconds()}
	sides := []*side{{client: c, plan: p}}
	if b.Overlay != nil {
		sides = append(sides, &side{client: b.Overlay, plan: p})
	}
	for _, s := range sides {
		if err := s.findPath(ctx); err != nil {
			return nil, err
		}
	}
	for i := range p.Changes { // made for runs of their own
		sides = append(sides, &side{client: c, plan: p, path: sides[0].path, change: &p.Changes[i]})
	}
	r.Path = &sides[0].path
	for round := range Rounds {
		if failed, err := b.round(ctx, sides, round); err != nil && round == 0 {
			return nil, fmt.Errorf("%s: %w", failed.Name(), err)
		} else if err != nil {
			err = fmt.Errorf("%s: %w", failed.Name(), err)
			r.Cut = (&evidence.Interruption{Done: round, Planned: Rounds, Of: "rounds"}).EndedBy(ctx, err)
			return r, errors.Join(err, b.sum(r, sides))
		}
		if done := round + 1; b.Finished != nil && done < Rounds {
			soFar := *r
			soFar.Cut = &evidence.Interruption{Done: done, Planned: Rounds, Of: "rounds"}
			if err := b.sum(&soFar, sides); err != nil {
				return nil, err
			}
			if err := b.Finished(&soFar); err != nil {
				return &soFar, err
			}
		}
	}
	return r, b.sum(r, sides)
}

// round runs each cell once on each side, one side after the other. It keeps the runs if all
// succeed, and otherwise returns the failed cell.
func (b *Bench) round(ctx context.Context, sides []*side, round int) (Cell, error) {
	type one struct {
		side *side
		cell Cell
	}
	var order []one
	for _, cell := range b.Plan.Cells {
		for _, s := range sides {
			order = append(order, one{s, cell})
		}
	}
	if round%2 == 1 {
		slices.Reverse(order)
	}
	got := make([]sample, len(order))
	for i, o := range order {
		if b.Progress != nil {
			b.Progress(round*len(order)+i, Rounds*len(order), o.cell)
		}
		var err error
		if got[i], err = o.side.run(ctx, o.cell, round); err != nil {
			return o.cell, err
		}
	}
	for i, o := range order {
		o.side.keep(o.cell, got[i])
	}
	return Cell{}, nil
}

// Once runs a cell once, and returns its deciding value and the value's unit.
func (b *Bench) Once(ctx context.Context, cell Cell, round int) (float64, error) {
	s, err := (&side{client: b.Client, plan: &b.Plan}).once(ctx, cell, round)
	if err != nil {
		return 0, err
	}
	return s[Deciding(cell).name] * Deciding(cell).scale, nil
}

// sum computes the figures of the runs so far.
func (b *Bench) sum(r *Result, sides []*side) (err error) {
	if r.Cells, r.Series, err = sides[0].sum(""); err != nil {
		return err
	}
	if b.Overlay != nil {
		var series []evidence.Series
		if r.Overlay, series, err = overlayOf(sides[0], sides[1]); err != nil {
			return err
		}
		r.Overlay.Forecast = b.Forecast
		r.Series = append(r.Series, series...)
	}
	r.Changed = nil
	for _, s := range sides {
		if s.change != nil {
			r.Changed = append(r.Changed, changed(sides[0], s))
		}
	}
	r.limits(b.Client.host, b.Plan.Cells)
	r.Doubts = r.doubts()
	r.Text = r.Cut.Text(strings.Join(append([]string{r.text()}, r.Doubts...), "; "))
	return nil
}
