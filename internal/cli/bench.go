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
	"fettle.dev/fettle/internal/fact/power"
	"fettle.dev/fettle/internal/measure/experiment"
	"fettle.dev/fettle/internal/measure/runpage"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

func benchCommand(a *app) *cobra.Command {
	return cliutil.Group("bench", "Measure storage, memory, databases and the network",
		benchDiskCommand(a), a.writes(benchMemoryCommand(a)), benchPostgresCommand(a), benchEtcdCommand(a), benchNetworkCommand(a))
}

// RunResult is the JSON form of a measurement: the headline, and the record of the run.
type RunResult struct {
	Headline ui.Headline `json:"headline"`
	*evidence.Run
}

// printRun prints a run and the next command. word is the run's name in that command.
func (a *app) printRun(r *evidence.Run, word string, of runpage.Result, err error) error {
	if a.data() {
		return a.result(RunResult{of.Headline(), r}, err)
	}
	err = errors.Join(err, runpage.Show(a.screen, r, of))
	text, args := of.Next()
	call := a.nextOf(r, args)
	if text == "" && word != "" && a.screen.Page == nil {
		text, call = "to see all figures as an HTML page:", a.next("runs", "show", word, "--output", "html")+" > run.html"
	}
	if text != "" {
		ui.PrintLine(a.screen, "%s", text)
		ui.PrintCommand(a.screen, call)
	}
	return err
}

// nextOf returns a command that continues a run: of kubectl fettle, with its namespace and image, if
// that made the record.
func (a *app) nextOf(r *evidence.Run, args []string) string {
	if !strings.HasPrefix(r.Command, "kubectl fettle ") {
		return a.next(args...)
	}
	words := append([]string{"kubectl", "fettle"}, args...)
	for _, option := range []struct{ name, setting string }{{"--namespace", evidence.GeneratorNamespace}, {"--image", evidence.GeneratorImage}} {
		if value := r.Machine.Settings[option.setting]; value != "" {
			words = append(words, option.name, value)
		}
	}
	return internaltext.CommandLine(words)
}

// mayMeasure returns an error if an experiment is in progress or the record cannot be saved.
func mayMeasure(m *tune.Machine) error {
	if x := tune.Holder(m.StateDir); x != nil {
		return experiment.Busy(x)
	}
	if err := journal.Prepare(m.StateDir); err != nil {
		return ui.AsRoot(err, "or keep the record elsewhere with --state-dir")
	}
	return nil
}

// cutShort returns the error of a benchmark that ended early with err. left describes the
// state after the cleanup, such as "the database is dropped". kept is the record of the
// measured part, or nil.
func cutShort(ctx context.Context, err error, left string, kept *evidence.Run) error {
	until := "no measurements recorded yet"
	if kept != nil && kept.ID != "" {
		until = "the measurements so far are stored as run " + kept.ID
	}
	if ctx.Err() != nil {
		return ui.Exit(ui.Interrupted, fmt.Errorf("interrupted: %s; %s", left, until))
	}
	if err != nil && kept != nil && kept.ID != "" {
		err = ui.Hinted(ui.Failed, err, until)
	}
	return err
}

// keeper returns the Keeper that records the results of a benchmark, and its energy.
func (a *app) keeper(m *tune.Machine, kind string) *evidence.Keeper {
	k := evidence.NewKeeper(experiment.Store(m), a.by(), m.Host, kind)
	k.Energy = power.StartRun(m.Host)
	return k
}

// by returns the command, the user and the version, for the record of a measurement.
func (a *app) by() evidence.Signature {
	return evidence.Signature{Command: withoutSecrets(a.command), User: a.caller().String(), Version: a.version}
}

// finish records and prints a benchmark. err is why it ended early, or nil. left describes the
// state after the cleanup. gate is the error of a complete benchmark that misses a threshold.
// body is nil if nothing was measured.
func finish[Body any, Result interface {
	*Body
	runpage.Result
}](ctx context.Context, a *app, k *evidence.Keeper, verdict string, body Result, err error, left string, gate error) error {
	if body == nil {
		return errors.Join(cutShort(ctx, err, left, nil), k.Nothing())
	}
	recorded := k.Record(verdict, body)
	if err != nil {
		err = cutShort(ctx, err, left, k.Run)
	} else if recorded == nil {
		err = gate
	}
	return a.printRun(k.Run, k.Run.ID, body, errors.Join(err, recorded))
}
