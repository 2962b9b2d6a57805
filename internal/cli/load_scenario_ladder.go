package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/cliutil/loadcli"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/fact/activity"
	"fettle.dev/fettle/internal/guide/findings"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/slow"
	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/load/fleet"
	"fettle.dev/fettle/internal/requests/load/ladder"
	"fettle.dev/fettle/internal/requests/load/scenario"
	"fettle.dev/fettle/internal/ssh"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// recovery is the pause after a failed run, in which the server completes its remaining requests.
const recovery = 2 * time.Second

// parseLadder parses the range of --ladder: LOWEST..HIGHEST.
func parseLadder(word string) (in ladder.Range, err error) {
	low, high, ok := strings.Cut(word, "..")
	if in.Lowest, err = strconv.Atoi(low); err == nil {
		in.Highest, err = strconv.Atoi(high)
	}
	if !ok || err != nil || in.Lowest < 1 || in.Highest <= in.Lowest || in.Highest > loadcli.MaxHosts {
		return in, internaltext.Errorf("want LOWEST..HIGHEST hosts, such as 100..1000, at most %d", loadcli.MaxHosts)
	}
	return in, nil
}

// usualRuns is how many runs a search takes on a server with a fixed limit (load/ladder).
const usualRuns = 18

// climb is a search for the highest number of hosts at a time without a failure.
type climb struct {
	*app
	o    *loadScenarioOptions
	job  *scenario.Job
	file string
	runs int
	took map[int]time.Duration // the last run with a number of hosts
	// create reports whether runs create objects whose names must differ.
	create  bool
	machine *tune.Machine
	clients *fleet.Fleet // nil: this process runs the hosts
}

// climbScenario searches the highest number of hosts at a time without a failure.
func (a *app) climbScenario(ctx context.Context, o loadScenarioOptions, file string) error {
	in, err := parseLadder(o.ladder)
	if err != nil {
		return cliutil.OfOption("--ladder", err)
	}
	if o.MostHosts > 0 && in.Highest > o.MostHosts {
		return ui.Instead(ui.Refused, internaltext.Errorf("--ladder: %s, but --most-hosts is %d", internaltext.Count(in.Highest, "host"), o.MostHosts), "", fmt.Sprintf("--ladder=%d..%d", min(in.Lowest, o.MostHosts-1), o.MostHosts))
	}
	in.MaxRuns = o.maxRuns
	c := &climb{app: a, o: &o, file: file, took: map[int]time.Duration{}}
	if c.job, err = o.Job(file); err != nil {
		return cliutil.OrUsage(err)
	}
	if c.job.Load.Rate > 0 {
		return ui.Exit(ui.Usage, fmt.Errorf("%s has a rate, and --ladder searches a number of hosts at a time; use a scenario without rate in load", file))
	}
	_, plan, err := c.plan(ctx, in.Highest, true)
	if err == nil {
		err = o.MayChange(ctx, plan)
	}
	if err != nil {
		return refusedScenario(ctx, err)
	}
	a.screen.Say("%s: searches from %d to %d hosts at a time, %s each; takes about %d runs, at most %d", plan.Name, in.Lowest, in.Highest, internaltext.CountPlural(uint64(max(1, plan.Options.Load.Repeat)), "pass", "passes"), min(usualRuns, in.MaxRuns), in.MaxRuns)
	for _, s := range plan.Targets() {
		a.screen.Say("loads %s", s)
	}
	if plan.Creates {
		a.screen.Say("creates up to %s in a run, named with the prefix %q and the number of the run, and removes them after it", internaltext.Count(plan.MostObjects(), "object"), plan.Prefix+"rN-")
	} else if plan.Changes {
		a.screen.Say("may change objects on the server")
	}
	if o.DryRun {
		a.screen.Say("nothing was sent")
		return nil
	}
	m, err := a.machineAsIs(ctx)
	if err == nil {
		err = mayMeasure(m)
	}
	if err != nil {
		return err
	}
	c.create, c.machine = plan.Creates, m
	if o.observe != "" { // an error after the search would come too late
		if _, err := c.auditOf(ctx, time.Second); err != nil {
			return fmt.Errorf("--observe %s: %w", o.observe, err)
		}
	}
	if c.clients, err = a.scenarioClients(ctx, &o, plan, in.Highest); err != nil {
		return err
	}
	if c.clients != nil {
		defer c.clients.Close()
		if n := len(c.clients.Clients); n > in.Lowest {
			return ui.Instead(ui.Usage, fmt.Errorf("%s, but the ladder begins with %s; each client needs at least one", internaltext.Count(n, "client"), internaltext.Count(in.Lowest, "host")), "", fmt.Sprintf("--ladder=%d..%d", n, max(in.Highest, n+1)))
		}
	}
	x, err := scenario.Climb(ctx, in, c.run, func(r ladder.Run) {
		a.screen.Say("%s %s: %s", internaltext.Count(r.Hosts, "host"), r.Outcome, r.Why)
	})
	if err == nil && o.observe != "" && x.Ladder.Edge != nil {
		if failed := c.findLimits(ctx, x, in.Lowest); failed != nil && ctx.Err() == nil {
			x.Ladder.NoLimit = failed.Error()
			x.Conclude()
		}
	}
	if err != nil {
		return cutShort(ctx, err, "the connections are closed", nil)
	}
	k := a.keeper(m, scenario.Kind)
	k.Command = o.recorded
	return finish(ctx, a, k, x.Text, x, nil, "the connections are closed", ladderGate(x))
}

