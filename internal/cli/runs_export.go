package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/ui"
)

// Formats of benchmarks: of Go, and the JSON of hyperfine.
const (
	benchfmtFormat  ui.Format = "benchfmt"
	hyperfineFormat ui.Format = "hyperfine"
)

// exporters write the samples of runs in other programs' formats.
var exporters = map[ui.Format]func(io.Writer, []*evidence.Run) error{benchfmtFormat: prove.Benchfmt, hyperfineFormat: prove.Hyperfine}

func runsExportCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "export RUN...", Short: "Export records of runs, or their samples for benchstat",
		Long: `Writes records as they are stored, one after the other, byte for byte. fettle runs show
and runs compare read such a file, also on another machine, and refuse a modified one.
--output benchfmt writes the samples for benchstat, and --output hyperfine the times of
an experiment's runs as JSON for programs that read hyperfine's exports. RUN is an ID,
the beginning of an ID, last, or a file.`,
		Args:        cobra.MinimumNArgs(1),
		Annotations: map[string]string{moreFormats: string(benchfmtFormat + " " + hyperfineFormat)},
		RunE: func(c *cobra.Command, args []string) error {
			if f := a.screen.Format; c.Flags().Changed("output") && f != ui.JSON && exporters[f] == nil {
				return ui.Instead(ui.Usage, fmt.Errorf("--output %s: runs are exported as json, benchfmt or hyperfine", f), "", "--output=json")
			}
			runs, err := a.findRuns(c, args)
			if err != nil {
				return err
			}
			if export := exporters[a.screen.Format]; export != nil {
				return export(a.screen.Out, runs)
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
