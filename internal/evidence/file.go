package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"fettle.dev/fettle/internal/host"
)

// maxFileSize is the largest file of records that is read, in bytes. An experiment of a thousand
// phases takes two million.
const maxFileSize = 256 << 20

// ReadFile reads the records in a file: one or several in sequence, as exported, or as
// printed with --output json. The error is a *DamagedError if a record was changed.
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
			return nil, fmt.Errorf("%s: larger than %d MiB", name, maxFileSize>>20)
		case errors.Is(err, io.EOF) && len(runs) > 0:
			return runs, nil
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%s: empty file; not a record of a run", name)
		case err != nil:
			return nil, fmt.Errorf("%s: not a record of a run: %w", name, err)
		case r.Schema != Schema:
			return nil, fmt.Errorf("%s: not a record of a run: its schema is %q, not %q", name, r.Schema, Schema)
		}
		// Exit code, messages and white space are added by printing and are not part of the
		// record.
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

// open reports whether the record is an unfinished experiment, as printed by runs show. It has no
// ID yet.
func (r *Run) open() bool { return r.Kind == "prove" && r.Ended.IsZero() }

// Text returns the record in the form of the store, for export.
func (r *Run) Text() ([]byte, error) {
	if r.ID == "" {
		if r.Kind == "prove" || r.Kind == "search" {
			return nil, fmt.Errorf("the run has not ended; continue it with fettle %s --resume", r.Kind)
		}
		return nil, errors.New("the run is in progress or was interrupted; fettle runs show prints its finished part")
	}
	return r.sealed()
}
