package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

func runsCompareCommand(a *app) *cobra.Command {
	var margin string
	var force bool
	c := &cobra.Command{
		Use: "compare A B", Short: "Compare two runs of one machine",
		Long: `Compares run B with run A, series by series, and names the settings that differ. For two
experiments it compares the effects. Runs made one after the other are a weak design:
any other change in between counts as a difference. The output says so. A and B are IDs,
beginnings of IDs, last (the latest run), or files.`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			limit, _ := unit.ParsePercent(margin) // cliutil.Percent has validated it
			runs, err := a.findRuns(c, args)
			if err != nil {
				return err
			}
			if len(runs) != 2 {
				return ui.Hinted(ui.Usage, text.Errorf("want two runs; the files contain %d", len(runs)), "name a run by its ID from fettle runs list instead of the file")
			}
			found, err := prove.Runs(runs[0], runs[1], limit, force)
			if errors.Is(err, prove.ErrMachines) {
				return ui.Retry(ui.Refused, err, "--force compares them anyway", "--force")
			}
			if err != nil {
				return err
			}
			if a.data() {
				return a.result(found, nil)
			}
			prove.PrintComparison(a.screen, found)
			ui.PrintLine(a.screen, "to see both runs as an HTML page:")
			ui.PrintCommand(a.screen, a.next("runs", "show", args[0], args[1], "--output", "html")+" > runs.html")
			return nil
		},
	}
	c.Flags().StringVar(&margin, "margin", "2%", "smallest difference that matters, in percent")
	cliutil.Percent(c.Flags(), "margin", "2%")
	c.Flags().BoolVar(&force, "force", false, "compare runs of different machines")
	return c
}
