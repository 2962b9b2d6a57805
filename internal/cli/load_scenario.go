package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil/loadcli"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/requests/load/fleet"
	"fettle.dev/fettle/internal/requests/load/scenario"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

func loadScenarioCommand(a *app) *cobra.Command {
	var o loadScenarioOptions
	c := &cobra.Command{
		Use: "scenario [FILE]", Short: "Run steps of a scenario by many virtual hosts",
		Long: `Runs the steps of a scenario file (YAML) by many virtual hosts: HTTP requests with
client certificates, cookies and values taken from answers, MQTT messages, waiting for a
state, and commands (only with --allow-commands). FILE is a file, or the name of a
shipped scenario (load scenario list). With a rate, hosts arrive independent of answers
(open model); without one, a number of hosts run at a time. Latency counts from the
intended start of a step. The result has figures for each step and for whole hosts.

Servers other than this machine must be allowed (--allow). A scenario that creates
objects also needs --organization, --prefix and --most-hosts there; undo removes what it
created.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return ui.Retry(ui.Usage, errors.New("no scenario given; want a file, or the name of a shipped scenario"), "fettle load scenario list shows the shipped scenarios", "example")
			}
			o.recorded = loadcli.RecordedCommand(c, args)
			return a.loadScenario(c.Context(), o, args[0])
		},
	}
	o.flags(c)
	c.AddCommand(loadScenarioListCommand(a), loadScenarioShowCommand(a), loadScenarioUndoCommand(a))
	return c
}

func (a *app) loadScenario(ctx context.Context, o loadScenarioOptions, file string) error {
	if o.ladder != "" {
		return a.climbScenario(ctx, o, file)
	}
	job, plan, err := o.plan(ctx, file, net.DefaultResolver)
	if err != nil {
		return refusedScenario(ctx, err)
	}
	if err := o.mayChange(ctx, plan); err != nil {
		return err
	}
	a.sayScenario(plan)
	if o.dryRun {
		a.screen.Say("nothing was sent")
		return nil
	}
	m, err := a.machineAsIs(ctx)
	if err != nil {
		return err
	}
	if err := mayMeasure(m); err != nil {
		return err
	}
	clients, err := a.scenarioClients(ctx, &o, plan, plan.Hosts())
	if err != nil {
		return err
	}
	if clients != nil {
		defer clients.Close()
	}
	if err := a.equip(&o, plan, m, file); err != nil {
		return err
	}
	if plan.Journal != nil {
		defer plan.Journal.Close()
	}
	k := a.keeper(m, scenario.Kind)
	k.Command = o.recorded
	result, err := a.runScenario(ctx, job, plan, clients, "")
	if err != nil {
		return cutShort(ctx, err, "the connections are closed", nil)
	}
	early := error(nil)
	if result.Cut != nil {
		early = ctx.Err()
	}
	return finish(ctx, a, k, result.Text, result, early, "the connections are closed", scenarioGates(result))
}

// equip gives a plan the right to run commands, if that is allowed, and the journal of the objects
// that it creates.
func (a *app) equip(o *loadScenarioOptions, plan *scenario.Plan, m *tune.Machine, file string) (err error) {
	if o.allowCommands {
		plan.Exec = m.Host.Exec
		plan.CommandEnv = []string{"LC_ALL=C.UTF-8"}             // Ansible refuses another encoding
		for _, name := range []string{"HOME", "SSH_AUTH_SOCK"} { // for ssh
			if value, ok := os.LookupEnv(name); ok {
				plan.CommandEnv = append(plan.CommandEnv, name+"="+value)
			}
		}
	}
	if plan.Creates {
		plan.Journal, err = scenario.Create(filepath.Join(m.StateDir, scenarioDir), o.head(plan, file))
	}
	return err
}

// scenarioClients starts the generators on other machines. Without any it returns nil, if this
// process can run the hosts.
func (a *app) scenarioClients(ctx context.Context, o *loadScenarioOptions, p *scenario.Plan, hosts int) (*fleet.Fleet, error) {
	all, err := places(o.clients, o.clientCommands)
	switch {
	case err != nil:
		return nil, err
	case len(all) == 0:
		return nil, mayOpen(hosts*max(1, len(p.Scenario.Servers)), internaltext.Count(hosts, "host"))
	case len(all) > hosts:
		return nil, ui.Exit(ui.Usage, fmt.Errorf("%s for %s; each client needs at least one", internaltext.Count(len(all), "client"), internaltext.Count(hosts, "host")))
	}
	a.screen.Status("waiting for %s", internaltext.Count(len(all), "client"))
	defer a.screen.Status("")
	f, err := fleet.Connect(ctx, all)
	if err != nil {
		return nil, err
	}
	f.Quiet = func(client string, since time.Time) {
		a.screen.Say("client %s: no report since %s", client, since.Local().Format(time.TimeOnly))
	}
	return f, nil
}

// runScenario runs a scenario here, or on the clients, and shows its progress.
func (a *app) runScenario(ctx context.Context, j *scenario.Job, plan *scenario.Plan, clients *fleet.Fleet, title string) (*scenario.Result, error) {
	step, stop := a.screen.Steps(0)
	defer stop()
	if title != "" {
		title += ": "
	}
	tell := func(now scenario.Now) {
		text := title + internaltext.Sprintf("%d of %s ended", now.Ended, internaltext.CountPlural(uint64(now.Passes), "pass", "passes"))
		if now.Failed > 0 {
			text += internaltext.Sprintf(", %d failed", now.Failed)
		}
		step(text, int(now.Ended), int(now.Passes))
	}
	if clients == nil {
		return scenario.Run(ctx, plan, tell)
	}
	shared := *j
	shared.Step = len(clients.Clients)
	if err := clients.Prepare(ctx, &shared, fleet.ToStart); err != nil {
		return nil, err
	}
	return scenario.RunFleet(ctx, plan, clients, tell)
}

// sayScenario prints what will be sent, and how long it takes at least.
func (a *app) sayScenario(p *scenario.Plan) {
	a.screen.Say("%s", p.Says())
	for _, s := range p.Targets() {
		a.screen.Say("loads %s", s)
	}
	if least := p.Least(); least > 0 {
		a.screen.Say("takes at least %s, until %s or later", unit.FormatSeconds(least.Seconds()), time.Now().Add(least).Local().Format("15:04:05"))
	}
	if p.Creates {
		a.screen.Say("may create up to %s, named with the prefix %q; %s removes them", internaltext.Count(p.MostObjects(), "object"), p.Prefix, a.next("load", "scenario", "undo", p.Options.Run))
	} else if p.Changes {
		a.screen.Say("may change objects on the server")
	}
}

// scenarioGates returns an error with an exit code if a run missed a threshold.
func scenarioGates(x *scenario.Result) error {
	failed := x.Failed()
	switch {
	case x.Word == scenario.Silent:
		return ui.Exit(ui.Failed, errors.New(x.Text))
	case x.Word == scenario.Partial:
		return ui.Exit(ui.Failed, errors.New("a client was lost; the figures cover the others, until it was missed"))
	case len(failed) == 0:
		return nil
	case x.Word == scenario.Limited:
		return ui.Exit(ui.Failed, errors.New("thresholds not judged: the load generator was the limit"))
	}
	return ui.Exit(ui.GateNotMet, fmt.Errorf("threshold %s not met: %s", failed[0].Name(), failed[0].Text))
}
