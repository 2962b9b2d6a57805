package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
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
	if name := s.interruptedProof(o); name != "" {
		s.Screen.Say("continuing the interrupted proof %s", name)
		o = Options{Resume: name, Keep: o.Keep, Anyway: o.Anyway}
	}
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

// interruptedProof returns the name of the interrupted proof of the same values by this search, or "".
func (s *Search) interruptedProof(o Options) string {
	store := Store(s.Machine)
	names, err := store.Unfinished()
	if err != nil {
		return ""
	}
	for _, name := range slices.Backward(names) {
		open, err := Peek(store, name)
		if err != nil || open.Alive || open.Proof == nil || !slices.Equal(open.Proof.Work, s.body.Work) {
			continue
		}
		var asked Options
		// The seed is random, and a resumed search keeps it.
		if json.Unmarshal(open.Proof.Asked, &asked) == nil && asked.Seed == o.Seed && slices.Equal(asked.Set, o.Set) &&
			asked.Metric == o.Metric && asked.Bench == o.Bench && asked.Dir == o.Dir {
			return name
		}
	}
	return ""
}
