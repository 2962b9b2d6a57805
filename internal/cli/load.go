package cli

import (
	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
)

func loadCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "load", Short: "Load a server and measure its answers", Args: cliutil.KnownVerb,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(loadHTTPCommand(a), loadMQTTCommand(a), loadScenarioCommand(a), loadWorkerCommand(a))
	return c
}
