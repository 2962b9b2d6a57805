package cli

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/requests/logs/shares"
	"fettle.dev/fettle/internal/ui"
)

func logsWorkerCommand(a *app) *cobra.Command {
	var within time.Duration
	c := &cobra.Command{
		Use: "worker", Short: "Read a share of logs for kubectl fettle logs", Hidden: true,
		Long: `Reads a share of logs for kubectl fettle logs, which starts it in pods. It reads one JSON
message per line from standard input, and writes its answers to standard output.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			err := shares.Serve(c.Context(), os.Stdin, a.screen.Out, within)
			if errors.Is(err, context.Canceled) {
				return ui.Exit(ui.Interrupted, errors.New("interrupted"))
			}
			return err
		},
	}
	c.Flags().DurationVar(&within, "caller-within", 3*time.Minute, "end if no caller sends a message within this time, such as 3m")
	cliutil.Between(c.Flags(), "caller-within", time.Second, 24*time.Hour, 3*time.Minute)
	return c
}
