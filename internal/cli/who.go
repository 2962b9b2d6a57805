package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

const (
	reasonUsage = "reason, for the journal, fettle history and the system log (at most 500 bytes)"
	windowUsage = "change only within these hours of local time, such as 22:00-04:00"
)

// writes adds --reason and --window to a verb that changes the machine.
func (a *app) writes(c *cobra.Command) *cobra.Command {
	c.Flags().StringVar(&a.note, "reason", "", reasonUsage)
	if c.Flags().Lookup("window") == nil { // prove has its own
		c.Flags().StringVar(&a.window, "window", "", windowUsage)
		cliutil.Reads(c.Flags(), "window", "22:00-04:00", func(word string) error { _, err := parseWindow(word); return err })
	}
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if c.Flags().Changed("reason") {
			if err := a.checkNote(); err != nil {
				return err
			}
		}
		if err := a.inWindow(); err != nil {
			return err
		}
		return run(c, args)
	}
	return c
}

// checkNote returns an error if --reason is too long. It also converts --reason to one line.
func (a *app) checkNote() error {
	text := strings.TrimSpace(a.note)
	if len(text) > journal.MaxNote {
		return ui.Instead(ui.Usage, internaltext.Errorf("--reason: %s; at most %d allowed", internaltext.Count(len(text), "byte"), journal.MaxNote), "", "--reason="+strings.ToValidUTF8(text[:journal.MaxNote], ""))
	}
	a.note = host.Escape(text)
	return nil
}

// logFile writes a line about a file, written without a transaction, to the system log.
func (a *app) logFile(h *host.Host, kind, file string) {
	c, command := a.caller(), withoutSecrets(a.asCommand)
	_ = h.Log(fmt.Sprintf("%s by %s: wrote %s (%s)", kind, c, file, command), tune.Fields(c.String(), &c, a.note,
		host.Field{Name: "FETTLE_KIND", Value: kind}, host.Field{Name: "FETTLE_COMMAND", Value: command}, host.Field{Name: "FETTLE_FILE", Value: file})...)
}

// withoutSecrets returns a command line for a record, without the passwords, tokens and keys of the
// programs that it runs.
func withoutSecrets(command string) string { return string(host.Redact("", []byte(command))) }

// withoutReason returns a command line without --reason, which is recorded separately.
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
