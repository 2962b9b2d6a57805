package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/cliutil/loadcli"
	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/load/ladder"
	"fettle.dev/fettle/internal/requests/load/scenario"
	"fettle.dev/fettle/internal/ui"
)

type loadScenarioOptions struct {
	loadcli.Scenario
	clients, clientCommands []string
	allowCommands           bool
	ladder, observe         string
	maxRuns                 int
	recorded                string // command line for the record
}

func (o *loadScenarioOptions) flags(c *cobra.Command) {
	f := c.Flags()
	o.Flags(f)
	f.BoolVar(&o.allowCommands, "allow-commands", false, "run the programs of command steps")
	f.StringVar(&o.ladder, "ladder", "", "search the highest number of hosts at a time without a failure, in this range, such as 100..1000")
	f.IntVar(&o.maxRuns, "max-runs", ladder.DefaultRuns, "with --ladder: maximum number of runs")
	f.StringVar(&o.observe, "observe", "", "with --ladder: audit this server in four more runs, to name the limit: local, or ssh:HOST with fettle installed")
	f.StringSliceVar(&o.clients, "clients", nil, "machines that run the hosts, each with fettle installed: ssh:A,ssh:B")
	f.StringArrayVar(&o.clientCommands, "client-command", nil, "shell command that starts fettle load worker on another machine; repeatable")
	cliutil.Reads(f, "clients", "ssh:web1.example", sshHosts(false))
	cliutil.Excludes(c, "allow-commands", "commands run only on this machine", "clients", "client-command")
	cliutil.Reads(f, "ladder", "100..1000", func(word string) error { _, err := parseLadder(word); return err })
	cliutil.Reads(f, "observe", "ssh:web1.example", sshHosts(true))
	cliutil.Between(f, "max-runs", 6, 10_000, 60)
	cliutil.Requires(c, "--ladder=100..1000", "max-runs", "observe")
	cliutil.Exclusive(c, "ladder", "hosts")
	cliutil.Exclusive(c, "ladder", "rate")
	o.Rules(c)
}

// plan returns the run and its plan.
func (o *loadScenarioOptions) plan(ctx context.Context, file string, resolver engine.Resolver) (*scenario.Job, *scenario.Plan, error) {
	if err := namedOnce("--clients", o.clients); err != nil {
		return nil, nil, err
	}
	j, err := o.Job(file)
	if err != nil {
		return nil, nil, err
	}
	p, err := o.planOf(ctx, j, resolver)
	return j, p, err
}

// planOf returns the plan of a job.
func (o *loadScenarioOptions) planOf(ctx context.Context, j *scenario.Job, resolver engine.Resolver) (*scenario.Plan, error) {
	p, err := o.Plan(ctx, j, resolver)
	if err == nil && len(o.clients)+len(o.clientCommands) > 0 {
		err = p.MayShare()
	}
	if err != nil {
		return nil, err
	}
	if len(p.Commands) > 0 && !o.allowCommands {
		return nil, ui.Retry(ui.Refused, fmt.Errorf("%s runs commands on this machine: %s", p.Name, strings.Join(slices.Compact(slices.Clone(p.Commands)), ", ")), "read the file first; then allow it", "--allow-commands")
	}
	return p, nil
}
