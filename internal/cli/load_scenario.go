package cli

import (
	"context"
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
)

func loadScenarioCommand(a *app) *cobra.Command {
	o := loadScenarioOptions{Scenario: loadcli.Scenario{Program: "fettle", HostsShorthand: "n", ServerFlag: "server"}}
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
			file, err := o.File(args)
			if err != nil {
				return err
			}
			if o.DryRun && a.screen.Format != ui.Table {
				return ui.Without(fmt.Errorf("--dry-run only prints messages; leave out --output %s", a.output), "--output")
			}
			for _, verb := range c.Commands() {
				o.Verbs = append(o.Verbs, verb.Name())
			}
			o.recorded = loadcli.RecordedCommand(c, args)
			return a.loadScenario(c.Context(), o, file)
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
	if err := o.MayChange(ctx, plan); err != nil {
		return err
	}
	loadcli.SayScenario(a.screen, plan, a.next("load", "scenario", "undo", plan.Run))
	if o.DryRun {
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
	return finish(ctx, a, k, result.Text, result, early, "the connections are closed", loadcli.GatedScenario(result))
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
		plan.Journal, err = scenario.Create(filepath.Join(m.StateDir, loadcli.ScenarioDir), o.Head(plan, file))
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
	tell := loadcli.ScenarioProgress(step, title)
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
