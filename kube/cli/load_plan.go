package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
	"fettle.dev/fettle/kube/load"
	"fettle.dev/fettle/kube/load/plan"
	loadrun "fettle.dev/fettle/kube/load/run"
	"fettle.dev/fettle/kube/strict"
	"fettle.dev/fettle/rules"
)

// LoadPlan is what load plan prints.
type LoadPlan struct {
	Schema string   `json:"schema"` // fettle/cluster-load-plan/v1
	File   string   `json:"file,omitempty"`
	Format string   `json:"format"`
	Notes  []string `json:"notes,omitempty"`
	// Actions has the number of patches, deletions and reads of created objects.
	Actions map[string]int `json:"actions,omitempty"`
	*plan.Tally
}

// actionsOf counts the actions of a plan by operation; nil without actions.
func actionsOf(p *plan.Plan) map[string]int {
	if p.Actions() == 0 {
		return nil
	}
	all := map[string]int{}
	for i := range p.Actions() {
		a, _ := p.Action(i)
		all[a.Do]++
	}
	return all
}

// actions describes the actions of a plan.
func (d *LoadPlan) actions() string {
	text := ""
	for _, x := range []struct{ do, one, more string }{{plan.Patch, "patch", "patches"}, {plan.Remove, "deletion", "deletions"}, {plan.Get, "read", "reads"}} {
		if n := d.Actions[x.do]; n > 0 {
			text += fmt.Sprintf(", %d %s", n, either(n, x.one, x.more))
		}
	}
	return text
}

