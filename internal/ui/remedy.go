package ui

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"fettle.dev/fettle/internal/text"
)

// Remedy describes how to change a rejected call so that it works. The zero value is the
// unchanged call, for temporary errors.
type Remedy struct {
	Options []string // added to the call, one word each: --name, --name=value, or an argument
	Instead []string // --name=value: replaces options of that name
	Of      string   // with Instead or Drop: only options with this value; "" for all
	Root    bool     // run as root
	Before  string   // a command that must succeed first
	Drop    []string // --name of options to remove
	Word    string   // argument or option name that Become replaces
	Become  []string // if empty, Word is removed
	To      string   // purpose of the command, "to keep the state elsewhere"; "" if it equals the call's
	Example bool     // the new value is an example, not the probable intention
	// OwnState uses a state directory of the user.
	OwnState bool
	// NoCommand removes the command after --.
	NoCommand bool
}

// Retry returns an error with an exit code and a hint. The suggested command is the call with
// additional options.
func Retry(code int, err error, hint string, options ...string) error {
	return &Error{Code: code, Err: err, Hint: hint, Remedy: &Remedy{Options: options}}
}

// Instead returns an error with an exit code and a hint. The suggested command is the call
// with other option values (--name=value).
func Instead(code int, err error, hint string, options ...string) error {
	return &Error{Code: code, Err: err, Hint: hint, Remedy: &Remedy{Instead: options}}
}

// Without returns a usage error. The suggested command is the call without the given options
// (--name).
func Without(err error, options ...string) error {
	return &Error{Code: Usage, Err: err, Remedy: &Remedy{Drop: options}}
}

// WithoutWord returns a usage error. The suggested command is the call without an argument.
func WithoutWord(err error, word string) error {
	return &Error{Code: Usage, Err: err, Remedy: &Remedy{Word: word}}
}

// OtherWord returns a usage error. The suggested command is the call with word replaced.
func OtherWord(err error, word string, become ...string) error {
	return &Error{Code: Usage, Err: err, Remedy: &Remedy{Word: word, Become: become}}
}

// AsRoot returns an error for an operation that requires root. The suggested command is the
// call with sudo.
func AsRoot(err error, hint string) error {
	return &Error{Code: Refused, Err: err, Hint: hint, Remedy: &Remedy{Root: true}}
}

// Advice returns the hint and the remedy of the outermost error with either.
func Advice(err error) (hint string, remedy *Remedy) {
	for e := (*Error)(nil); errors.As(err, &e); err = e.Err {
		if e.Hint != "" || e.Remedy != nil {
			return e.Hint, e.Remedy
		}
	}
	if s := (*Sentinel)(nil); errors.As(err, &s) && (s.Hint != "" || s.Remedy != nil) {
		return s.Hint, s.Remedy
	}
	if Code(err) == Busy {
		return "wait until it has ended; see fettle status", &Remedy{}
	}
	return "", nil
}

// advise prints how to resolve an error: its hint and the suggested command. For invalid
// arguments without a known remedy it prints an example of the verb.
func (s *Screen) advise(err error) {
	hint, remedy := Advice(err)
	if remedy != nil && remedy.OwnState {
		own := *remedy
		own.Instead = []string{"--state-dir=" + homeState()}
		remedy = &own
	}
	if hint != "" {
		s.sayLines(s.Own(hint))
	}
	switch {
	case remedy != nil && s.Call != nil && remedy.unchanged():
		s.Say("then run again: %s", s.Call(*remedy))
	case remedy != nil && s.Call != nil && remedy.To != "":
		s.Say("%s, run: %s", remedy.To, s.Call(*remedy))
	case remedy != nil && s.Call != nil && remedy.Example:
		s.Say("for example: %s", s.Call(*remedy))
	case remedy != nil && s.Call != nil:
		s.Say("run: %s", s.Call(*remedy))
	case hint == "" && Code(err) == Usage && s.Example != "":
		s.Say("for example: %s", s.Example)
	}
}

// withState matches the calls that read or change the state directory.
var withState = text.LazyRegexp(`\bfettle (confirm|history|prove|quiet|runs|search|status|tune|undo|verify)\b`)

// Own adds the option for the state directory to the calls in a text, so that they work.
func (s *Screen) Own(words string) string {
	if s.State == "" {
		return words
	}
	return withState().ReplaceAllString(words, "fettle "+strings.ReplaceAll(s.State, "$", "$$")+" $1")
}

// unchanged reports whether the remedy is to repeat the same call later.
func (r *Remedy) unchanged() bool {
	return len(r.Options) == 0 && len(r.Instead) == 0 && !r.OwnState && !r.Root && r.Before == "" && len(r.Drop) == 0 && r.Word == "" && !r.NoCommand
}

// homeState returns the default state directory of the user.
func homeState() string {
	home, err := os.UserHomeDir()
	if err != nil {
		home = os.TempDir()
	}
	return filepath.Join(home, ".local", "state", "fettle")
}
