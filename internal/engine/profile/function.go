package profile

import (
	"context"

	"fettle.dev/fettle/internal/host"
)

// Function is one built-in function of the profile language, called as
// ${f:name:arg:arg}. The table Functions lists all of them.
type Function struct {
	// Name is what follows "f:".
	Name string
	// Args is how the manual writes the arguments, Doc what the call gives, and
	// Since the first TuneD that has it where 2.20 lacks it.
	Args, Doc, Since string
	// MinArgs and MaxArgs bound the number of arguments; MaxArgs 0 means any
	// number. The loader checks them before Call: a call out of bounds stays
	// unexpanded with a warning, as in TuneD.
	MinArgs, MaxArgs int
	// Executes says that the function runs a program. The loader calls such a
	// function only when its Execute is set, and records the answer.
	Executes bool
	// Fixed says that the program is always the same and only reads: it may run
	// whenever a profile is loaded on a machine, and so diff knows what tune does.
	Fixed bool
	// Call computes the result from arguments that are already expanded, with
	// their escaped colons resolved. ok false leaves the call's text
	// unexpanded, which is what TuneD does when a function returns None. An
	// error ends the loading of the profile (assertion); one that is
	// host.Unknown marks the call as deferred instead.
	Call func(ctx context.Context, env *Env, args []string) (result string, ok bool, err error)
}

// Env is what a built-in function may see.
type Env struct {
	Host *host.Host
	// Dirs is the profile search path, later directories win.
	Dirs []string
	// Warn records a message for the person who loads the profile (TuneD's
	// log): one sentence in lower case without a full stop. Never nil when a
	// function is called by the loader.
	Warn func(format string, args ...any)
}
