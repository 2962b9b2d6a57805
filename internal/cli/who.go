package cli

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/ui"
)

// runBy is who runs this command; only the tests put another in its place.
var runBy = sync.OnceValue(host.Self)

// user names the user who runs this command.
func user() string { return runBy().String() }

const (
	reasonUsage = "why: kept in the journal, shown by fettle history and written to the system log (at most 500 bytes)"
	windowUsage = "refuse outside these hours of the local clock, such as 22:00-04:00"
)

// writes adds --reason and --window to a verb that writes.
func (a *app) writes(c *cobra.Command) *cobra.Command {
	c.Flags().StringVar(&a.note, "reason", "", reasonUsage)
	if c.Flags().Lookup("window") == nil { // prove's own takes both
		c.Flags().StringVar(&a.window, "window", "", windowUsage)
		cliutil.Reads(c.Flags(), "window", "22:00-04:00", func(word string) error { _, err := parseWindow(word); return err })
	}
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := a.mayWrite(c.Flags().Changed("reason"), a.window != "" || c.Flags().Changed("window") && c.Name() != "prove"); err != nil {
			return err
		}
		return run(c, args)
	}
	return c
}

// writing is the command of a verb that writes.
func writing(command func(*app) *cobra.Command) func(*app) *cobra.Command {
	return func(a *app) *cobra.Command { return a.writes(command(a)) }
}

// checkNote rejects a reason that is empty or too long, and makes it one line.
func (a *app) checkNote() error {
	text := strings.TrimSpace(a.note)
	switch {
	case text == "":
		return ui.Without(errors.New("--reason is empty: leave it out, or set the variable that it comes from"), "--reason")
	case len(text) > journal.MaxNote:
		return ui.Instead(ui.Usage, fmt.Errorf("--reason: %d bytes: want at most %d", len(text), journal.MaxNote), "", "--reason="+strings.ToValidUTF8(text[:journal.MaxNote], ""))
	}
	a.note = host.Escape(text)
	return nil
}

// logFile writes one line to the system log about a file that a verb has written
// without a transaction.
func (a *app) logFile(h *host.Host, kind, file string) {
	c := runBy()
	_ = h.Log(fmt.Sprintf("%s by %s: wrote %s (%s)", kind, c, file, a.asCommand), tune.Fields(c.String(), &c, a.note,
		host.Field{Name: "FETTLE_KIND", Value: kind}, host.Field{Name: "FETTLE_COMMAND", Value: a.asCommand}, host.Field{Name: "FETTLE_FILE", Value: file})...)
}

// withoutReason is a command line without its --reason, which is recorded separately.
func withoutReason(args []string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--":
			return append(out, args[i:]...)
		case args[i] == "--reason":
			i++
		case strings.HasPrefix(args[i], "--reason="):
		default:
			out = append(out, args[i])
		}
	}
	return out
}
