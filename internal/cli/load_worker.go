package cli

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/requests/load"
	"fettle.dev/fettle/internal/requests/load/fleet"
	"fettle.dev/fettle/internal/ui"
)

func loadWorkerCommand(a *app) *cobra.Command {
	var job string
	c := &cobra.Command{
		Use: "worker", Short: "Generate load for a fettle on another machine",
		Long: `Generates load for fettle load http --clients or --client-command, or for kubectl fettle
load http, which start it. It reads one JSON message per line from standard input, and
ends when the input ends. The caller has checked which servers are allowed.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			w := &load.Worker{Able: enoughFiles}
			if job != "" {
				var err error
				if w.Stored, err = os.ReadFile(job); err != nil {
					return cliutil.OfOption("--job", err)
				}
			}
			err := fleet.Serve(c.Context(), os.Stdin, a.screen.Out, w)
			if errors.Is(err, context.Canceled) {
				return ui.Exit(ui.Interrupted, errors.New("interrupted: the connections are closed"))
			}
			return err
		},
	}
	c.Flags().StringVar(&job, "job", "", "file with the job, which kubectl fettle load http stores in a Secret; the caller sends only the addresses")
	return c
}
