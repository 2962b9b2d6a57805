package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/requests/load"
	"fettle.dev/fettle/internal/requests/load/fleet"
	"fettle.dev/fettle/internal/requests/load/scenario"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

func loadWorkerCommand(a *app) *cobra.Command {
	var jobs []string
	var within time.Duration
	c := &cobra.Command{
		Use: "worker", Short: "Generate load for a fettle on another machine",
		Long: `Generates load for fettle load http or load scenario with --clients or --client-command,
or for kubectl fettle load, which start it. It reads one JSON message per line from
standard input, and ends when the input ends. The caller has checked which servers are
allowed.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			w := &worker{}
			for _, job := range jobs {
				text, err := os.ReadFile(job)
				if err != nil {
					return cliutil.OfOption("--job", err)
				}
				w.stored = append(w.stored, text...)
			}
			err := fleet.Serve(c.Context(), os.Stdin, a.screen.Out, w, within)
			if errors.Is(err, context.Canceled) {
				return ui.Exit(ui.Interrupted, errors.New("interrupted: the connections are closed"))
			}
			return err
		},
	}
	c.Flags().StringArrayVar(&jobs, "job", nil, "file with the job or a part of the job, from the Secret of kubectl fettle load; repeatable; the caller then sends only the addresses")
	c.Flags().DurationVar(&within, "caller-within", 0, "end if no caller sends a message within this time, such as 3m (default no limit)")
	cliutil.Between(c.Flags(), "caller-within", time.Second, 24*time.Hour, 3*time.Minute)
	return c
}

// worker executes the jobs of both kinds of load.
type worker struct {
	stored []byte
	fleet.Worker
}

// Prepare determines the kind of a job: only the job of a scenario contains the text of a file.
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
