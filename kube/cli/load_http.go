package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/cliutil/loadcli"
	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/requests/load"
	loadfleet "fettle.dev/fettle/internal/requests/load/fleet"
	"fettle.dev/fettle/internal/ui"
)

// loadHTTPOptions are the options of load http.
type loadHTTPOptions struct {
	loadcli.Options
	generatorOptions
	dryRun bool
}

func (a *app) loadHTTPCommand(all *loadOptions) *cobra.Command {
	o := &loadHTTPOptions{generatorOptions: generatorOptions{all: all}, Options: loadcli.Options{Example: []string{"http://web.example:8080/", "--allow=web.example:8080"}}}
	c := &cobra.Command{
		Use: "http URL...", Short: "Load HTTP servers from pods in the cluster",
		Long: `Sends requests at a fixed rate like fettle load http, but from pods of the cluster
(--generators): an Indexed Job, spread over the nodes. The pods resolve the host names.
Certificates, headers and request lists are in a Secret that the Job owns. The counts of
all generators are added up exactly, and a lost generator is named. The Job is deleted at
the end. If this process is killed, the generators end with its connection, and
Kubernetes removes the Job. Servers must be allowed (--allow).

  --dry-run    print the Job and the Secret without the keys, and create nothing
  --find-knee  search for the highest rate that meets the thresholds of --expect`,
		RunE: func(c *cobra.Command, args []string) error {
			o.recorded = loadcli.RecordedCommand(c, args)
			return a.loadHTTP(c.Context(), o, args)
		},
	}
	f := c.Flags()
	o.Flags(f)
	o.loadFlags(c)
	f.BoolVar(&o.dryRun, "dry-run", false, "print the objects, and create nothing")
	o.Rules(c)
	cliutil.Check(c, func([]string) error { return o.CheckGenerators(o.count, "generator") })
	return c
}

// mostStages is more than a search takes.
const mostStages = 60

// deadline returns the maximum time from the connection to the pods until the end of the load.
func (o *loadHTTPOptions) deadline(p *load.Plan) time.Duration {
	length := p.Length() + p.Timeout
	if o.FindKnee {
		in := o.Range(p)
		stage, before := p.StageLength(in.Lowest, in.Each)
		length = o.WarmUp + mostStages*(stage+before+p.Timeout+toLose)
	}
	return loadcli.Prepare(p) + length
}

// check returns the plan of the load with invented addresses, and the errors that can be found
// without real ones.
func (o *loadHTTPOptions) check(ctx context.Context, r *loadcli.Requested) (*load.Plan, error) {
	again, job := *r, *r.Job
	again.Job = &job
	job.Allow = orUnresolved(job.Allow)
	return o.Plan(ctx, &again, outside{})
}

func (a *app) loadHTTP(ctx context.Context, o *loadHTTPOptions, urls []string) error {
	o.Defaults()
	o.Unobserved = func(threshold string) error {
		return ui.Without(fmt.Errorf("--expect: %q: kubectl fettle observes no server; fettle load http --observe does", threshold), "--expect")
	}
	asked, err := o.Read(urls)
	if err != nil {
		return cliutil.OrUsage(err)
	}
	asked.Job.NoLoopback = true
	expected, err := o.check(ctx, asked)
	if err != nil {
		return planError(err)
	}
	set, err := a.generatorSet(&o.generatorOptions, o.deadline(expected), asked.Job, !o.dryRun)
	if err != nil {
		return err
	}
	if o.dryRun {
		return a.printGenerators(set)
	}
	_, records, err := a.loadRecords(&o.generatorOptions, "http")
	if err != nil {
		return err
	}
	return a.generate(ctx, &o.generatorOptions, set, func(f *loadfleet.Fleet, end func() error) error {
		plan, err := o.connect(ctx, asked, f)
		if err != nil {
			return interruptedOr(ctx, err, "nothing was sent")
		}
		title := o.Title(plan)
		a.screen.Say("%s", title)
		run := &evidence.Run{Kind: load.Kind, Command: o.recorded, Version: a.version, Began: time.Now().UTC()}
		view := loadcli.NewView(a.screen, title)
		f.Quiet = view.Quiet
		result, err := measureHTTP(ctx, o, &load.Rig{Prepared: load.Led(*plan, f), Fleet: f}, plan, view)
		view.End()
		removed := end()
		if err != nil {
			return errors.Join(interruptedOr(ctx, err, "the connections are closed"), removed)
		}
		if len(result.Slices) == 0 {
			return errors.Join(interruptedOr(ctx, result.Early(), "the connections are closed"), removed)
		}
		run.Ended, run.Verdict = time.Now().UTC(), result.Text
		gated := loadcli.Gated(result)
		if result.Cut != nil {
			gated = interruptedOr(ctx, result.Early(), "the connections are closed")
		}
		return errors.Join(a.finishGenerated(ctx, set, records, run, result, gated), removed)
	})
}

// connect connects the generators to the servers.
func (o *loadHTTPOptions) connect(ctx context.Context, asked *loadcli.Requested, f *loadfleet.Fleet) (*load.Plan, error) {
	plan, err := o.Plan(ctx, asked, f.Clients[0])
	if err != nil {
		return nil, planError(err)
	}
	asked.Job.Connections = (asked.Job.Connections + o.count - 1) / o.count
	return plan, f.Prepare(ctx, asked.Job.Resolved(), loadfleet.ToStart+loadcli.Prepare(plan))
}

// measureHTTP generates the load, or with --find-knee searches for the highest rate.
func measureHTTP(ctx context.Context, o *loadHTTPOptions, rig *load.Rig, plan *load.Plan, view *loadcli.View) (*load.Result, error) {
	seed := rand.Uint64N(1 << 53)
	if o.FindKnee {
		return rig.FindKnee(ctx, o.Range(plan), seed, view.Second, view.Stage)
	}
	return rig.Run(ctx, seed, view.Second)
}
