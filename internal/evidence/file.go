package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"fettle.dev/fettle/internal/host"
)

// maxFileSize is the most that is read of a file with records, in bytes: one of an
// experiment of a thousand visits takes two million.
const maxFileSize = 256 << 20

// ReadFile reads the records in a file: one or several, one after the other, as they
// were exported, or as a verb printed them with --output json. The error is a *Damaged
// where one of them is not as it was recorded.
func ReadFile(name string) ([]*Run, error) {
	f, err := host.OpenRegular(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := &io.LimitedReader{R: f, N: maxFileSize + 1}
	var runs []*Run
	for d := json.NewDecoder(in); ; {
		var r Run
		err := d.Decode(&r)
		switch {
		case in.N == 0:
			return nil, fmt.Errorf("%s: it has more than %d MiB", name, maxFileSize>>20)
		case errors.Is(err, io.EOF) && len(runs) > 0:
			return runs, nil
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%s: it is empty, and no record of a run", name)
		case err != nil:
			return nil, fmt.Errorf("%s: no record of a run: %w", name, err)
		case r.Schema != Schema:
			return nil, fmt.Errorf("%s: no record of a run: its schema is %q, not %q", name, r.Schema, Schema)
		}
		// What is printed with it (the exit code, messages) and the spaces between do
		// not belong to the record.
		id := r.ID
		if _, err := r.sealed(); err != nil {
			return nil, &DamagedError{name, err}
		}
		if err := r.checkID(id); err != nil && !(id == "" && r.open()) {
			return nil, &DamagedError{name, err}
		}
		r.ID = id
		runs = append(runs, &r)
	}
}

// open says whether a record is that of an experiment that has not ended, as runs show
// prints it: that one has no ID yet. Every other one is kept with its ID, or not at all.
func (r *Run) open() bool { return r.Kind == "prove" && r.Ended.IsZero() }

// Text is the record as the store keeps it, for other places.
func (r *Run) Text() ([]byte, error) {
	if r.ID == "" {
		if r.Kind == "prove" {
			return nil, errors.New("the run has not ended: fettle prove --resume goes on with it")
		}
		return nil, errors.New("the run has not ended, or was cut off: fettle runs show shows what it has finished")
	}
	return r.sealed()
}
