package cli

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/requests/load"
	"fettle.dev/fettle/internal/requests/load/fleet"
	"fettle.dev/fettle/internal/ui"
)

func loadWorkerCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "worker", Short: "Generate load for a fettle on another machine",
		Long: `Started by fettle load http --clients or --client-command. It does what comes in over its
standard input, a message of JSON a line, and ends when that does. What it may load the
other side has decided.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			err := fleet.Serve(c.Context(), os.Stdin, a.screen.Out, &load.Worker{Able: enoughFiles})
			if errors.Is(err, context.Canceled) {
				return ui.Exit(ui.Interrupted, errors.New("interrupted: the connections are closed"))
			}
			return err
		},
	}
}
