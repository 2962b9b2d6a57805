package evidence

import (
	"encoding/json"
	"errors"
	"fmt"

	"fettle.dev/fettle/internal/host"
)

// Signature holds the user, command and fettle version of a measurement.
type Signature struct{ Command, User, Version string }

// Sign records the signature and the machine in a run.
func (s Signature) Sign(r *Run, h *host.Host) {
	r.Command, r.User, r.Version, r.Machine = s.Command, s.User, s.Version, Fingerprint(h)
}

// Keeper stores the finished part of a benchmark in progress, which survives if this process is
// killed.
type Keeper struct {
	Store
	Signature
	Host       *host.Host
	Run        *Run
	inProgress *RunInProgress // nil until a part is finished
	// Energy ends the measurement of the run's energy and returns it in joules, or nil if it is
	// unknown. The function may be nil.
	Energy func() *float64
}

// NothingYet is the body of a benchmark before the first part is finished.
const NothingYet = "{}"

// NewKeeper returns the keeper of a run that starts now.
func NewKeeper(store Store, by Signature, h *host.Host, kind string) *Keeper {
	r := &Run{Kind: kind, Began: h.Clock.Now().UTC(), Verdict: "under way", Body: json.RawMessage(NothingYet)}
	return &Keeper{Store: store, Signature: by, Host: h, Run: r}
}

// finished is the stored line of a benchmark in progress: the record so far.
type finished struct {
	Verdict string          `json:"verdict"`
	Body    json.RawMessage `json:"body"`
}

// Finished stores the result so far durably.
func (k *Keeper) Finished(verdict string, body any) (err error) {
	line := finished{Verdict: verdict}
	if line.Body, err = json.Marshal(body); err != nil {
		return err
	}
	if k.inProgress == nil {
		k.Sign(k.Run, k.Host)
		k.inProgress, err = k.Begin(k.Run)
	}
	if err == nil {
		err = k.inProgress.Replace(line)
	}
	if err != nil {
		return fmt.Errorf("cannot save the measurements: %w", err)
	}
	return nil
}

// Record stores the complete record, which replaces the result so far. After an error the run has
// no ID.
func (k *Keeper) Record(verdict string, body any) (err error) {
	r := k.Run
	if r.Body, err = json.Marshal(body); err != nil {
		return err
	}
	k.Sign(r, k.Host)
	if k.Energy != nil {
		r.EnergyJ = k.Energy()
	}
	r.Verdict, r.Ended = verdict, k.Host.Clock.Now().UTC()
	if k.inProgress == nil {
		err = k.Put(r)
	} else if err = k.Finish(k.inProgress); err != nil {
		err = fmt.Errorf("%w; the measurements are in %s", err, k.inProgress.Path)
	}
	if err != nil {
		r.ID = ""
		return fmt.Errorf("cannot save the record: %w", err)
	}
	return nil
}

// Continue continues an interrupted run. It calls line with each line of its record after the
// first, and returns the record at the start.
func (k *Keeper) Continue(name string, line func([]byte) error) (*Run, error) {
	u, err := k.Resume(name, line)
	if err != nil {
		return nil, err
	}
	k.Run, k.inProgress = u.Run, u
	return u.Run, nil
}

// Name returns the name of a run in progress for Continue.
func (k *Keeper) Name() string {
	if k.inProgress == nil {
		return ""
	}
	return k.inProgress.Name()
}

// Nothing removes the stored part of a benchmark without a result.
func (k *Keeper) Nothing() error {
	if k.inProgress == nil {
		return nil
	}
	return k.Discard(k.inProgress)
}

// Unfinished sets the body of an interrupted benchmark from its recorded lines.
func (r *Run) Unfinished(lines [][]byte) error {
	r.Verdict = "interrupted before the first measurement ended"
	if len(lines) == 0 {
		return nil
	}
	var last finished
	if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil {
		return fmt.Errorf("line %d: %w", len(lines)+1, err)
	}
	if len(last.Body) == 0 {
		return errors.New("the last line contains no result")
	}
	r.Verdict, r.Body = last.Verdict, last.Body
	return nil
}
