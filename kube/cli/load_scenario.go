package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/cliutil/loadcli"
	"fettle.dev/fettle/internal/evidence"
	loadfleet "fettle.dev/fettle/internal/requests/load/fleet"
	"fettle.dev/fettle/internal/requests/load/scenario"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// loadScenarioOptions are the options of load scenario.
type loadScenarioOptions struct {
	loadcli.Scenario
	generatorOptions
}

// longestScenario is the maximum duration of a run, and of an undo.
const longestScenario = 24 * time.Hour

// inCluster are the options of a scenario that differ from those of fettle: --server and -n are
// options of kubectl.
func inCluster() loadcli.Scenario {
	return loadcli.Scenario{Program: "kubectl fettle", ServerFlag: "scenario-server"}
}

func (a *app) loadScenarioCommand(all *loadOptions) *cobra.Command {
	o := &loadScenarioOptions{Scenario: inCluster(), generatorOptions: generatorOptions{all: all}}
	c := &cobra.Command{
		Use: "scenario [FILE]", Short: "Run steps of a scenario from pods in the cluster",
		Long: `Runs the steps of a scenario file by many virtual hosts like fettle load scenario, but
from pods of the cluster (--generators): an Indexed Job, spread over the nodes. Each host
is run by one generator. The file, its values, keys and certificates are in Secrets that
the Job owns. The counts of all generators are added up exactly, and a lost generator is
named. This process records each object before a generator creates it; undo removes them.
FILE is a file, or the name of a shipped scenario. Servers must be allowed (--allow).

  --dry-run  print the Job and the Secrets without the keys, and create nothing`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			file, err := o.File(args)
			if err != nil {
				return err
			}
			o.recorded = loadcli.RecordedCommand(c, args)
			return a.loadScenario(c.Context(), o, file)
		},
	}
	o.Flags(c.Flags())
	o.loadFlags(c)
	c.Flags().Lookup("dry-run").Usage = "check FILE, print the objects, and create nothing"
	o.Rules(c)
	c.AddCommand(a.loadScenarioUndoCommand(all))
	return c
}

func (a *app) loadScenario(ctx context.Context, o *loadScenarioOptions, file string) error {
	job, err := o.Job(file)
	if err != nil {
		return cliutil.OrUsage(err)
	}
	job.NoLoopback = true
	expected, err := o.check(ctx, job)
	if err != nil {
		return err
	}
	set, err := a.generatorSet(&o.generatorOptions, longestScenario, job, !o.DryRun)
	if err != nil {
		return err
	}
	loadcli.SayScenario(a.screen, expected, a.undoCall(&o.generatorOptions, set.Namespace, expected.Run))
	if o.DryRun {
		return a.printGenerators(set)
	}
	store, records, err := a.loadRecords(&o.generatorOptions, "scenario")
	if err != nil {
		return err
	}
	return a.generate(ctx, &o.generatorOptions, set, func(f *loadfleet.Fleet, end func() error) error {
		plan, err := o.connect(ctx, job, f)
		if err != nil {
			return interruptedOr(ctx, err, "nothing was sent")
		}
		if plan.Creates {
			if plan.Journal, err = scenario.Create(filepath.Join(store.Dir, loadcli.ScenarioDir), o.Head(plan, file)); err != nil {
				return err
			}
			defer plan.Journal.Close()
		}
		run := &evidence.Run{Kind: scenario.Kind, Command: o.recorded, Version: a.version, Began: time.Now().UTC()}
		step, stop := a.screen.Steps(0)
		f.Quiet = a.quiet
		result, err := scenario.RunFleet(ctx, plan, f, loadcli.ScenarioProgress(step, ""))
		stop()
		removed := end()
		if err != nil {
			return errors.Join(interruptedOr(ctx, err, "the connections are closed"), removed)
		}
		run.Ended, run.Verdict = time.Now().UTC(), result.Text
		gated := loadcli.GatedScenario(result)
		if result.Cut != nil {
			gated = interruptedOr(ctx, gated, "the connections are closed")
		}
		err = a.finishGenerated(ctx, set, records, run, result, gated)
		if c := result.Created; c != nil && c.Intended > 0 {
			a.screen.Say("to remove the objects that this run created: %s", a.undoCall(&o.generatorOptions, set.Namespace, plan.Run))
		}
		return errors.Join(err, removed)
	})
}

// expect returns the plan of a job with invented addresses.
func (o *loadScenarioOptions) expect(ctx context.Context, job *scenario.Job) (*scenario.Plan, error) {
	again := *job
	again.Allow = orUnresolved(job.Allow)
	p, err := o.Plan(ctx, &again, outside{})
	if err != nil {
		return nil, planError(err)
	}
	return p, nil
}

