package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/resident"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/load"
	"fettle.dev/fettle/kube/load/plan"
	loadrun "fettle.dev/fettle/kube/load/run"
)

func (a *app) loadRunCommand(o *loadOptions) *cobra.Command {
	c := &cobra.Command{
		Use: "run [FILE]", Short: "Run a load, and measure how the cluster handles it",
		Long: `Creates the objects of a load file in order (- for standard input), and measures how the
cluster handles them. Without a file it runs a small built-in load and removes its
objects at the end. Ctrl-C ends the run and removes its objects, unless --keep is given.
To continue a killed run, use load resume; to remove its objects, use load undo. Without
--slo the run is judged by Kubernetes' own service level objectives.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.loadRun(c.Context(), o, args)
		},
	}
	o.drivingFlags(c.Flags())
	o.fileFlags(c.Flags())
	c.Flags().BoolVar(&o.forProve, "for-prove", false, "run as the workload of fettle prove: print one number per line, give no verdict, remove all objects")
	c.Flags().BoolVar(&o.beyond, "beyond-maximums", false, "run even if the load exceeds the version's tested limits or the nodes' capacity")
	return c
}

func (a *app) loadResumeCommand(o *loadOptions) *cobra.Command {
	c := &cobra.Command{
		Use: "resume [RUN]", Short: "Resume a run that was interrupted",
		Long: `Resumes an interrupted run (default the last run): it creates the objects that are not
yet in the run's journal. After Ctrl-C the existing objects remain; continue with load
resume, or remove them with load undo. The objectives (--slo) of the original run still
apply. Those given with this command are added.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.loadResume(c.Context(), o, args)
		},
	}
	o.drivingFlags(c.Flags())
	return c
}

// driven is a running load with the measurements and progress that the verb shows.
type driven struct {
	id     string
	facts  load.Facts
	wide   int
	rate   float64
	plan   *plan.Plan
	meter  *load.Meter
	began  time.Time
	done   atomic.Int64
	before int
	stop   func() // ends the display of the progress
	store  string // the directory of the runs
	// resumed reports whether an earlier process began the run.
	resumed bool
	// gates are the requested gates.
	gates []*load.Gate
}

// lean keeps this process small while a load runs: it collects garbage earlier, and releases
// program pages needed only at start. The caller runs end to restore the defaults.
func lean() (end func()) {
	before := debug.SetGCPercent(15)
	resident.Rest()
	return func() { debug.SetGCPercent(before) }
}

// watch sets up measurements and progress output.
func (d *driven) watch(a *app, x *load.Options) {
	d.stop = func() {}
	x.Begun = func(id string, p *plan.Plan, state *loadrun.State) {
		d.id, d.plan, d.meter, d.began = id, p, load.New(p), time.Now()
		d.before = state.Count(loadrun.Created) + state.Count(loadrun.Reused)
		for _, n := range p.Notes {
			a.screen.Say("%s", n)
		}
		a.screen.Say("run %s: %s; journal in %s", id, text.Count(p.Len()-d.before, "object"), filepath.Join(d.store, id))
		if len(d.gates) > 0 {
			answers := load.AnswersOf(p, func(i int) bool { was := state.Objects[i].Was; return was == loadrun.Created || was == loadrun.Reused })
			for _, g := range d.gates {
				if why := g.TooFew(answers); why != "" {
					a.screen.Say("%s", why)
				}
			}
		}
		resident.Rest()
		d.stop = a.screen.Track(func() ui.Progress {
			n, left := d.done.Load(), int64(p.Len()-d.before)
			return ui.Progress{Text: text.Sprintf("%d of %d objects", n+int64(d.before), p.Len()), Done: float64(n), All: float64(left)}
		})
	}
	x.On = func(answer loadrun.Answer) {
		d.meter.Answer(answer)
		d.done.Add(1)
	}
	x.Pod = func(s loadrun.Seen) { d.meter.Pod(s) }
	x.OnAct = func(acted loadrun.Acted) { d.meter.Act(acted) }
}

