package experiment

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// resume continues an interrupted experiment.
func (p *Experiment) resume() error {
	store, name := Store(p.Machine), p.o.Resume
	if name == Last {
		var err error
		if name, err = lastCutOff(store, "prove"); err != nil {
			return err
		}
	}
	var l lines
	u, err := store.Resume(name, l.take)
	if errors.Is(err, fs.ErrNotExist) {
		return p.resumeEnded(name)
	}
	if err != nil {
		return err
	}
	if u.Run.Kind != "prove" {
		return ui.Hinted(ui.Usage, errors.Join(fmt.Errorf("run %s is a %s, not an experiment; only experiments can be resumed", name, u.Run.Kind), u.Close()), "fettle runs show "+name+" shows the finished part")
	}
	if p.o.Further != (Further{}) {
		return ui.Exit(ui.Usage, errors.Join(fmt.Errorf("run %s was interrupted and continues with its original options; leave out --budget and --blocks", name), u.Close()))
	}
	p.record, p.samples = u, l.samples
	if bytes.Contains(u.Run.Body, []byte(`\ufffd`)) { // JSON's replacement for an invalid byte
		return ui.Hinted(ui.Refused, fmt.Errorf("cannot resume run %s: its commands contain bytes that are not UTF-8, which the record does not store", name), "fettle runs show "+name+" shows its measurements; start a new run with fettle prove")
	}
	if err := json.Unmarshal(u.Run.Body, p.body); err != nil {
		return err
	}
	o := Options{Expect: p.o.Expect, Keep: p.o.Keep, Resume: p.o.Resume, Anyway: p.o.Anyway}
	if err := json.Unmarshal(p.body.Asked, &o); err != nil {
		return err
	}
	p.o = o
	if begun := p.body.JudgedBy(); begun != prove.Method {
		if _, err := prove.Replay(p.body.Design, p.samples); err != nil {
			return ui.Hinted(ui.Refused, fmt.Errorf("run %s was started with evaluation method %d, and method %d of this version cannot continue it", name, begun, prove.Method), "start a new experiment with fettle prove")
		}
		p.Screen.Say("started with evaluation method %d; from now on method %d evaluates all measurements", begun, prove.Method)
	}
	return p.sameMachine(u.Run, name, "fettle prove --resume "+name)
}

// sameMachine returns an error if a run was started on another machine than this. resume is the
// command that resumes it.
func (p *Experiment) sameMachine(r *evidence.Run, name, resume string) error {
	if evidence.Fingerprint(p.Host).Hardware == r.Machine.Hardware {
		return nil
	}
	return ui.Hinted(ui.Refused, fmt.Errorf("run %s was started on another machine (%s, %s)", name, r.Machine.Name, r.Machine.CPU), onThatMachine(resume))
}

func onThatMachine(resume string) string { return "resume it on that machine: " + resume }

// lastCutOff returns the name of the run of a kind that was interrupted last.
func lastCutOff(store evidence.Store, kind string) (string, error) {
	names, err := store.Unfinished()
	if err != nil {
		return "", err
	}
	for _, name := range slices.Backward(names) {
		// Resuming the run reports the error.
		r, _, err := store.Peek(name, func([]byte) error { return nil })
		if err != nil || r.Kind == kind {
			return name, nil
		}
	}
	return "", ui.Exit(ui.Usage, errors.New("no interrupted experiment found on this machine"))
}

// Further holds the limits for continuing an experiment that has ended.
type Further struct {
	Budget time.Duration // 0: the same again
	Blocks int           // limit including existing blocks; 0: twice their number
}

// resumeEnded continues an experiment that ended without an answer. Its interval is valid at every
// look, so it may continue. The old record stays.
func (p *Experiment) resumeEnded(name string) error {
	r, err := Store(p.Machine).Get(name)
	if errors.Is(err, fs.ErrNotExist) {
		return ui.Hinted(ui.Usage, fmt.Errorf("no interrupted experiment %q found", name), "fettle runs list shows all runs")
	}
	if err != nil {
		return Damaged(err)
	}
	if r.Kind != "prove" {
		return ui.Exit(ui.Usage, fmt.Errorf("run %s is a %s, not an experiment", r.ID, r.Kind))
	}
	e, err := prove.EvidenceOf(r)
	if err != nil {
		return err
	}
	switch otherwise, err := Credible(r, e); {
	case err != nil:
		return err
	case otherwise != nil && otherwise.Err != nil:
		return ui.Hinted(ui.Refused, fmt.Errorf("run %s was %w", r.ID, otherwise), "start a new experiment with fettle prove")
	}
	if !e.Unanswered() {
		return ui.Exit(ui.Usage, fmt.Errorf("run %s has ended (%s): %s; only a run that reached its limit of time or blocks can be resumed", r.ID, e.Ending, e.Text))
	}
	if err := p.sameMachine(r, r.ID, "fettle prove --resume "+r.ID); err != nil {
		return err
	}
	more := p.o.Further
	o := Options{Expect: p.o.Expect, Keep: p.o.Keep, Resume: r.ID, Anyway: p.o.Anyway}
	if err := json.Unmarshal(e.Asked, &o); err != nil {
		return err
	}
	spent := 0.0
	for _, v := range e.Samples {
		spent += v.TookS
	}
	o.Budget = time.Duration(spent*float64(time.Second)) + cmp.Or(more.Budget, o.Budget)
	made := e.Unsettled + len(e.Blocks)
	if e.Ending == prove.EndedMost {
		more.Blocks = cmp.Or(more.Blocks, 2*made)
	}
	o.Blocks = cmp.Or(more.Blocks, o.Blocks)
	if o.Blocks <= made {
		return ui.Exit(ui.Usage, fmt.Errorf("run %s already has %s; --blocks must be larger", r.ID, text.Count(made, "block")))
	}
	p.o, p.samples = o, e.Samples
	p.body.Work, p.body.Change, p.body.Resumed = e.Work, e.Change, append(e.Resumed, prove.Resumption{Run: r.ID, At: p.Host.Clock.Now().UTC(), Blocks: len(e.Blocks), Verdict: e.Text, Ending: e.Ending})
	return nil
}
