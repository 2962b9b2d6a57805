package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/ui"
)

// openRun is a run that is under way or was cut off, with what it has measured so far.
type openRun struct {
	*evidence.Run
	alive bool
	proof *prove.Evidence // of an experiment; nil of a bench
}

// listedOpen is a run that is under way or was cut off, in brief.
func (m *machine) listedOpen(name string) (ListedRun, error) {
	r, err := m.lookAt(name)
	if err != nil {
		return ListedRun{}, err
	}
	l := ListedRun{Name: name, State: "cut-off", Kind: r.Kind, Began: r.Began, Command: r.Command, Verdict: r.Verdict}
	if r.proof != nil {
		l.Resumable, l.Quads, l.Method = !r.alive, len(r.proof.Quads), r.proof.Method
	}
	switch cut := evidence.InterruptionOf(r.Run); {
	case r.alive:
		l.State = underWayState
		if r.proof == nil && cut != nil { // nothing has interrupted it yet
			l.Verdict = fmt.Sprintf("%d of %d %s are finished", cut.Done, cut.Planned, cut.Of)
		}
	case r.proof != nil && r.proof.Ending != "":
		l.State = string(r.proof.Ending)
	}
	return l, nil
}

// underWayState is that of a run whose process lives.
const underWayState = "under-way"

// lines are those of an experiment that has not ended: what was measured, and why it
// stopped, where its process could still say so.
type lines struct {
	visits  []prove.Visit
	stopped prove.Ending // empty where it was killed, or goes on
	why     string
}

// stop is the line that ends what was measured.
type stop struct {
	Stopped prove.Ending `json:"stopped"`
	Why     string       `json:"error,omitempty"`
}

func (l *lines) take(text []byte) error {
	var line struct {
		prove.Visit
		stop
	}
	if err := json.Unmarshal(text, &line); err != nil {
		return err
	}
	l.stopped, l.why = line.Stopped, line.stop.Why
	if line.Stopped == "" {
		l.visits = append(l.visits, line.Visit)
	}
	return nil
}

// lookAt reads a run that has not ended, with the verdict of what was measured; the ending
// of an experiment is empty where it does not tell one.
func (m *machine) lookAt(name string) (*openRun, error) {
	var all [][]byte
	r, alive, err := m.runs().Peek(name, func(text []byte) error { all = append(all, text); return nil })
	if err != nil {
		return nil, err
	}
	open := &openRun{Run: r, alive: alive}
	if r.Kind == "prove" {
		open.proof, err = ofProve(r, all)
	} else {
		err = ofBench(r, all)
	}
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", name, err)
	}
	return open, nil
}

// ofProve is an experiment that has not ended, by its lines.
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
	course, err := prove.Replay(e.Design, l.visits)
	if err != nil {
		return nil, err
	}
	found := e.Summed(prove.Sum(course, l.stopped, nil, l.visits))
	found.Error = l.why
	r.Verdict = found.Text
	return found, nil
}

// findRun is the run that a word names: one that has ended by its ID, or one that was
// cut off or is under way by its name, with what it has measured so far.
func (m *machine) findRun(word string) (*evidence.Run, error) {
	r, err := m.runs().Get(word)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return r, damaged(m.unread(err))
	}
	open, err := m.lookAt(word)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ui.Hinted(ui.Usage, fmt.Errorf("no run %q", word), "fettle runs list shows them")
	}
	if err != nil {
		return nil, m.unread(err)
	}
	if open.proof == nil && string(open.Body) == nothingYet {
		return nil, fmt.Errorf("run %s: %s", word, open.Verdict)
	}
	if e := open.proof; e != nil {
		if e.Ending == "" {
			e.Ending = prove.EndedInterrupted
		}
		open.Body, err = json.Marshal(e)
	}
	return open.Run, err
}
