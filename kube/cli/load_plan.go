package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
	"fettle.dev/fettle/kube/load"
	"fettle.dev/fettle/kube/load/plan"
	loadrun "fettle.dev/fettle/kube/load/run"
	"fettle.dev/fettle/kube/strict"
	"fettle.dev/fettle/rules"
)

// LoadPlan is the JSON result of load plan.
type LoadPlan struct {
	Schema   string      `json:"schema"` // fettle/cluster-load-plan/v1
	Headline ui.Headline `json:"headline"`
	File     string      `json:"file,omitempty"`
	Format   string      `json:"format"`
	Notes    []string    `json:"notes,omitempty"`
	// Actions counts patches, deletions and reads of created objects, by operation.
	Actions map[string]int `json:"actions,omitempty"`
	*plan.Tally
}

// actionsOf counts a plan's actions by operation; nil if it has none.
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
	message := ""
	for _, x := range []struct{ do, one, more string }{{plan.Patch, "patch", "patches"}, {plan.Remove, "deletion", "deletions"}, {plan.Get, "read", "reads"}} {
		if n := d.Actions[x.do]; n > 0 {
			message += text.Sprintf(", %d %s", n, either(n, x.one, x.more))
		}
	}
	return message
}

func (a *app) loadPlanCommand(o *loadOptions) *cobra.Command {
	var details bool
	c := &cobra.Command{
		Use: "plan [FILE]", Short: "Show what a load would create, against the limits",
		Long: `Shows the objects that a load file ("-" is standard input) would create. It compares
their numbers with the tested maximums of the cluster's version and the nodes' capacity.
Nothing is created. Without a kubeconfig it contacts no cluster, and reports what it
cannot check.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			// With other options or standard input, the command that runs this load is unknown.
			runnable := len(args) == 0 || args[0] != "-"
			c.Flags().Visit(func(f *pflag.Flag) {
				runnable = runnable && slices.Contains([]string{"offline", "openshift", "details", "wide"}, f.Name)
			})
			return a.loadPlan(c.Context(), o, details, runnable, args)
		},
	}
	c.Flags().BoolVar(&o.offline, "offline", false, "contact no cluster: plan from the file alone (default if there is no kubeconfig)")
	c.Flags().BoolVar(&details, "details", false, "also list every kind of object")
	o.quotaFlag(c.Flags())
	o.fileFlags(c.Flags())
	c.Flags().StringVar(&o.version, "openshift", "", "with --offline: OpenShift version whose tested limits apply, such as 4.4")
	cliutil.Reads(c.Flags(), "openshift", "4.17", func(word string) error {
		known, err := tables()
		if err == nil {
			_, _, err = sizing.KnownVersion(known, "openshift-releases", word)
		}
		if wrong := (*sizing.InputError)(nil); errors.As(err, &wrong) {
			return wrong.Err // the caller names the flag
		}
		return err
	})
	return c
}

// readLoad parses the load's file; "-" is standard input.
func (o *loadOptions) readLoad(args []string) (*plan.Load, error) {
	file := ""
	if len(args) > 0 {
		if file = args[0]; file == "" { // probably an unset shell variable
			return nil, ui.WithoutWord(errors.New("empty file name; name a load file, or leave the name out for the built-in load"), "")
		}
	}
	var l *plan.Load
	var err error
	if file == "-" {
		var text []byte
		// Read one byte beyond the limit, so that a larger input is rejected rather than truncated.
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

func (a *app) loadPlan(ctx context.Context, o *loadOptions, details, runnable bool, args []string) error {
	if o.version != "" && !o.offline {
		return ui.Retry(ui.Usage, errors.New("--openshift needs --offline; a cluster reports its own version"), "", "--offline")
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
			a.screen.Say("no kubeconfig found: planned offline, from the file alone; limits, nodes and existing objects of a cluster are not checked")
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
	doc := LoadPlan{Schema: "fettle/cluster-load-plan/v1", File: l.File, Format: l.Format, Actions: actionsOf(p), Tally: t,
		Notes: slices.Concat(l.Notes, p.Notes, t.Notes, brakeNotes(t, false), gateNotes(l, p))}
	err = planVerdict(t, o.offline, false)
	doc.Headline = doc.headline(o.offline)
	return a.show(doc, err, func() {
		a.printPlan(&doc, details)
		if err == nil && runnable {
			ui.Heading(a.screen, "Run it with")
			ui.PrintCommand(a.screen, text.CommandLine(append([]string{"kubectl", "fettle", "load", "run"}, args...)))
		}
	})
}

// tallyOf counts a plan's objects and compares them with the catalog's limits.
func tallyOf(ctx context.Context, p *plan.Plan, c *plan.Cluster) (*plan.Tally, error) {
	known, err := tables()
	if err != nil {
		return nil, err
	}
	return plan.Of(ctx, p, known, c)
}

// tables returns the catalog's tables.
func tables() (sizing.Figures, error) {
	files, err := rule.Embedded(rules.FS)
	if err != nil {
		return nil, err
	}
	return rule.Tables(files)
}

// brakeNotes warns if the brake would stop a run whose objects fit into etcd.
func brakeNotes(t *plan.Tally, off bool) []string {
	for _, l := range t.Limits {
		if l.What == plan.BytesInEtcd && !off && !l.Over && float64(l.Value) > loadrun.QuotaShare*float64(l.Maximum) {
			return []string{fmt.Sprintf("%s in etcd exceed %.0f %% of etcd's quota of %s; at that size the brake ends the run, unless --no-brake is given", figure(l, l.Value), 100*loadrun.QuotaShare, figure(l, l.Maximum))}
		}
	}
	return nil
}

// gateNotes returns a note for each of the file's gates that has too few objects for a verdict.
func gateNotes(l *plan.Load, p *plan.Plan) []string {
	if len(l.Gates) == 0 {
		return nil
	}
	answers := load.AnswersOf(p, nil)
	var all []string
	for _, text := range l.Gates {
		g, err := load.ParseGate(text.Text)
		if err != nil {
			continue // readLoad has rejected it
		}
		if why := g.TooFew(answers); why != "" {
			all = append(all, text.At+": "+why)
		}
	}
	return all
}

// planVerdict returns an error for a plan that exceeds the cluster. Offline, it does not check
// missing kinds. run is set for load run, whose hint names its own flag.
func planVerdict(t *plan.Tally, offline, run bool) error {
	if len(t.Missing) > 0 && !offline {
		return ui.Retry(ui.Refused, fmt.Errorf("the cluster has no %s", load.Lacks(t.Missing)), "remove these kinds from the load, or install their API (see kubectl api-resources)")
	}
	if over := t.Over(); len(over) > 0 {
		l := over[0]
		where := ""
		if l.Of != "" {
			where = " in " + l.Of
		}
		err := fmt.Errorf("%s %s%s: the maximum is %s (%s)", figure(l, l.Value), strings.TrimPrefix(l.What, "bytes "), where, figure(l, l.Maximum), l.Source)
		if !run {
			return ui.Hinted(ui.Refused, err, "use a smaller load, or run this one with kubectl fettle load run --beyond-maximums")
		}
		return ui.Retry(ui.Refused, err, "use a smaller load, or run this one with --beyond-maximums", "--beyond-maximums")
	}
	return nil
}

// figure formats a number in a limit's unit.
func figure(l plan.Limit, n int) string {
	if l.What == plan.BytesInEtcd {
		return unit.Size(n).Human()
	}
	return unit.Thousands(uint64(max(n, 0)))
}

// headline summarizes the load and whether it fits.
func (d *LoadPlan) headline(offline bool) (h ui.Headline) {
	pods := h.Count("pods", d.Pods, "pod")
	if d.PodsFinished > 0 {
		pods += fmt.Sprintf(" at once, %s of Jobs", h.Count("pods_finished", d.PodsFinished, "finished pod"))
	}
	if d.PerNode > 0 {
		pods += fmt.Sprintf(" and %s more on each node", h.Count("pods_for_each_node", d.PerNode, ""))
	}
	wait := ""
	if d.Steps > 0 {
		wait = fmt.Sprintf("; %s to wait for", h.Count("steps", d.Steps, "step"))
	}
	h.Line("%s, %s, %s in etcd%s%s", h.Count("objects", d.Objects, "object"), pods,
		h.Value("etcd_bytes", float64(d.EtcdBytes), unit.Size(d.EtcdBytes).Human()), wait, d.actions())
	limits, over := d.tightest(), d.Over()
	switch {
	case len(d.Missing) > 0 && !offline:
		h.Line("does not fit: the cluster lacks %s", h.Count("missing_kinds", len(d.Missing), "kind"))
	case len(over) > 0:
		h.Line("does not fit: exceeds %s of %s", h.Count("limits_over", len(over), ""), h.Count("limits", len(limits), "limit"))
	case len(limits) == 0:
		h.Line("unknown whether it fits: no limits known")
	}
	if len(limits) > 0 {
		l := limits[0]
		fits := ""
		if len(h.Lines) == 1 {
			fits = "fits; "
			if offline {
				fits = "fits, by the tested limits alone; "
			}
		}
		h.Line("%stightest limit: %s: %s of %s (%s)", fits, limitName(l), figure(l, l.Value), figure(l, l.Maximum), h.Figure("tightest_limit_percent", share(l), "%"))
	}
	return h
}

// tightest returns the limits, tightest first.
func (d *LoadPlan) tightest() []plan.Limit {
	return slices.SortedStableFunc(slices.Values(d.Limits), func(x, y plan.Limit) int { return cmp.Compare(share(y), share(x)) })
}

// share returns how much of a limit is used, in percent.
func share(l plan.Limit) float64 {
	if l.Maximum <= 0 {
		return 100
	}
	return 100 * float64(l.Value) / float64(l.Maximum)
}

// limitName returns a limit's display name.
func limitName(l plan.Limit) string {
	name := strings.ReplaceAll(l.What, "_", " ")
	if l.Of != "" {
		name += " (" + l.Of + ")"
	}
	return name
}

// shownKinds is the number of kinds shown without --details.
const shownKinds = 12

func (a *app) printPlan(d *LoadPlan, details bool) {
	for _, n := range d.Notes {
		a.screen.Say("%s", n)
	}
	ui.PrintHeadline(a.screen, &d.Headline)
	limits := d.tightest()
	g := ui.Grid{Columns: []ui.Column{{Head: "limit"}, {Head: "number", Right: true}, {Head: "maximum", Right: true}, {Head: "used", Right: true}, {Head: "verdict"}, {Head: "in", Optional: true}, {Head: "source", Wide: true}}}
	for _, l := range limits {
		word := "within"
		if l.Over {
			word = "over"
		}
		used := unit.Digits(share(l)) + " %"
		if share(l) < 0.01 {
			used = "< 0.01 %"
		}
		g.Rows = append(g.Rows, []string{strings.ReplaceAll(l.What, "_", " "), figure(l, l.Value), figure(l, l.Maximum), used, word, l.Of, l.Source})
	}
	g.Color = func(row, col int) string {
		if col == 4 && limits[row].Over {
			return ui.Red
		}
		return ""
	}
	section(a.screen, "Limits, the tightest first", &g)
	kinds := slices.SortedStableFunc(slices.Values(d.Kinds), func(x, y plan.Count) int { return cmp.Compare(y.Bytes, x.Bytes) })
	if !details {
		kinds = kinds[:min(len(kinds), shownKinds)]
	}
	g = ui.Grid{Columns: []ui.Column{{Head: "kind"}, {Head: "objects", Right: true}, {Head: "in etcd", Right: true}, {Head: "note"}}}
	for _, k := range kinds {
		g.Rows = append(g.Rows, []string{k.Kind + " " + k.APIVersion, unit.Thousands(uint64(k.Count)), unit.Size(k.Bytes).Human(), d.noteOf(k)})
	}
	section(a.screen, "Objects, those that take most of etcd first", &g)
	notShown(a.screen, text.Count(len(d.Kinds)-len(kinds), "kind"))
}

// noteOf returns a note if the cluster lacks a kind.
func (d *LoadPlan) noteOf(k plan.Count) string {
	for _, m := range d.Missing {
		if m.Kind == k.Kind && m.APIVersion == k.APIVersion {
			if d.Cluster != nil && d.Cluster.Known {
				return "the cluster does not have it"
			}
			return "not known without a cluster"
		}
	}
	return ""
}
