package product

import (
	"errors"

	"fettle.dev/fettle/internal/fact"
)

// AsRead is an option of a program that does not say what it runs with: that is
// what its files say, where it has read them since they were changed. fileErr is
// why the files are not known, runErr why the processes are not.
func AsRead(main string, file fact.Fact[string], fileErr error, taken Taken, runErr error) Option {
	o := Option{File: file, Running: fact.Absent[string](main)}
	switch {
	case fileErr != nil:
		o.File = fact.Unknown[string](main, fileErr.Error())
		o.Running = o.File
	case errors.Is(runErr, ErrStopped):
	case runErr != nil:
		o.Running = fact.Unknown[string](main, runErr.Error())
	case taken == Yes:
		o.Running = file
	default:
		o.Running = fact.Unknown[string](main, taken.Unknown())
	}
	return o
}

// ReadSinceChange answers whether the running program has read its files since
// they were changed.
func ReadSinceChange(main string, fileErr error, taken Taken, runErr error) fact.Answer {
	switch {
	case fileErr != nil:
		return fact.Answer{Unknown: fileErr.Error(), At: main}
	case runErr != nil:
		return fact.Answer{Unknown: runErr.Error(), At: "/proc"}
	case taken == Unclear:
		return fact.Answer{Unknown: taken.Unknown(), At: "/proc"}
	}
	return fact.Answer{Value: taken == Yes, At: "/proc"}
}

// RunBy is the service of systemd that runs a process; "" for none.
func RunBy(p Process) fact.Answer {
	return fact.Answer{Value: p.Unit, At: "/proc/PID/cgroup"}
}

// Origin reports whether the program that runs has taken its values from its files
// (rule.Running), or will take them when it starts next (rule.Files).
func Origin(taken Taken, runErr error) string {
	if runErr == nil && taken == Yes {
		return fact.Running
	}
	return fact.Files
}
