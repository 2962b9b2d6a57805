// Package evidence stores records of measurements, each with its result and the fingerprint of its
// machine. The store is a directory that survives crashes. Benchmarks, load tests and experiments
// write records; reports, comparisons and the manual read them.
package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Schema is the schema of a run in JSON.
const Schema = "fettle/run/v1"

// Run is the record of one measurement.
type Run struct {
	Schema string `json:"schema"` // fettle/run/v1
	// ID is the beginning of the SHA-256 of the record without ID.
	ID      string    `json:"id"`
	Kind    string    `json:"kind"`    // prove
	Command string    `json:"command"` // the command line
	User    string    `json:"user,omitempty"`
	Version string    `json:"version"` // of fettle
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended,omitzero"`
	Machine Machine   `json:"machine"`
	// EnergyJ is the energy of the machine's processor packages and their memory from Began to
	// Ended, or nil if RAPL did not measure it. It includes other processes.
	EnergyJ *float64 `json:"energy_j,omitempty"`
	// Verdict is the result as one line of text.
	Verdict string `json:"verdict"`
	// Body is the result of this kind of measurement, in its own schema.
	Body json.RawMessage `json:"body"`
}

// idLength is the number of hexadecimal digits of an ID. Of a hundred thousand stores with 2^24
// records each, one has two records with the same ID; the second is rejected.
const idLength = 16

// EscapeInvalidUTF8 replaces bytes that are not UTF-8 by \xNN. JSON would replace all of them by
// the same character.
func EscapeInvalidUTF8(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		c, size := utf8.DecodeRuneInString(text)
		if c == utf8.RuneError && size == 1 {
			fmt.Fprintf(&b, `\x%02x`, text[0])
		} else {
			b.WriteString(text[:size])
		}
		text = text[size:]
	}
	return b.String()
}

// escapeInvalidUTF8 escapes all strings of a record except the body, which is JSON already.
func (r *Run) escapeInvalidUTF8() {
	m := &r.Machine
	for _, s := range []*string{&r.Kind, &r.Command, &r.User, &r.Version, &r.Verdict, &m.Name, &m.Model, &m.CPU, &m.Hypervisor, &m.OS, &m.Kernel, &m.BootID, &m.Hardware} {
		*s = EscapeInvalidUTF8(*s)
	}
	if m.Settings == nil {
		return
	}
	settings := make(map[string]string, len(m.Settings))
	for name, value := range m.Settings {
		settings[EscapeInvalidUTF8(name)] = EscapeInvalidUTF8(value)
	}
	m.Settings = settings
}

// sealed returns the text of the record with its ID.
func (r *Run) sealed() ([]byte, error) {
	r.escapeInvalidUTF8() // reading the text must return the same record
	r.Schema, r.ID = Schema, ""
	text, err := r.text()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	r.ID = hex.EncodeToString(sum[:])[:idLength]
	return r.text()
}

func (r *Run) text() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(r); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// DamagedError is returned for a file that differs from the written record and so proves nothing.
type DamagedError struct {
	Path string
	Err  error // the reason
}

func (d *DamagedError) Error() string { return d.Path + ": " + d.Err.Error() }
func (d *DamagedError) Unwrap() error { return d.Err }

// checkID returns an error if had, the ID that the record had when it was read, is not the ID of
// its content.
func (r *Run) checkID(had string) error {
	switch {
	case had == "":
		return fmt.Errorf("the record has no id; it should be %s", r.ID)
	case had != r.ID:
		return fmt.Errorf("run %s was changed after it was recorded", had)
	}
	return nil
}

// Read parses the text of a record. It returns an error if the record was changed.
func Read(text []byte) (*Run, error) {
	var r Run
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("not a record of a run: %w", err)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("not a record of a run: its schema is %q, not %q", r.Schema, Schema)
	}
	id := r.ID
	again, err := r.sealed()
	if err != nil {
		return nil, err
	}
	if err := r.checkID(id); err != nil {
		return nil, err
	}
	if !bytes.Equal(again, text) {
		return nil, fmt.Errorf("run %s was changed after it was recorded", id)
	}
	return &r, nil
}
