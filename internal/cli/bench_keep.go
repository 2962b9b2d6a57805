package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"fettle.dev/fettle/internal/evidence"
)

// keeper keeps what a bench has finished while the rest of it goes on, so that it is there
// whatever ends this process.
type keeper struct {
	machine  *machine
	run      *evidence.Run
	underway *evidence.RunInProgress // nil until something is finished
}

// nothingYet is the body of a bench that has finished nothing.
const nothingYet = "{}"

func (m *machine) keeper(kind string, began time.Time) *keeper {
	return &keeper{machine: m, run: &evidence.Run{Kind: kind, Began: began.UTC(), Verdict: "under way", Body: json.RawMessage(nothingYet)}}
}

// finished is the line of a bench under way: what there is of its record by then.
type finished struct {
	Verdict string          `json:"verdict"`
	Body    json.RawMessage `json:"body"`
}

// finished makes durable what there is by now.
func (k *keeper) finished(verdict string, body any) (err error) {
	line := finished{Verdict: verdict}
	if line.Body, err = json.Marshal(body); err != nil {
		return err
	}
	if k.underway == nil {
		k.machine.sign(k.run)
		k.underway, err = k.machine.runs().Begin(k.run)
	}
	if err == nil {
		err = k.underway.Replace(line)
	}
	if err != nil {
		return fmt.Errorf("what was measured cannot be kept: %w", err)
	}
	return nil
}

// record puts the whole record into the store, in place of what was kept until then.
func (k *keeper) record(verdict string, body any) (err error) {
	r := k.run
	if r.Body, err = json.Marshal(body); err != nil {
		return err
	}
	k.machine.sign(r)
	r.Verdict, r.Ended = verdict, k.machine.host.Clock.Now().UTC()
	if k.underway == nil {
		err = k.machine.runs().Put(r)
	} else if err = k.machine.runs().Finish(k.underway); err != nil {
		err = fmt.Errorf("%w; what was measured is in %s", err, k.underway.Path)
	}
	if err != nil {
		r.ID = "" // there is no such record
		return fmt.Errorf("the record cannot be kept: %w", err)
	}
	return nil
}

// nothing is for a bench in which nothing counts in the end.
func (k *keeper) nothing() error {
	if k.underway == nil {
		return nil
	}
	return k.machine.runs().Discard(k.underway)
}

// sign says in a record who measures, with what, and on which machine.
func (m *machine) sign(r *evidence.Run) {
	r.Command, r.User, r.Version, r.Machine = m.command, user(), m.version, evidence.Fingerprint(m.host)
}

// ofBench is a run of a bench that has not ended, by its lines.
func ofBench(r *evidence.Run, lines [][]byte) error {
	r.Verdict = "nothing was finished"
	if len(lines) == 0 {
		return nil
	}
	var last finished
	if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil {
		return fmt.Errorf("line %d: %w", len(lines)+1, err)
	}
	if len(last.Body) == 0 {
		return errors.New("its last line has no body")
	}
	r.Verdict, r.Body = last.Verdict, last.Body
	return nil
}
