package cli

import (
	"context"
	"maps"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/guide/findings"
	"fettle.dev/fettle/internal/ui"
)

// Verbs that another program has too: kubectl fettle calls these functions with its own screen.

// Size returns the command size, with --root. version is that of the program, and call its
// command line, quoted for sh.
func Size(version, call string, screen *ui.Screen) *cobra.Command {
	a := &app{system: thisSystem(), version: version, command: call, screen: screen, once: &sync.Map{}}
	c := sizeCommand(a)
	rootFlag(c.PersistentFlags().StringVar, &a.root)
	for _, sub := range c.Commands() {
		cliutil.NotEmpty(sub)
	}
	return c
}

// SizeGuides returns the examples of size and its subcommands.
func SizeGuides() map[string]cliutil.Guide {
	out := maps.Clone(guides)
	maps.DeleteFunc(out, func(path string, _ cliutil.Guide) bool { return path != "size" && !strings.HasPrefix(path, "size ") })
	return out
}

// rootFlag defines --root.
func rootFlag(define func(to *string, name, value, usage string), to *string) {
	define(to, "root", "", "read another machine: a directory, such as a sosreport, or an archive of fettle facts --archive")
}

// Recorded selects what CheckRecorded does.
type Recorded struct {
	Root    string // directory, such as a must-gather, or archive
	View    findings.View
	FailOn  string // --fail-on
	Release string // --for
}

// CheckRecorded audits a recorded machine or cluster as fettle check --root does.
func CheckRecorded(ctx context.Context, version string, screen *ui.Screen, o Recorded) error {
	a := &app{system: thisSystem(), version: version, root: o.Root, screen: screen, once: &sync.Map{}}
	return a.check(ctx, nil, checkOptions{view: o.View, failOn: o.FailOn, logs: "tail", release: o.Release})
}