func (a *app) loadRun(ctx context.Context, o *loadOptions, args []string) error {
	l, err := o.readLoad(args)
	if err != nil {
		return err
	}
	if o.forProve && (o.keep || len(o.slo) > 0) {
		return ui.Without(errors.New("--for-prove always removes its objects, and fettle prove judges the result; leave out --keep and --slo"), "--keep", "--slo")
	}
	x, err := o.driving()
	if err != nil {
		return err
	}
	gates, asked, err := o.gates(gateTexts(l))
	if err != nil {
		return err
	}
	cluster, err := a.loadCluster(o, inFlightOf(x.InFlight, l))
	if err != nil {
		return err
	}
	if err := a.loadEtcd(ctx, o, cluster.Server, &x); err != nil {
		return loadExit(err)
	}
	for _, n := range l.Notes {
		a.screen.Say("%s", n)
	}
	for _, text := range o.slo { // for a later load resume
		l.Gates = append(l.Gates, plan.Gate{At: "--slo", Text: text})
	}
	d := &driven{store: cluster.Store.Dir, wide: inFlightOf(x.InFlight, l), rate: rateOf(x.Rate, l)}
	d.facts.Settings = map[string]string{}
	if asked && !o.forProve {
		d.gates = gates
	}
	if !o.beyond {
		p, _, err := cluster.Plan(ctx, l, "plan")
		if err != nil {
			return loadExit(err)
		}
		c, err := loadrun.Cluster(ctx, cluster.Server)
		if ctx.Err() != nil {
			return loadExit(ctx.Err())
		}
		if err == nil && len(c.NotSeen) > 0 { // an unreadable guard rail stops the run
			err = fmt.Errorf("cannot determine the cluster's size; nothing created: %s: %s", c.NotSeen[0].What, c.NotSeen[0].Why)
		}
		if err != nil {
			return ui.Hinted(ui.Failed, err, "to run without this check: --beyond-maximums")
		}
		if err := o.askEtcd(ctx, cluster.Server, x.Etcd, c); err != nil {
			return loadExit(err)
		}
		d.knows(c)
		t, err := tallyOf(ctx, p, c)
		if err == nil {
			for _, n := range slices.Concat(t.Notes, brakeNotes(t, x.NoBrake)) {
				a.screen.Say("%s", n)
			}
			err = planVerdict(t, false, true)
		}
		if err != nil {
			return err
		}
	}
	if o.forProve {
		n, err := cluster.UndoVisits(ctx)
		if err != nil {
			return loadExit(err)
		}
		if n > 0 {
			a.screen.Say("%s %s interrupted: removing the remaining objects of %s", text.Count(n, "earlier run"), either(n, "was", "were"), either(n, "that run", "those runs"))
		}
		x.Visit = true
	}
	d.watch(a, &x)
	defer lean()()
	id, out, err := cluster.Run(ctx, l, x)
	d.stop()
	if id == "" {
		return loadExit(err)
	}
	if o.forProve {
		return a.loadVisited(ctx, cluster, d, l, out, err)
	}
	return a.loadEnd(ctx, o, cluster, d, l, out, gates, asked, err)
}

func inFlightOf(asked int, l *plan.Load) int {
	switch {
	case asked > 0:
		return asked
	case l != nil && l.InFlight > 0:
		return min(l.InFlight, mostInFlight)
	}
	return loadrun.DefaultInFlight
}

func rateOf(asked float64, l *plan.Load) float64 {
	if asked > 0 {
		return asked
	}
	return l.Rate
}

func gateTexts(l *plan.Load) []string {
	var all []string
	for _, g := range l.Gates {
		all = append(all, g.Text)
	}
	return all
}

func (a *app) loadResume(ctx context.Context, o *loadOptions, args []string) error {
	x, err := o.driving()
	if err != nil {
		return err
	}
	s, err := a.loadStore(o)
	if err != nil {
		return err
	}
	id, err := runNamed(s, args)
	if err != nil {
		return err
	}
	kept, err := s.Load(id)
	if err != nil {
		return a.unloaded(ctx, o, id, err)
	}
	gates, asked, err := o.gates(gateTexts(kept.Load))
	if err != nil {
		return err
	}
	if x.InFlight == 0 {
		x.InFlight = kept.InFlight
	}
	cluster, err := a.loadCluster(o, inFlightOf(x.InFlight, kept.Load))
	if err != nil {
		return err
	}
	if err := a.loadEtcd(ctx, o, cluster.Server, &x); err != nil {
		return loadExit(err)
	}
	d := &driven{store: cluster.Store.Dir, resumed: true, wide: inFlightOf(x.InFlight, kept.Load), rate: rateOf(max(x.Rate, kept.Rate), kept.Load)}
	d.facts.Settings = map[string]string{}
	if asked && !o.forProve {
		d.gates = gates
	}
	d.watch(a, &x)
	defer lean()()
	out, err := cluster.Resume(ctx, id, x)
	d.stop()
	if out == nil || d.plan == nil {
		return loadExit(err)
	}
	return a.loadEnd(ctx, o, cluster, d, kept.Load, out, gates, asked, err)
}

