// Package evidence keeps what was measured: one record of each measurement, with the
// machine it was made on, in a store that loses nothing.
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

// Schema names the JSON form of a run.
const Schema = "fettle/run/v1"

// Run is the record of one measurement.
type Run struct {
	Schema string `json:"schema"` // fettle/run/v1
	// ID is the beginning of the SHA-256 of the record without it.
	ID      string    `json:"id"`
	Kind    string    `json:"kind"`    // prove
	Command string    `json:"command"` // how fettle was called
	User    string    `json:"user,omitempty"`
	Version string    `json:"version"` // of fettle
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended,omitzero"`
	Machine Machine   `json:"machine"`
	// Verdict is the result in one line.
	Verdict string `json:"verdict"`
	// Body is what the kind of measurement has to say, in its own schema.
	Body json.RawMessage `json:"body"`
}

// idLength is the number of hexadecimal digits of an ID: two of 2^24 records agree in
// them once in a hundred thousand stores, and then the second is refused.
const idLength = 16

// EscapeInvalidUTF8 is text as a record can hold it: bytes that are not UTF-8 are written \xNN.
// JSON has no place for them, and would put the same sign for each.
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

// escapeInvalidUTF8 does it with all text of a record but the body, which is JSON already.
func (r *Run) escapeInvalidUTF8() {
	m := &r.Machine
	for _, s := range []*string{&r.Kind, &r.Command, &r.User, &r.Version, &r.Verdict, &m.Name, &m.Model, &m.CPU, &m.Hypervisor, &m.OS, &m.Kernel, &m.Hardware} {
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

// sealed is the text of a record with its ID.
func (r *Run) sealed() ([]byte, error) {
	r.escapeInvalidUTF8() // what is read again has to give the same text
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

// DamagedError is that a file does not hold the record that was written: nothing in it is
// evidence.
type DamagedError struct {
	Path string
	Err  error // what is wrong with it
}

func (d *DamagedError) Error() string { return d.Path + ": " + d.Err.Error() }
func (d *DamagedError) Unwrap() error { return d.Err }

// checkID is an error where a record is not the one with the ID that it had before it was
// sealed again.
func (r *Run) checkID(had string) error {
	switch {
	case had == "":
		return fmt.Errorf("the record has no id: it would be %s", r.ID)
	case had != r.ID:
		return fmt.Errorf("run %s was changed after it was recorded", had)
	}
	return nil
}

// Read reads the text of a record and refuses one that is not as it was written.
func Read(text []byte) (*Run, error) {
	var r Run
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("no record of a run: %w", err)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("no record of a run: its schema is %q, not %q", r.Schema, Schema)
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
