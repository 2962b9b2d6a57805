package experiment

import (
	"context"
	"errors"
	"strings"

	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/measure/search"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// prove tests the best point by an experiment of its own, which has its own record.
func (s *Search) prove(ctx context.Context) error {
	o := s.o.Options
	spent := 0.0
	for _, v := range s.body.Visits {
		spent += v.TookS
	}
	o.Set, o.Resume = s.body.Best, ""
	o.Budget = max(s.o.Budget-Seconds(spent), Seconds(proofShare*s.o.Budget.Seconds()))
	s.Screen.Say("the best of %s: %s; now proving it in at most %s", text.Count(len(s.body.Visits), "run"), strings.Join(s.body.Best, ", "), ui.Roughly(o.Budget.Seconds()))
	p := &Experiment{Machine: s.Machine, Screen: s.Screen, By: s.By, Watchdog: s.Watchdog, Settle: s.Settle, verb: s.verb}
	s.proving.Store(p)
	r, err := p.Run(ctx, o, s.body.Work)
	if r != nil && r.Run.ID != "" {
		s.body.Proof = &search.Proof{Run: r.Run.ID, Word: r.Body.Word, Text: r.Body.Text}
	}
	if gate := (*ui.Error)(nil); s.body.Proof != nil && errors.As(err, &gate) && gate.Code == ui.GateNotMet {
		err = nil // the proof stopped because the values are worse
	}
	s.body.Kept = err == nil && o.Keep && s.body.Proof != nil && s.body.Proof.Word == prove.Better
	if err == nil && s.body.Proof == nil {
		err = errors.New("the proof ended without a record")
	}
	return err
}