// check returns the plan of a run, and the errors that can be found without real addresses.
func (o *loadScenarioOptions) check(ctx context.Context, job *scenario.Job) (*scenario.Plan, error) {
	p, err := o.expect(ctx, job)
	switch {
	case err != nil:
		return nil, err
	case len(p.Commands) > 0:
		return nil, ui.Hinted(ui.Refused, fmt.Errorf("%s runs commands (%s), which is impossible in pods: their image has no other programs, and each pod would run them in its own container", p.Name, strings.Join(slices.Compact(slices.Clone(p.Commands)), ", ")), "for kubectl use a file without command steps; fettle load scenario FILE --allow-commands runs them on one machine")
	case p.Hosts() < o.count:
		return nil, ui.Instead(ui.Usage, fmt.Errorf("%s: too few for %s; each generator needs at least one", text.Count(p.Hosts(), "host"), text.Count(o.count, "generator")), "", fmt.Sprintf("--generators=%d", p.Hosts()))
	case p.Least() > longestScenario:
		return nil, ui.Exit(ui.Usage, fmt.Errorf("the run would take %v at least; at most %v allowed", p.Least(), longestScenario))
	case o.count > 1:
		err = p.MayShare()
	}
	if err == nil {
		err = o.MayChange(ctx, p)
	}
	return p, cliutil.OrUsage(err)
}

// connect resolves the names, and gives the generators what they need in addition to the job.
func (o *loadScenarioOptions) connect(ctx context.Context, job *scenario.Job, f *loadfleet.Fleet) (*scenario.Plan, error) {
	plan, err := o.Plan(ctx, job, f.Clients[0])
	if err != nil {
		return nil, planError(err)
	}
	return plan, f.Prepare(ctx, job.Resolved(len(f.Clients)), loadfleet.ToStart)
}

// quiet reports a generator that is silent.
func (a *app) quiet(client string, since time.Time) {
	a.screen.Say("client %s: no report since %s", client, since.Local().Format(time.TimeOnly))
}

// undoCall returns the command that removes the objects of a run.
func (a *app) undoCall(o *generatorOptions, namespace, run string) string {
	words := []string{"kubectl", "fettle", "load", "scenario", "undo", run, "--namespace", namespace, "--image", cmp.Or(o.image, "IMAGE")}
	if o.all.stateDir != "" {
		words = append(words, "--state-dir", o.all.stateDir)
	}
	return text.CommandLine(words)
}

func (a *app) loadScenarioUndoCommand(all *loadOptions) *cobra.Command {
	o := &loadScenarioOptions{Scenario: inCluster(), generatorOptions: generatorOptions{all: all}}
	c := &cobra.Command{
		Use: "undo [RUN]", Short: "Remove what a scenario created, by recorded id",
		Long: `Removes the objects that a run of kubectl fettle load scenario created, from a pod,
because only pods may reach the servers. It removes by recorded ids only, latest first. An
object that has changed since the run is kept. An object whose id is unknown, because its
generator or this process was lost before the answer, is named. Without RUN it undoes the
last run whose objects are not removed. Certificates are those of the run, unless given.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.loadScenarioUndo(c.Context(), o, strings.Join(args, ""))
		},
	}
	o.Identity.Flags(c.Flags())
	o.Identity.Rules(c)
	o.flags(c)
	return c
}

func (a *app) loadScenarioUndo(ctx context.Context, o *loadScenarioOptions, run string) error {
	store, err := a.loadStore(o.all)
	if err != nil {
		return err
	}
	j, objects, err := o.OpenObjects(filepath.Join(store.Dir, loadcli.ScenarioDir), run)
	if err != nil {
		return err
	}
	defer j.Close()
	job, err := o.UndoJob(objects)
	if err != nil {
		return cliutil.OrUsage(err)
	}
	job.NoLoopback = true
	if _, err := o.expect(ctx, job); err != nil {
		return err
	}
	set, err := a.generatorSet(&o.generatorOptions, longestScenario, job, true)
	if err != nil {
		return err
	}
	var undone *scenario.Undone
	err = a.generate(ctx, &o.generatorOptions, set, func(f *loadfleet.Fleet, end func() error) error {
		plan, err := o.connect(ctx, job, f)
		if err != nil {
			return interruptedOr(ctx, err, "nothing was removed")
		}
		a.screen.Say("undoing run %s of %s", objects.Run, plan.Name)
		step, stop := a.screen.Steps(0)
		f.Quiet = a.quiet
		all, err := scenario.UndoFleet(ctx, plan, f, j, objects, func(done, all int) { step("removing", done, all) })
		stop()
		if err == nil {
			undone = all
		}
		return errors.Join(loadcli.Undone(all, err, ctx.Err() != nil, a.undoCall(&o.generatorOptions, set.Namespace, objects.Run)), end())
	})
	if undone == nil {
		return err
	}
	return a.show(undone, err, func() { undone.Print(a.screen) })
}