// refusedScenario adds exit code and remedy to an error of a plan.
func refusedScenario(ctx context.Context, err error) error {
	var not *engine.NotAllowedError
	switch {
	case errors.As(err, &not):
		return ui.Retry(ui.Refused, err, "if the server is yours, allow it with --allow, or its network with --allow 192.0.2.0/24", "--allow="+not.Target)
	case ctx.Err() != nil:
		return cutShort(ctx, err, "nothing was sent", nil)
	}
	return cliutil.OrUsage(err)
}

// ladderGate returns the error of a search without an answer, or with the answer that even the
// lowest number of hosts fails.
func ladderGate(x *scenario.Result) error {
	switch x.Ladder.Answer {
	case ladder.Found, ladder.NotLimited:
		return nil
	case ladder.FailsAtLowest:
		return ui.Exit(ui.GateNotMet, errors.New("the lowest number of hosts fails"))
	}
	return ui.Exit(ui.Failed, errors.New("the highest number of hosts could not be determined"))
}

// plan returns a run with a number of hosts. Runs that create objects have prefixes of their own.
func (c *climb) plan(ctx context.Context, hosts int, stop bool) (*scenario.Job, *scenario.Plan, error) {
	j := *c.job
	j.Load.Hosts, j.StopWhenFailed = hosts, stop
	run, err := loadcli.NewRun()
	if err != nil {
		return nil, nil, err
	}
	j.Run = run
	if c.create && len(j.HostNames) == 0 {
		j.Prefix = fmt.Sprintf("%sr%d-", j.Prefix, c.runs)
	}
	p, err := c.o.planOf(ctx, &j, net.DefaultResolver)
	return &j, p, err
}

// run runs the scenario with a number of hosts, until it ends or has failed.
func (c *climb) run(ctx context.Context, hosts int) (*scenario.Result, error) {
	return c.runTo(ctx, hosts, true)
}

// runTo runs the scenario with a number of hosts. With stop it ends as soon as it has failed.
func (c *climb) runTo(ctx context.Context, hosts int, stop bool) (*scenario.Result, error) {
	c.runs++
	j, p, err := c.plan(ctx, hosts, stop)
	if err != nil {
		return nil, err
	}
	if err := c.equip(c.o, p, c.machine, c.file); err != nil {
		return nil, err
	}
	x, err := c.runScenario(ctx, j, p, c.clients, fmt.Sprintf("run %d, %s", c.runs, internaltext.Count(hosts, "host")))
	removed := c.remove(ctx, p)
	if removed != nil && ctx.Err() != nil { // the message of an interruption does not have it
		c.screen.Say("%v; %s tries again", removed, c.next("load", "scenario", "undo", p.Run))
	}
	switch {
	case err != nil || removed != nil:
		return nil, errors.Join(err, removed)
	case x.Word == scenario.Partial:
		return nil, errors.New(x.Text)
	case x.Cut != nil:
		return nil, context.Cause(ctx)
	case c.runs == 1 && x.Unanswered():
		return nil, ui.Exit(ui.Failed, errors.New(x.Text))
	}
	c.took[hosts] = time.Duration(x.Duration * float64(time.Second))
	if len(x.Failed()) > 0 || x.Whole.Errors > 0 {
		err = engine.Pause(ctx, recovery)
	}
	return x, err
}

// turns is how often each of the two numbers of hosts runs to find the limit.
const turns = 2

// removeWithin limits the time for removing the objects of an interrupted run.
const removeWithin = time.Minute

// remove removes the objects that a run has created, so that the next run finds the server as this
// one did. It does so after an interruption too.
func (c *climb) remove(ctx context.Context, p *scenario.Plan) error {
	if !p.Creates {
		return nil
	}
	interrupted := ctx.Err() != nil
	if interrupted {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(context.WithoutCancel(ctx), removeWithin)
		defer end()
	}
	if err := p.Journal.Close(); err != nil {
		return err
	}
	j, objects, err := scenario.Open(filepath.Join(c.machine.StateDir, loadcli.ScenarioDir), p.Run)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it created nothing
	}
	if err != nil {
		return err
	}
	defer j.Close()
	again := c.next("load", "scenario", "undo", p.Run) + " tries again"
	undone, err := scenario.Undo(ctx, p, j, objects, func(int, int) {})
	if err != nil {
		return ui.Hinted(ui.Failed, fmt.Errorf("objects of run %s are left: %w", p.Run, err), again)
	}
	left := slices.DeleteFunc(slices.Clone(undone.Objects), func(o scenario.UndoneObject) bool {
		return o.State == scenario.StateGone || o.State == scenario.StateUnknown && !interrupted
	})
	if len(left) == 0 {
		return nil
	}
	return ui.Hinted(ui.Failed, fmt.Errorf("%s of run %s may be left; the first is %s %s: %s: %s", internaltext.Count(len(left), "object"), p.Run, left[0].Step, left[0].Name, left[0].State, left[0].Text), again)
}

