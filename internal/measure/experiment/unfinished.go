package experiment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/ui"
)

// Unfinished is a run that is in progress or was interrupted, with its measurements so far.
type Unfinished struct {
	*evidence.Run
	Alive bool
	Proof *prove.Evidence // nil for a benchmark
}

// lines holds the record of an unfinished experiment: its samples, and the reason why it stopped,
// if its process could record one.
type lines struct {
	samples []prove.Sample
	stopped prove.Ending // "" if it was killed or is running
	why     string
}

// stop is the last line of a record.
type stop struct {
	Stopped prove.Ending `json:"stopped"`
	Why     string       `json:"error,omitempty"`
}

func (l *lines) take(text []byte) error {
	var line struct {
		prove.Sample
		stop
	}
	if err := json.Unmarshal(text, &line); err != nil {
		return err
	}
	l.stopped, l.why = line.Stopped, line.stop.Why
	if line.Stopped == "" {
		l.samples = append(l.samples, line.Sample)
	}
	return nil
}

// Peek reads an unfinished run with its verdict so far. An experiment's ending is "" if its record
// has none.
func Peek(store evidence.Store, name string) (*Unfinished, error) {
	var all [][]byte
	r, alive, err := store.Peek(name, func(text []byte) error { all = append(all, text); return nil })
	if err != nil {
		return nil, err
	}
	open := &Unfinished{Run: r, Alive: alive}
	if r.Kind == "prove" {
		open.Proof, err = ofProve(r, all)
	} else {
		err = r.Unfinished(all)
	}
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", name, err)
	}
	return open, nil
}

// ofProve returns the evidence of an unfinished experiment.
func ofProve(r *evidence.Run, all [][]byte) (*prove.Evidence, error) {
	var l lines
	for n, text := range all {
		if err := l.take(text); err != nil {
			return nil, fmt.Errorf("line %d: %w", n+2, err)
		}
	}
	var e prove.Evidence
	if err := json.Unmarshal(r.Body, &e); err != nil {
		return nil, err
	}
	course, err := prove.Replay(e.Design, l.samples)
	if err != nil {
		return nil, err
	}
	found := e.Summed(prove.Sum(course, l.stopped, nil, l.samples))
	found.Error = l.why
	r.Verdict = found.Text
	return found, nil
}

// ErrNoRuns is returned if nothing was measured yet.
var ErrNoRuns = &ui.Sentinel{Text: "no measurements recorded yet", Exits: ui.Failed, Hint: "record one with fettle prove or fettle bench"}

// Last is the name of the latest run for Find.
const Last = "last"

// Find returns a run: a finished one by its ID or a prefix of it, an unfinished one by its name, or
// the latest one with a result by Last.
func Find(m *tune.Machine, word string) (*evidence.Run, error) {
	if word == Last {
		return latest(m)
	}
	r, err := Store(m).Get(word)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return r, Damaged(m.Unreadable(err))
	}
	open, err := Peek(Store(m), word)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ui.Hinted(ui.Usage, fmt.Errorf("run %q not found", word), "fettle runs list shows all runs")
	}
	if err != nil {
		return nil, m.Unreadable(err)
	}
	if open.Proof == nil && string(open.Body) == evidence.NothingYet {
		return nil, fmt.Errorf("run %s: %s", word, open.Verdict)
	}
	if e := open.Proof; e != nil {
		if e.Ending == "" {
			e.Ending = prove.EndedInterrupted
		}
		open.Body, err = json.Marshal(e)
	}
	return open.Run, err
}

// latest returns the run that began last and has a result. It ignores runs in progress.
func latest(m *tune.Machine) (*evidence.Run, error) {
	runs, err := Store(m).All()
	if len(runs) == 0 && err != nil {
		return nil, Damaged(m.Unreadable(err))
	}
	names, err := Store(m).Unfinished()
	if err != nil {
		return nil, m.Unreadable(err)
	}
	for _, name := range slices.Backward(names) {
		open, err := Peek(Store(m), name)
		if err != nil || open.Alive || string(open.Body) == evidence.NothingYet || len(runs) > 0 && open.Began.Before(runs[len(runs)-1].Began) {
			continue
		}
		return Find(m, name)
	}
	if len(runs) == 0 {
		return nil, ErrNoRuns
	}
	return runs[len(runs)-1], nil
}

// Store returns the store of a machine's runs.
func Store(m *tune.Machine) evidence.Store {
	return evidence.Store{Dir: filepath.Join(m.StateDir, "runs")}
}

// Damaged adds advice to the error of a record that was changed.
func Damaged(err error) error {
	if !errors.As(err, new(*evidence.DamagedError)) {
		return err
	}
	return ui.Hinted(ui.Failed, err, "a damaged record is not evidence: put an intact copy in its place (fettle runs export writes one where it was measured), or remove the file")
}

// Credible returns an error if the verdict in a record does not match its samples. If another
// version of the method made the verdict, it returns the difference and no error.
func Credible(r *evidence.Run, e *prove.Evidence) (otherwise *prove.Otherwise, err error) {
	err = e.Again()
	if errors.As(err, &otherwise) {
		err = nil
	}
	if err == nil && r.Verdict != e.Text {
		err = fmt.Errorf("the record contradicts itself: verdict %q in its header, %q in its body; do not use it", r.Verdict, e.Text)
	}
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", r.ID, err)
	}
	return otherwise, nil
}
