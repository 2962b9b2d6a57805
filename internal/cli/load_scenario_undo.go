package cli

import (
	"context"
	"net"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/cliutil/loadcli"
	"fettle.dev/fettle/internal/requests/load/scenario"
)

func loadScenarioUndoCommand(a *app) *cobra.Command {
	o := loadcli.Scenario{Program: "fettle"}
	c := &cobra.Command{Use: "undo [RUN]", Short: "Remove what a scenario created, by recorded id",
		Long: `Removes the objects that a run of a scenario created, by their recorded ids only, latest
first. An object that has changed since the run is kept. An object whose id is unknown,
because the run was killed before the answer, is named. Without RUN it undoes the last
run whose objects are not removed. Certificates are those of the run, unless given.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.loadScenarioUndo(c.Context(), o, strings.Join(args, ""))
		},
	}
	o.Identity.Flags(c.Flags())
	o.Identity.Rules(c)
	return c
}

func (a *app) loadScenarioUndo(ctx context.Context, o loadcli.Scenario, run string) error {
	j, objects, err := o.OpenObjects(filepath.Join(a.state(), loadcli.ScenarioDir), run)
	if err != nil {
		return err
	}
	defer j.Close()
	job, err := o.UndoJob(objects)
	if err != nil {
		return cliutil.OrUsage(err)
	}
	plan, err := job.Plan(ctx, net.DefaultResolver)
	if err != nil {
		return cliutil.OrUsage(err)
	}
	a.screen.Say("undoing run %s of %s", objects.Run, plan.Name)
	step, stop := a.screen.Steps(0)
	undone, err := scenario.Undo(ctx, plan, j, objects, func(done, all int) { step("removing", done, all) })
	stop()
	failed := err != nil
	if err = loadcli.Undone(undone, err, ctx.Err() != nil, a.next("load", "scenario", "undo", objects.Run)); failed {
		return err
	}
	if a.data() {
		return a.result(undone, err)
	}
	undone.Print(a.screen)
	return err
}
