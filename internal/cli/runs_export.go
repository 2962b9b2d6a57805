package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/ui"
)

// benchfmtFormat is the format of Go benchmarks.
const benchfmtFormat ui.Format = "benchfmt"

func runsExportCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "export RUN...", Short: "Export records of runs, or their samples for benchstat",
		Long: `Writes records as they are stored, one after the other, byte for byte. fettle runs show
and runs compare read such a file, also on another machine, and refuse a modified one.
--output benchfmt writes the samples for benchstat. RUN is an ID, the beginning of an
ID, or a file.`,
		Args:        cobra.MinimumNArgs(1),
		Annotations: map[string]string{moreFormats: string(benchfmtFormat)},
		RunE: func(c *cobra.Command, args []string) error {
			if f := a.screen.Format; c.Flags().Changed("output") && f != ui.JSON && f != benchfmtFormat {
				return ui.Instead(ui.Usage, fmt.Errorf("--output %s: runs are exported as json or benchfmt", f), "", "--output=json")
			}
			runs, err := a.findRuns(c, args)
			if err != nil {
				return err
			}
			if a.screen.Format == benchfmtFormat {
				return prove.Benchfmt(a.screen.Out, runs)
			}
			for _, r := range runs {
				text, err := r.Text()
				if err != nil {
					return err
				}
				a.screen.Printed = true
				if _, err := a.screen.Out.Write(text); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
