package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/engine/tune"
	guidefindings "fettle.dev/fettle/internal/guide/findings"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

type checkOptions struct {
	view     guidefindings.View
	failOn   string
	baseline string
	explain  string
	ruleText bool // --rule
	on       []string
	logs     string
	release  string // --for
	probe    probeOptions
	sample   sampleOptions
	textfile textfile
}

func checkCommand(a *app) *cobra.Command {
	var o checkOptions
	c := &cobra.Command{
		Use: "check [PLATFORM...]", Short: "Audit a machine, and find out why it is slow",
		Long: `Checks the rules of the given platforms, or of all platforms found on this machine, and
changes nothing. A rule is unknown, not passed, if its inputs cannot be read. Further
formats of --output: html (one page), sarif (2.1.0), openmetrics (for the textfile
collector of node_exporter) and foreman (a config report).

With --probe it also runs the configuration checks of nginx, httpd and HAProxy (nginx
-T, httpd -t -D DUMP_CONFIG, haproxy -c). These programs can create files and run Lua.
So each runs as the service's user for at most 20 s, without network, in a read-only
sandbox. Files that it creates are removed. With --url, --probe also sends a Puppet
Server about fifteen GET requests that the server must refuse.

Without PLATFORM it first measures for two seconds why this machine is slow, and which
programs make others wait (see --sample).`,
		Annotations: map[string]string{moreFormats: cliutil.AuditFormats + " " + foremanFormat},
		RunE: func(c *cobra.Command, args []string) error {
			o.sample.given = c.Flags().Changed("sample")
			return o.textfile.run(c.Context(), "check", func() error { return a.check(c.Context(), args, &o) })
		},
	}
	f := c.Flags()
	f.BoolVarP(&o.view.All, "all", "a", false, "also list passed and not applicable rules, and reminders")
	f.BoolVar(&o.view.Details, "details", false, "show reason, fix and sources of each finding, and what could not be determined")
	f.StringVar(&o.failOn, "fail-on", "", "exit with 3 on a finding of this state or worse: fail, warn or unknown")
	f.StringVar(&o.baseline, "baseline", "", "compare with the earlier audit in `FILE` (check --output json), fact archive or sosreport of this machine: only new and worse findings count")
	f.StringVar(&o.explain, "explain", "", "explain the rule with this `ID`: measured and required value, reason, fix, source")
	f.BoolVar(&o.ruleText, "rule", false, "with --explain: also show the text of the rule, its evidence and tables")
	f.StringSliceVar(&o.on, "on", nil, "audit other hosts with the fettle installed there: ssh:HOST,ssh:USER@HOST")
	f.StringVar(&o.logs, "logs", "tail", "how much of each log is read: tail (the last 16 MiB) or all")
	f.StringVar(&o.release, "for", "", "check what an upgrade of the kubelet or etcd to this release breaks: Kubernetes 1.37, OpenShift 4.20, etcd 3.7")
	o.probe.flags(f)
	o.probe.rules(c)
	o.sample.flag(f)
	o.textfile.flag(c)
	cliutil.Requires(c, "--explain", "rule")
	cliutil.Excludes(c, "on", "--on runs only the basic check on the other hosts", "root", "baseline", "explain", "probe", "for", "textfile")
	cliutil.Exclusive(c, "explain", "textfile")
	cliutil.OneOf(f, "fail-on", "fail", "warn", "unknown")
	cliutil.OneOf(f, "logs", "tail", "all")
	cliutil.Reads(f, "on", "ssh:web1.example", sshHosts(false))
	cliutil.Reads(f, "explain", "S06", func(string) error { return nil })
	return c
}

// distinct returns words without repetitions.
func distinct(words []string) []string {
	var out []string
	for _, w := range words {
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

func (a *app) check(ctx context.Context, names []string, o *checkOptions) error {
	if err := a.notRules(names); err != nil {
		return err
	}
	names, err := audit.Known(names)
	if err != nil {
		return err
	}
	names = distinct(names)
	to, err := audit.ForRelease(o.release, &names)
	if err != nil {
		return err
	}
	if len(o.on) > 0 {
		return a.checkOn(ctx, names, *o)
	}
	asked := slices.Clone(names)
	var old *baseline
	if o.baseline != "" {
		if old, err = a.readBaseline(o.baseline); err != nil {
			return err
		}
	}
	// Collecting garbage half as often saves 8 % of the CPU time and needs 2 MB more.
	defer debug.SetGCPercent(debug.SetGCPercent(200))
	defer cliutil.EndWith(ctx)()
	h, err := a.host()
	if err != nil {
		return err
	}
	own, err := a.ownRules(h)
	if err != nil {
		return err
	}
	subject := a.subject(ctx, h, table.Kinds(h), to)
	if o.logs == "all" {
		subject.LogBytes = 0
	}
	if old != nil {
		subject.Earlier = old.earlier()
	}
	if o.probe.asked {
		if err = a.probe(ctx, h, o.probe, subject); err != nil {
			return err
		}
	}
	r := audit.Request{Screen: a.screen, Subject: subject, Root: a.root, Platforms: names, Upgrade: to, WholeLogs: "--logs all", Own: own}
	if o.explain != "" {
		r.Catalogue, err = audit.CatalogueWith(own, []string{o.explain})
	} else if len(own) > 0 { // report mistakes in these before the audit
		_, err = audit.CatalogueOf(own, &rule.Needed{})
	}
	if err != nil {
		return err
	}
	if o.explain != "" {
		return a.explain(ctx, &r, *o)
	}
	if r.Slow, err = a.diagnose(ctx, h, asked, *o); err != nil {
		return err
	}
	result, err := r.Run(ctx)
	if err != nil {
		return err
	}
	if old != nil {
		was, err := old.auditWith(ctx, a, &r, asked)
		if err == nil {
			err = a.against(result, o.baseline, was)
		}
		if err != nil {
			return err
		}
	}
	o.textfile.metrics = func(w io.Writer) error { return guidefindings.OpenMetrics(w, result) }
	gate := r.Gate(result, o.failOn, o.gateSample(r.Slow))
	if a.screen.Format == foremanFormat {
		result.Conclude()
		return errors.Join(gate, a.foremanReport(h, func(r *ui.ForemanReport) { guidefindings.Foreman(r, result) }))
	}
	return cliutil.Audit(a.screen, a.version, result, o.view, gate)
}

// subject returns the machine as rules see it, including the settings that fettle has in force.
func (a *app) subject(ctx context.Context, h *host.Host, kinds setting.Kinds, to *audit.Upgrade) *platform.Subject {
	s := audit.Subject(ctx, h, kinds, to, func() (*tune.Machine, error) {
		return a.machineOn(ctx, h, func(error) error { return nil })
	})
	if a.root == "" {
		s.RunsDir = filepath.Join(a.state(), "runs")
		s.InForce = func() ([]string, error) { return a.profilesInForce(h) }
	}
	return s
}

// profilesInForce returns the selected profiles in the journal, or none without a journal.
func (a *app) profilesInForce(h *host.Host) ([]string, error) {
	dir := a.state()
	boot, err := h.BootID()
	if err != nil {
		return nil, err
	}
	state, err := journal.Read(dir, boot)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, fs.ErrPermission):
		return nil, errors.New("only root can read the journal, so the values that fettle set are unknown")
	case err != nil:
		return nil, err
	}
	sel, err := tune.SelectionOf(state.InForce())
	if err != nil || sel == nil {
		return nil, err
	}
	return tune.WithPostLoaded(sel.Profiles, sel.PostLoaded), nil
}
