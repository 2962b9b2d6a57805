package ui

import (
	"bytes"
	"errors"
	"testing"
)

// TestLine: a multi-line error becomes one line without control characters.
func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"one":                  "one",
		"  one ":               "  one ",
		"one\ntwo":             "one; two",
		"one\n\n  two\r\n":     "one; two",
		"these:\none\ntwo\n":   "these: one; two",
		"one\x1b[2J\ntwo\rand": "one\ufffd[2J; two\ufffdand",
	} {
		if got := Line(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	var said bytes.Buffer
	s := &Screen{Out: &said, Err: &said, Format: Table}
	err := errors.Join(errors.New("this"), errors.New("and that"))
	s.Say("left unchanged: %v", err)
	s.Progress("waiting: %v", err)
	if want := "fettle: left unchanged: this; and that\nfettle: waiting: this; and that\n"; said.String() != want || s.Messages[0] != "left unchanged: this; and that" {
		t.Errorf("%q, %q", said.String(), s.Messages)
	}
	// On a terminal a command to copy is not broken, also one of several with a comment.
	said.Reset()
	s.Width = 20
	s.Say("fettle logs a.log --format 'b c'  # in seconds")
	if want := "fettle: fettle logs a.log --format 'b c'  # in seconds\n"; said.String() != want {
		t.Errorf("%q, want %q", said.String(), want)
	}
	said.Reset()
	s.Say("fettle logs a.log --format 'nginx:$a $b'")
	if want := "fettle: fettle logs a.log --format 'nginx:$a $b'\n"; said.String() != want {
		t.Errorf("%q, want %q", said.String(), want)
	}
}