// findLimits audits the observed server alternately in runs with the lowest number of hosts and in
// runs with a failure. The limits are the findings that only the runs with a failure have. A run
// just below the edge would be no comparison, because the server has reached its limits there too.
func (c *climb) findLimits(ctx context.Context, x *scenario.Result, low int) error {
	l := x.Ladder
	l.Observed = c.o.observe
	high := max(l.Edge.High, l.FirstFailed)
	c.screen.Say("%d more runs to find the limit, with an audit of %s in each: %d and %d hosts in turns", 2*turns, c.o.observe, low, high)
	var before, during []*findings.Audit
	for range turns {
		quiet, _, err := c.observed(ctx, low)
		if err != nil {
			return err
		}
		busy, run, err := c.observed(ctx, high)
		if err != nil {
			return err
		}
		before, during = append(before, quiet), append(during, busy)
		if run.Whole.Errors == 0 && len(run.Failed()) == 0 {
			l.NoLimit = internaltext.Sprintf("one more run with %d hosts did not fail", high)
			x.Conclude()
			return nil
		}
	}
	for _, f := range findings.Reached(before, during) {
		l.Limits = append(l.Limits, c.limit(f, high, before[0].Hostname))
	}
	for _, cause := range findings.CausesReached(before, during) {
		l.Limits = append(l.Limits, scenario.Limit{ID: cause.ID, Text: cause.Text, Fix: "for details, run on the server: " + cause.Next})
	}
	if len(l.Limits) == 0 {
		l.NoLimit = "the audits of runs with a failure have no finding that is missing in the others"
	}
	x.Conclude()
	return nil
}

// limit converts a finding of the observed server, whose host name is server.
func (c *climb) limit(f rule.Finding, hosts int, server string) scenario.Limit {
	out := scenario.Limit{ID: f.ID, Text: f.Heading()}
	if f.Instance != "" {
		out.Text += " (" + f.Instance + ")"
	}
	if f.Fix == nil {
		return out
	}
	out.Fix = f.Fix.Text
	for _, change := range f.Fix.Changes {
		if len(out.Prove) == 0 {
			out.Prove = []string{"prove", "--test-system", cmp.Or(server, "NAME")}
		}
		out.Prove = append(out.Prove, "--set", change.Name+"="+change.Value)
	}
	if len(out.Prove) > 0 {
		out.Prove = append(out.Prove, "--", "fettle", "load", "scenario", c.file, "--hosts", strconv.Itoa(hosts))
	}
	return out
}

// observed runs the scenario and audits the observed server in the middle of the run.
func (c *climb) observed(ctx context.Context, hosts int) (*findings.Audit, *scenario.Result, error) {
	took := c.took[hosts]
	if took == 0 {
		took = 4 * time.Second
	}
	sample := min(max(took/4, 100*time.Millisecond), 5*time.Second).Round(time.Millisecond)
	var found *findings.Audit
	var failed error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if failed = engine.Pause(ctx, took/5); failed == nil {
			found, failed = c.auditOf(ctx, sample)
		}
	}()
	x, err := c.runTo(ctx, hosts, false)
	<-done
	if failed != nil {
		failed = fmt.Errorf("--observe %s: %w", c.o.observe, failed)
	}
	return found, x, errors.Join(err, failed)
}

// auditOf audits the observed server. It samples the server's counters for a time.
func (c *climb) auditOf(ctx context.Context, sample time.Duration) (*findings.Audit, error) {
	if name, ok := ssh.ParseHost(c.o.observe); ok {
		found, _, err := checkBySSH(ctx, name, []string{"--output", "json", "--sample", sample.String()})
		return found, err
	}
	h, err := c.host()
	if err != nil {
		return nil, err
	}
	own, err := c.ownRules(h)
	if err != nil {
		return nil, err
	}
	taken, err := activity.Measure(ctx, h, sample)
	if err != nil {
		return nil, err
	}
	quiet := &ui.Screen{Name: c.screen.Name, Out: io.Discard, Err: io.Discard, Format: ui.JSON}
	r := audit.Request{Screen: quiet, Subject: c.subject(ctx, h, table.Kinds(h), nil), Own: own, Slow: slow.Diagnose(taken)}
	return r.Run(ctx)
}
