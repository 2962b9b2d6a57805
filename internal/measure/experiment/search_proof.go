package experiment

import (
	"bytes"
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
	for _, v := range s.body.Samples {
		spent += v.TookS
	}
	o.Set, o.Resume = s.body.Best, ""
	o.Budget = max(s.o.Budget-Seconds(spent), Seconds(proofShare*s.o.Budget.Seconds()))
	name, err := s.interruptedProof(o)
	if err != nil {
		s.Screen.Say("ignored: %s", err)
	}
	next := "now proving it in at most " + ui.Roughly(o.Budget.Seconds())
	if name != "" {
		next = "continuing the interrupted proof " + name
		o = Options{Resume: name, Keep: o.Keep, Anyway: o.Anyway}
	}
	s.Screen.Say("the best of %s: %s; %s", text.Count(len(s.body.Samples), "run"), strings.Join(s.body.Best, ", "), next)
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
// The error is about records that cannot be continued, such as one of an earlier method.
func (s *Search) interruptedProof(o Options) (string, error) {
	store := Store(s.Machine)
	names, err := store.Unfinished()
	for _, name := range slices.Backward(names) {
		open, unread := Peek(store, name)
		if unread != nil {
			err = errors.Join(err, unread)
			continue
		}
		if !open.Alive && open.Proof != nil && slices.Equal(open.Proof.Work, s.body.Work) && o.sameProof(open.Proof.Asked) {
			return name, err
		}
	}
	return "", err
}

// sameProof reports whether a proof with these options continues one that was asked for.
func (o Options) sameProof(asked json.RawMessage) bool {
	var was Options
	if json.Unmarshal(asked, &was) != nil {
		return false
	}
	a, errA := json.Marshal(was.withoutBudget())
	b, errB := json.Marshal(o.withoutBudget())
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// withoutBudget returns the options without those that do not identify a proof: the budget, which
// is what the search left over, and --force. The seed stays, because a resumed search keeps it.
func (o Options) withoutBudget() Options {
	if o.Timeout == defaultTimeout(o.Budget) {
		o.Timeout = 0
	}
	o.Budget, o.Anyway = 0, false
	return o
}
