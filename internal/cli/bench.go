package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/ui"
)

func benchCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "bench", Short: "Measure this machine's storage, memory and databases", Args: cliutil.KnownVerb,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(benchDiskCommand(a), a.writes(benchMemoryCommand(a)), benchPostgresCommand(a), benchEtcdCommand(a))
	return c
}

// BenchResult is the JSON form of a bench: the record of the run.
type BenchResult struct {
	*evidence.Run
}

// mayMeasure looks whether a bench can be made and its record be kept, before
// anything is measured.
func (m *machine) mayMeasure() error {
	if x := tune.Holder(m.engine.StateDir); x != nil {
		return besideExperiment(x)
	}
	if err := journal.Prepare(m.engine.StateDir); err != nil {
		return ui.AsRoot(err, "or keep the record elsewhere with --state-dir")
	}
	return nil
}

// cutShort is the error of a bench that ended with err before its plan did. left says what
// has become of what it made, and kept is the record of what it had measured, if any.
func cutShort(ctx context.Context, err error, left string, kept *evidence.Run) error {
	until := "nothing was measured yet"
	if kept != nil && kept.ID != "" {
		until = "what was measured is run " + kept.ID
	}
	if ctx.Err() != nil {
		return ui.Exit(ui.Interrupted, fmt.Errorf("interrupted: %s; %s", left, until))
	}
	if err != nil && kept != nil && kept.ID != "" {
		err = ui.Hinted(ui.Failed, err, until)
	}
	return err
}

// record puts what was measured in one go into the store.
func (m *machine) record(r *evidence.Run, body any) error {
	return (&keeper{machine: m, run: r}).record(r.Verdict, body)
}

// oneOf is the server that an option names, or the only one that there is. product and
// none are for errors: what runs here, and what to say where nothing does.
func oneOf[T any](product, none, option string, all []T, nameOf func(T) string, asked string) (one T, err error) {
	var names []string
	for _, s := range all {
		name := nameOf(s)
		if name == asked || asked == "" && len(all) == 1 {
			return s, nil
		}
		names = append(names, name)
	}
	switch {
	case len(all) == 0:
		return one, errors.New(none)
	case asked == "":
		return one, ui.Retry(ui.Usage, fmt.Errorf("several run here: %s %s", option, strings.Join(names, " or ")), "", option+"="+names[0])
	}
	return one, ui.Instead(ui.Usage, fmt.Errorf("no %s %q runs here, but %s", product, asked, strings.Join(names, ", ")), "", option+"="+names[0])
}