func (a *app) loadPlanCommand(o *loadOptions) *cobra.Command {
	c := &cobra.Command{
		Use: "plan [FILE]", Short: "Show what a load would create, against the limits",
		Long: `Reads the file of a load ("-" is standard input) and says what it would make, against
what the version of the cluster was tested with and what its nodes take. Nothing is
created. Without any kubeconfig it plans offline, and reports what is not checked.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.loadPlan(c.Context(), o, args) },
	}
	c.Flags().BoolVar(&o.offline, "offline", false, "contact no cluster: plan from the file alone (default if there is no kubeconfig)")
	o.quotaFlag(c.Flags())
	o.fileFlags(c.Flags())
	c.Flags().StringVar(&o.version, "openshift", "", "with --offline: version of OpenShift whose limits apply, such as 4.4")
	cliutil.Reads(c.Flags(), "openshift", "4.17", func(word string) error {
		if !versionText.MatchString(word) {
			return errors.New("want a version as 4.4 or 4.17.3")
		}
		return nil
	})
	return c
}

// versionText matches a version of OpenShift: 4.4, 4.17.3, 4.18.0-rc.1.
var versionText = regexp.MustCompile(`^[0-9]+\.[0-9]+(\.[0-9]+)?([-+][0-9A-Za-z.+-]+)?$`)

// readLoad reads the file of a load; "-" is standard input.
func (o *loadOptions) readLoad(args []string) (*plan.Load, error) {
	file := ""
	if len(args) > 0 {
		if file = args[0]; file == "" { // a variable that is not set, as like as not
			return nil, ui.WithoutWord(errors.New("the name of the load's file is empty: want a file, or none at all for the load that is built in"), "")
		}
	}
	var l *plan.Load
	var err error
	if file == "-" {
		var text []byte
		// One byte more than allowed, so that a larger input is refused instead of truncated.
		if text, err = io.ReadAll(io.LimitReader(os.Stdin, strict.MaxFile+1)); err == nil {
			l, err = load.ReadText("standard input", text, o.read)
		}
	} else {
		l, err = load.Read(file, o.read)
	}
	if err != nil {
		return nil, ui.Exit(ui.Usage, err)
	}
	if err := o.fitting(l); err != nil {
		return nil, err
	}
	for _, g := range l.Gates {
		if _, err := load.ParseGate(g.Text); err != nil {
			return nil, ui.Exit(ui.Usage, fmt.Errorf("%s: %w", g.At, err))
		}
	}
	return l, o.unread(l)
}

func (a *app) loadPlan(ctx context.Context, o *loadOptions, args []string) error {
	if o.version != "" && !o.offline {
		return ui.Retry(ui.Usage, errors.New("--openshift is for --offline: a cluster says its version itself"), "", "--offline")
	}
	quota, err := quotaBytes(o.quota)
	if err != nil {
		return err
	}
	l, err := o.readLoad(args)
	if err != nil {
		return err
	}
	var p *plan.Plan
	var c *plan.Cluster
	var cluster *load.Cluster
	if !o.offline {
		cluster, err = a.loadCluster(o, 1)
		if o.offline = errors.Is(err, errNoKubeconfig); o.offline {
			a.screen.Say("no kubeconfig found: planned offline, from the file alone; the limits of a cluster, its nodes and what exists there are not checked")
		} else if err != nil {
			return err
		}
	}
	if o.offline {
		if p, err = plan.Compile(ctx, l, "plan", nil); ctx.Err() != nil {
			return loadExit(ctx.Err())
		} else if err != nil {
			return ui.Exit(ui.Usage, err)
		}
		if o.version != "" || quota != 0 {
			c = &plan.Cluster{OpenShift: o.version, EtcdQuotaBytes: quota, EtcdQuotaSource: "--etcd-quota"}
		}
	} else {
		if p, _, err = cluster.Plan(ctx, l, "plan"); err != nil {
			return loadExit(err)
		}
		if c, err = loadrun.Cluster(ctx, cluster.Server); err != nil {
			return loadExit(err)
		}
		if err := o.askEtcd(ctx, cluster.Server, nil, c); err != nil {
			return loadExit(err)
		}
	}
	t, err := tallyOf(ctx, p, c)
	if ctx.Err() != nil {
		return loadExit(ctx.Err())
	}
	if err != nil {
		return ui.Exit(ui.Usage, err)
	}
	doc := LoadPlan{"fettle/cluster-load-plan/v1", l.File, l.Format, slices.Concat(l.Notes, p.Notes, t.Notes, brakeNotes(t, false), gateNotes(l, p)), actionsOf(p), t}
	return a.show(doc, planVerdict(t, o.offline), func() { a.printPlan(&doc) })
}

// tallyOf sums up a plan, with the figures of the catalog.
func tallyOf(ctx context.Context, p *plan.Plan, c *plan.Cluster) (*plan.Tally, error) {
	files, err := rule.Embedded(rules.FS)
	if err != nil {
		return nil, err
	}
	figures, err := rule.Tables(files)
	if err != nil {
		return nil, err
	}
	return plan.Of(ctx, p, figures, c)
}

// brakeNotes warns if the brake would end a run whose objects fit into etcd.
func brakeNotes(t *plan.Tally, off bool) []string {
	for _, l := range t.Limits {
		if l.What == plan.BytesInEtcd && !off && !l.Over && float64(l.Value) > loadrun.QuotaShare*float64(l.Maximum) {
			return []string{fmt.Sprintf("%s in etcd are more than the %.0f %% of its quota of %s at which the brake ends a run: --no-brake goes on", figure(l, l.Value), 100*loadrun.QuotaShare, figure(l, l.Maximum))}
		}
	}
	return nil
}

// gateNotes returns which of a file's gates have too few objects to be judged.
func gateNotes(l *plan.Load, p *plan.Plan) []string {
	if len(l.Gates) == 0 {
		return nil
	}
	answers := load.AnswersOf(p, nil)
	var all []string
	for _, text := range l.Gates {
		g, err := load.ParseGate(text.Text)
		if err != nil {
			continue // readLoad has refused it
		}
		if why := g.TooFew(answers); why != "" {
			all = append(all, text.At+": "+why)
		}
	}
	return all
}

// planVerdict refuses a plan that exceeds the cluster. Offline, missing kinds are not checked.
func planVerdict(t *plan.Tally, offline bool) error {
	if len(t.Missing) > 0 && !offline {
		return ui.Retry(ui.Refused, fmt.Errorf("the cluster has no %s", load.Lacks(t.Missing)), "take them out of the load, or install what has them (kubectl api-resources shows what there is)")
	}
	if over := t.Over(); len(over) > 0 {
		l := over[0]
		where := ""
		if l.Of != "" {
			where = " in " + l.Of
		}
		return ui.Retry(ui.Refused, fmt.Errorf("%s %s%s: the maximum is %s (%s)", figure(l, l.Value), strings.TrimPrefix(l.What, "bytes "), where, figure(l, l.Maximum), l.Source), "a smaller load fits; --beyond-maximums runs this one", "--beyond-maximums")
	}
	return nil
}

// figure formats a number of a limit.
func figure(l plan.Limit, n int) string {
	if l.What == plan.BytesInEtcd {
		return unit.Size(n).Human()
	}
	return fmt.Sprint(n)
}

func (a *app) printPlan(d *LoadPlan) {
	for _, n := range d.Notes {
		a.screen.Say("%s", n)
	}
	pods := text.Count(d.Pods, "pod")
	if d.PodsFinished > 0 {
		pods += fmt.Sprintf(" at once, %s of Jobs", text.Count(d.PodsFinished, "finished pod"))
	}
	if d.PerNode > 0 {
		pods += fmt.Sprintf(" and %d more on each node", d.PerNode)
	}
	fmt.Fprintf(a.screen.Out, "%s, %s, %s in etcd; %s to wait for%s\n\n", text.Count(d.Objects, "object"), pods, unit.Size(d.EtcdBytes).Human(), text.Count(d.Steps, "step"), d.actions())
	g := ui.Grid{Columns: ui.Columns("kind", "objects", "in etcd")}
	for _, k := range d.Kinds {
		name := k.Kind + " " + k.APIVersion
		for _, m := range d.Missing {
			if m.Kind == k.Kind && m.APIVersion == k.APIVersion {
				name += " (not known without a cluster)"
				if d.Cluster != nil && d.Cluster.Known {
					name = k.Kind + " " + k.APIVersion + " (the cluster has it not)"
				}
			}
		}
		g.Rows = append(g.Rows, []string{name, fmt.Sprint(k.Count), unit.Size(k.Bytes).Human()})
	}
	g.Write(a.screen)
	if len(d.Limits) == 0 {
		return
	}
	fmt.Fprintln(a.screen.Out)
	g = ui.Grid{Columns: append(ui.Columns("there will be", "number", "maximum", "verdict"), ui.Column{Head: "source", Wide: true})}
	for _, l := range d.Limits {
		word, what := "within", l.What
		if l.Over {
			word = "over"
		}
		if l.Of != "" {
			what += " (" + l.Of + ")"
		}
		g.Rows = append(g.Rows, []string{what, figure(l, l.Value), figure(l, l.Maximum), word, l.Source})
	}
	g.Color = func(row, col int) string {
		if col == 3 && d.Limits[row].Over {
			return ui.Red
		}
		return ""
	}
	g.Write(a.screen)
}
