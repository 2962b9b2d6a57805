package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	hostaudit "fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/fact/activity"
	guidefindings "fettle.dev/fettle/internal/guide/findings"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/slow"
	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/internal/product/etcd"
	"fettle.dev/fettle/internal/product/kubelet"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/audit"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/rules"
)

type checkOptions struct {
	root     string // --root
	view     guidefindings.View
	failOn   string
	disable  []string
	release  string // --for
	explain  string
	kubelets time.Duration
	etcd     etcdOptions
	defrag   defragmentOptions
}

func checkCommand(a *app) *cobra.Command {
	var o checkOptions
	c := &cobra.Command{
		Use: "check", Short: "Audit a running cluster, or a must-gather",
		Long: `Audits a running cluster and changes nothing. It checks etcd (quota, fragmentation,
leader, disk and network latency), flags of the control plane, the number of objects,
network sizes and kubelet settings. It also checks the volumes of registry, monitoring,
logging, etcd and databases. Further rules cover machine sets, health checks and
OpenShift's own configuration. If the inputs of a rule cannot be read, the rule is
reported as unknown, never as passed.

fettle finds etcd's members in the pods of kubeadm, k3s, RKE2 and OpenShift, or in the
API server's options. If it finds none, name all members with --etcd-endpoints. etcd
requires a client certificate that its CA has signed. fettle never reads certificates
from secrets: name their files with --etcd-cacert, --etcd-cert and --etcd-key. The API
server's certificates for etcd are suitable.

With --defragment the command does not audit, but defragments etcd. It compacts etcd's
history, and defragments the members that have enough free space. It handles one member
at a time, the leader last. It first shows the plan and asks.

Further formats of --output: html (one page), sarif (2.1.0) and openmetrics.`,
		Args: cobra.NoArgs, Annotations: map[string]string{moreFormats: cliutil.AuditFormats},
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.defrag.check(c.Flags().Changed); err != nil {
				return ui.Exit(ui.Usage, err)
			}
			if o.defrag.asked {
				if !a.data() && a.screen.Format != ui.Table {
					return ui.Instead(ui.Usage, fmt.Errorf("--defragment: format %s is not available; want table, json or yaml", a.screen.Format), "", "--output=json")
				}
				return a.defragment(c.Context(), o)
			}
			if o.root != "" {
				return a.checkRecorded(c.Context(), o)
			}
			return a.check(c.Context(), o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.root, "root", "", "audit a must-gather or a recorded machine in this directory or archive, as fettle check --root does; no cluster is contacted")
	f.BoolVarP(&o.view.All, "all", "a", false, "also list passed and not applicable rules")
	f.BoolVar(&o.view.Details, "details", false, "show reason, fix and sources of each finding, and what could not be determined")
	f.StringVar(&o.failOn, "fail-on", "", "exit with 3 on a finding of this state or worse: fail, warn or unknown")
	f.StringArrayVar(&o.disable, "disable", nil, "disable a rule: ID=REASON; repeatable")
	f.StringVar(&o.explain, "explain", "", "with --root: explain the rule with this ID: value found, value wanted, reason, fix, source")
	f.StringVar(&o.release, "for", "", "check what an upgrade to this release breaks in kubelets, etcd and the control plane: Kubernetes 1.37, OpenShift 4.20")
	f.DurationVar(&o.kubelets, "kubelet-time", time.Minute, "time limit for reading the configuration of all kubelets, such as 1m")
	o.etcd.flags(f)
	o.defrag.flags(f)
	cliutil.OneOf(f, "fail-on", "fail", "warn", "unknown")
	cliutil.Between(f, "kubelet-time", time.Second, 24*time.Hour, time.Minute)
	cliutil.Reads(f, "for", kuberelease.Known().Newest.String(), func(word string) error { _, err := kuberelease.Known().Target(word); return err })
	cliutil.Reads(f, "disable", "O03.node=Calico hands out the addresses", func(word string) error {
		if _, reason, _ := strings.Cut(word, "="); strings.TrimSpace(reason) == "" {
			return errors.New("want ID=REASON; reports show the reason")
		}
		return nil
	})
	cliutil.Requires(c, "--root", "explain")
	cliutil.Excludes(c, "root", "no cluster is contacted", "disable", "kubelet-time", "defragment", "etcd-endpoints", "etcd-cacert", "etcd-cert", "etcd-key")
	return c
}

// checkRecorded audits the recorded machine or cluster at --root, like fettle check.
func (a *app) checkRecorded(ctx context.Context, o checkOptions) error {
	defer cliutil.EndWith(ctx)()
	h, err := cliutil.OpenRoot(a.screen, o.root)
	if err != nil {
		return err
	}
	r, err := hostaudit.Recorded(ctx, a.screen, h, o.root, o.release)
	if err != nil {
		return err
	}
	if o.explain != "" {
		return a.explainRecorded(ctx, r, o.explain)
	}
	if o.release == "" {
		r.Slow = slow.Diagnose(activity.SinceBoot(h))
	}
	result, err := r.Run(ctx)
	if err != nil {
		return err
	}
	return cliutil.Audit(a.screen, a.version, result, o.view, r.Gate(result, o.failOn, nil))
}

// explainRecorded prints all facts and results of one rule.
func (a *app) explainRecorded(ctx context.Context, r *hostaudit.Request, id string) (err error) {
	if r.Catalogue, err = hostaudit.CatalogueWith(r.Own, []string{id}); err != nil {
		return err
	}
	of := r.Catalogue.Rule(id)
	if of == nil {
		return ui.Without(fmt.Errorf("no rule has the id %q%s", id, text.Suggest(id, hostaudit.IDs(r.Catalogue))), "--explain")
	}
	x, err := r.Explain(ctx, of)
	if err != nil {
		return err
	}
	if a.data() {
		return a.result(x, nil)
	}
	return r.PrintExplanation(x, false)
}

func (a *app) check(ctx context.Context, o checkOptions) error {
	var to kuberelease.Target
	if o.release != "" {
		var err error
		if to, err = kuberelease.Known().Target(o.release); err != nil {
			return err
		}
	}
	server, base, err := a.apiServer()
	if err != nil {
		return err
	}
	files, err := rule.Embedded(rules.FS)
	if err != nil {
		return err
	}
	tables, err := rule.Tables(files)
	if err != nil {
		return err
	}
	inputs, sets := platform.Inputs(slices.Concat(platform.Facts(), audit.Sources()))
	all, err := rule.Load(inputs, sets, rule.Only(files, rule.Needed{Platforms: audit.AllPlatforms}))
	if err != nil {
		return err
	}
	disabled, err := disabledBy(all, o.disable)
	if err != nil {
		return err
	}
	members, unasked, err := a.members(ctx, &o.etcd, func() (*cluster.Server, error) { return server, nil })
	if err != nil {
		return checkExit(ctx, err)
	}
	for _, m := range members {
		m.Within(a.patience)
	}
	s := audit.Survey{
		Server: server, Etcd: members, Unasked: unasked, Kubelets: o.kubelets,
		Tell: func(what string) { a.screen.Status("reading %s", what) },
	}
	cluster, err := s.Read(ctx)
	a.screen.Status("")
	for _, m := range members {
		m.Close()
	}
	if err != nil {
		return checkExit(ctx, err)
	}
	var findings []rule.Finding
	platforms := cluster.Platforms()
	if to.Rules != 0 {
		platforms = []string{platform.Name, kubelet.Product.Name, etcd.Product.Name}
		findings, err = cluster.As(ctx, to.Rules, all, disabled)
	} else {
		findings, err = cluster.Findings(ctx, all, tables, disabled)
	}
	if err != nil {
		return ui.Exit(ui.Interrupted, errors.New("interrupted; nothing changed"))
	}
	result := guidefindings.NewAudit(base.Host, cluster.Now.UTC(), platforms, findings)
	result.Cluster, result.Newer = true, kuberelease.Newer(cluster.Version, cluster.OpenShift)
	if to.Rules != 0 {
		result.For = &guidefindings.OtherRelease{Program: kubelet.Product.Name, Release: to.Release, Rules: to.Rules.String(), OpenShift: to.OpenShift, Here: strings.Join(cluster.KubeletVersions(), ", ")}
		if here, installed := cluster.EtcdVersions(to.Rules); installed != "" {
			result.For.Also = &guidefindings.OtherRelease{Program: etcd.Product.Name, Release: installed, Rules: installed, Here: strings.Join(here, ", ")}
		}
		a.screen.Say("control groups and huge pages can only be read on a node; run fettle check --for %s on the node", o.release)
	}
	return cliutil.Audit(a.screen, a.version, result, o.view, cmp.Or(undetermined(result), result.Gate(o.failOn)))
}

// undetermined returns an error for an audit without a passed or failed rule, because such an audit
// must not satisfy a gate.
func undetermined(a *guidefindings.Audit) error {
	if a.Counts[rule.Passed]+a.Counts[rule.Failed]+a.Counts[rule.Warned] > 0 {
		return nil
	}
	if n := a.RuleCounts[rule.Unknown]; n > 0 {
		return ui.Hinted(ui.Failed, fmt.Errorf("nothing could be determined: %s checked, all unknown", text.Count(n, "rule")+map[bool]string{true: " was", false: " were"}[n == 1]), "see each finding for what could not be read")
	}
	return ui.Exit(ui.Failed, errors.New("nothing could be determined: no rule applies to this cluster"))
}

// checkExit sets the exit code for a read-only command's error.
func checkExit(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ui.Exit(ui.Interrupted, errors.New("interrupted; nothing changed"))
	}
	return err
}

// reading wraps a verb that changes nothing. If an interruption prevents a result, it reports only
// the interruption.
func (a *app) reading(run func(context.Context, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		ctx := c.Context()
		err := run(ctx, args)
		if code := ui.Code(err); a.screen.Failed || code != ui.Failed && code != ui.Interrupted {
			return err
		}
		return checkExit(ctx, err)
	}
}

// disabledBy returns the disabled rules with the reason that their findings show.
func disabledBy(all *rule.Catalogue, words []string) (map[string]string, error) {
	out := map[string]string{}
	for _, w := range words {
		id, reason, _ := strings.Cut(w, "=")
		if all.Rule(id) == nil {
			ids := map[string]bool{}
			for _, r := range all.Rules() {
				ids[r.ID] = true
			}
			return nil, ui.Hinted(ui.Usage, fmt.Errorf("--disable: no cluster rule has the id %q%s", id, text.Suggest(id, slices.Sorted(maps.Keys(ids)))), "fettle rules list cluster openshift kubelet etcd lists all ids")
		}
		out[id] = rule.Disabled + strings.TrimSpace(reason) + " (--disable)"
	}
	return out, nil
}
