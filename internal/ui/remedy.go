package ui

import (
	"errors"
	"os"
	"path/filepath"
)

// Remedy is how a refused call works: the same call again, changed as the fields say. The
// zero value is the same call unchanged, for what is only a matter of time.
type Remedy struct {
	Options []string // added to the call, one word each: --name or --name=value
	Instead []string // --name=value, each in the place of options of that name that the call has
	Root    bool     // as root
	Before  string   // a command that has to succeed first
	Drop    string   // --name of options to leave out
	To      string   // what the command is for: "to keep the state elsewhere"; "" for the same as before
	// OwnState takes a state directory of this user's own.
	OwnState bool
}

// Retry gives an error a code and a hint, and prints the call with more options as the
// command that works.
func Retry(code int, err error, hint string, options ...string) error {
	return &Error{Code: code, Err: err, Hint: hint, Remedy: &Remedy{Options: options}}
}

// Instead gives an error a code and a hint, and prints the call with other values of some
// options, --name=value, as the command that works.
func Instead(code int, err error, hint string, options ...string) error {
	return &Error{Code: code, Err: err, Hint: hint, Remedy: &Remedy{Instead: options}}
}

// AsRoot refuses what only root may do, and prints the call with sudo.
func AsRoot(err error, hint string) error {
	return &Error{Code: Refused, Err: err, Hint: hint, Remedy: &Remedy{Root: true}}
}

// advice returns the hint and the remedy of an error.
func advice(err error) (hint string, remedy *Remedy) {
	if e := (*Error)(nil); errors.As(err, &e) && (e.Hint != "" || e.Remedy != nil) {
		return e.Hint, e.Remedy
	}
	if s := (*Sentinel)(nil); errors.As(err, &s) && (s.Hint != "" || s.Remedy != nil) {
		return s.Hint, s.Remedy
	}
	if Code(err) == Busy {
		return "fettle status shows what is running; wait until that has ended", &Remedy{}
	}
	return "", nil
}

// advise says what to do about an error: its hint, the command that works, and for words
// that are wrong where they are explained.
func (s *Screen) advise(err error) {
	hint, remedy := advice(err)
	if remedy != nil && remedy.OwnState {
		own := *remedy
		own.Instead = []string{"--state-dir=" + homeState()}
		remedy = &own
	}
	if hint != "" {
		s.sayLines(hint)
	}
	switch {
	case remedy != nil && s.Call != nil && remedy.unchanged():
		s.Say("then run again: %s", s.Call(*remedy))
	case remedy != nil && s.Call != nil && remedy.To != "":
		s.Say("%s, run: %s", remedy.To, s.Call(*remedy))
	case remedy != nil && s.Call != nil:
		s.Say("run: %s", s.Call(*remedy))
	case hint == "" && Code(err) == Usage && s.Verb != "":
		s.Say("see %s --help", s.Verb)
	}
}

// unchanged reports whether the call works without a change, later.
func (r *Remedy) unchanged() bool {
	return len(r.Options) == 0 && len(r.Instead) == 0 && !r.OwnState && !r.Root && r.Before == "" && r.Drop == ""
}

// homeState is a state directory of this user's own.
func homeState() string {
	home, err := os.UserHomeDir()
	if err != nil {
		home = os.TempDir()
	}
	return filepath.Join(home, ".local", "state", "fettle")
}
