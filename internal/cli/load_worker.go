package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/requests/load"
	"fettle.dev/fettle/internal/requests/load/fleet"
	"fettle.dev/fettle/internal/requests/load/scenario"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

func loadWorkerCommand(a *app) *cobra.Command {
	var job string
	c := &cobra.Command{
		Use: "worker", Short: "Generate load for a fettle on another machine",
		Long: `Generates load for fettle load http or load scenario with --clients or --client-command,
or for kubectl fettle load http, which start it. It reads one JSON message per line from
standard input, and ends when the input ends. The caller has checked which servers are
allowed.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			w := &worker{}
			if job != "" {
				var err error
				if w.stored, err = os.ReadFile(job); err != nil {
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

// worker executes the jobs of both kinds of load.
type worker struct {
	stored []byte
	fleet.Worker
}

// Prepare chooses the kind by the job: that of a scenario has the text of its file.
func (w *worker) Prepare(ctx context.Context, job []byte) (*fleet.Ready, error) {
	var kind struct {
		Text []byte `json:"text"`
	}
	for _, text := range [][]byte{w.stored, job} {
		if len(text) > 0 {
			if err := json.Unmarshal(text, &kind); err != nil {
				return nil, err
			}
		}
	}
	w.Worker = &load.Worker{Stored: w.stored, Able: enoughFiles}
	if kind.Text != nil {
		w.Worker = &scenario.Worker{Stored: w.stored, Able: func(p *scenario.Plan, hosts int) error {
			return mayOpen(hosts*max(1, len(p.Scenario.Servers)), internaltext.Count(hosts, "host"))
		}}
	}
	return w.Worker.Prepare(ctx, job)
}