// loadEnd completes a run: verdict, record and clean-up.
func (a *app) loadEnd(ctx context.Context, o *loadOptions, cluster *load.Cluster, d *driven, l *plan.Load, out *load.Result, gates []*load.Gate, asked bool, err error) error {
	doc := newLoadRun(d, l, out, d.meter, d.meter.Judge(gates, out.DriveOutcome))
	interrupted := ctx.Err() != nil && errors.Is(err, context.Canceled)
	switch {
	case interrupted && (o.keep || d.resumed):
		doc.State = "interrupted"
		err = ui.Hinted(doc.stands(ui.Interrupted), errors.New("interrupted; the objects of the run remain"), further(d.id))
	case interrupted:
		doc.State = "interrupted"
		err = ui.Exit(ui.Interrupted, errors.New("interrupted"))
	case err != nil:
		if doc.State = "failed"; errors.Is(err, loadrun.ErrBrake) {
			doc.State = "stopped by the brake"
		}
		code := ui.Code(loadExit(err))
		if code == ui.Failed {
			code = doc.stands(code)
		}
		err = ui.Hinted(code, err, further(d.id))
	default:
		err = doc.judge(asked)
	}
	var undone error
	if !o.keep && (interrupted && !d.resumed || l.Cleanup && doc.State == "done") {
		if undone = a.loadCleanUp(context.WithoutCancel(ctx), cluster, d.id, doc); undone != nil {
			// Report first that objects remain in the cluster.
			err = errors.Join(doc.leftStanding(undone, d.id, interrupted), err)
		}
	}
	doc.Headline = doc.headline()                                          // the record contains it
	if kept := a.keepRecord(ctx, cluster, d, l, out, doc); undone == nil { // otherwise the error is already reported
		err = errors.Join(err, kept)
	}
	return a.show(doc, err, func() { a.printRun(doc) })
}

// further returns the commands that continue or undo a run.
func further(id string) string {
	return fmt.Sprintf("to continue: kubectl fettle load resume %s; to remove its objects: kubectl fettle load undo %s", id, id)
}

// stands returns an incomplete run's exit code: ui.Partial if the run has created objects,
// otherwise code.
func (x *LoadRun) stands(code int) int {
	if x.Objects.Created+x.Objects.Before > 0 {
		return ui.Partial
	}
	return code
}

// leftStanding returns the error of an incomplete clean-up.
func (x *LoadRun) leftStanding(err error, id string, interrupted bool) error {
	message := "some objects of the run were not removed"
	if interrupted {
		message = "interrupted, and " + message
	}
	left := x.Objects.Created + x.Objects.Before - x.Removed - x.Absent
	if x.Actions != nil {
		left -= x.Actions.Deleted
	}
	if left > 0 {
		message += ": at most " + text.Count(left, "object") + either(left, " remains", " remain")
	}
	return ui.Hinted(ui.Incomplete, fmt.Errorf("%s: %w", message, err), fmt.Sprintf("to continue: kubectl fettle load undo %s", id))
}

// loadCleanUp undoes a run at its end.
func (a *app) loadCleanUp(ctx context.Context, cluster *load.Cluster, id string, doc *LoadRun) error {
	a.screen.Say("removing the objects of run %s; if interrupted, continue with kubectl fettle load undo %s", id, id)
	step, stop := a.screen.Steps(0)
	out, err := cluster.Undo(ctx, id, func(done, all int) { step(text.Sprintf("%d of %d removed", done, all), done, all) })
	stop()
	if out != nil {
		doc.undone(out)
	}
	if err != nil {
		return loadExit(err)
	}
	doc.State += ", undone"
	return nil
}
