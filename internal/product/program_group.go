package product

import (
	"errors"

	"fettle.dev/fettle/internal/engine/plugin"
)

// Group holds the processes of one instance of a product.
type Group struct {
	Main Process
	// Children are the serving processes, except those that are finishing their last requests.
	Children []Process
	// Changed is the time of the last change of the instance's files, in seconds since the epoch; 0
	// if unknown.
	Changed float64
}

// serving returns the children, or the main process if it has none.
func (g Group) serving() []Process {
	if len(g.Children) > 0 {
		return g.Children
	}
	return []Process{g.Main}
}

// Taken reports whether the processes have read their files since the last change.
func (g Group) Taken() Taken { return Since(g.Changed, g.Main, g.Children) }

// TakenAtStart is like Taken, but for an option that is read only at start. It returns Unclear
// instead of No, because the change may have been in another line.
func (g Group) TakenAtStart() Taken {
	if g.Main.StartedS > g.Changed && g.Changed > 0 {
		return Yes
	}
	return Unclear
}

// Unknown returns why a program's running options are unknown, or "" if it has read its files.
func (t Taken) Unknown() string {
	switch t {
	case Yes:
		return ""
	case No:
		return "the configuration files were changed after the program read them"
	case Unclear:
	}
	return "unknown whether the program has read its changed configuration files"
}

// Effect returns the verdict for a value in the files of a program that does not report its
// options. err says why its processes are unknown.
func Effect(t Taken, err error) (plugin.Verdict, string) {
	switch {
	case errors.Is(err, ErrStopped):
		return plugin.OK, "in force after the next start of the server"
	case err != nil:
		return plugin.Unknown, err.Error()
	case t == Yes:
		return plugin.OK, ""
	case t == No:
		return plugin.Drifted, t.Unknown() + "; reload the program"
	}
	return plugin.Unknown, t.Unknown()
}
