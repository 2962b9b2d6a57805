package network

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Change is a change of this machine whose effect is measured. It is made before each run and
// undone after it.
type Change struct {
	Name        string
	Settings    []string
	Apply, Undo func(context.Context) error
}

// Words describes the change, with the names of the switched features.
func (c *Change) Words() string {
	var features []string
	for _, s := range c.Settings {
		_, name, _ := strings.Cut(s, "/")
		features = append(features, strings.TrimPrefix(name, "feature-"))
	}
	return c.Name + " (" + strings.Join(features, ", ") + ")"
}

// TrialTime is the maximum time for which a change is in force.
const TrialTime = time.Minute

// Changed is the effect of a change.
type Changed struct {
	Change   string   `json:"change"`
	Settings []string `json:"settings"`
	Costs    []Cost   `json:"effects"` // with the change, compared with runs of the same round without it
}

// run runs a cell once, with the side's change if it has one.
func (s *side) run(ctx context.Context, cell Cell, round int) (v sample, err error) {
	if s.change == nil {
		return s.once(ctx, cell, round)
	}
	defer func() {
		if undone := s.change.Undo(context.WithoutCancel(ctx)); undone != nil {
			err = errors.Join(err, fmt.Errorf("%s cannot be undone: %w", s.change.Name, undone))
		}
	}()
	trial, cancel := context.WithTimeout(ctx, TrialTime)
	defer cancel()
	if err := s.change.Apply(trial); err != nil {
		return nil, fmt.Errorf("%s: %w", s.change.Name, err)
	}
	v, err = s.once(trial, cell, round)
	if err != nil {
		err = fmt.Errorf("with %s: %w", s.change.Name, err)
	}
	return v, err
}

// changed compares the runs with a change and without it.
func changed(without, with *side) Changed {
	c := Changed{Change: with.change.Name, Settings: with.change.Settings}
	for _, cell := range with.plan.Cells {
		if cost := costOf(cell, without.runs[cell], with.runs[cell]); len(cost.Figures) > 0 {
			c.Costs = append(c.Costs, cost)
		}
	}
	return c
}

// OffloadCells are the cells that are measured by default with offloads switched.
func OffloadCells() []Cell { return []Cell{{Kind: Send, Streams: 1}, {Kind: Receive, Streams: 1}} }
