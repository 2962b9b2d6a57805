package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/fact"
	guidefindings "fettle.dev/fettle/internal/guide/findings"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/platform/linux"
	"fettle.dev/fettle/internal/guide/platform/openshift"
	"fettle.dev/fettle/internal/guide/platform/puppet"
	"fettle.dev/fettle/internal/guide/platform/satellite"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/measured"
	components "fettle.dev/fettle/internal/product/table"
	"fettle.dev/fettle/internal/setting"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
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
}

func checkCommand(a *app) *cobra.Command {
	var o checkOptions
	c := &cobra.Command{
		Use: "check [PLATFORM...]", Short: "Audit a machine, and find out why it is slow",
		Long: `Checks the rules of the given platforms, or of all platforms found on this machine, and
changes nothing. A rule whose inputs cannot be read is unknown, never passed. Further
formats of --output: html (one page), sarif (2.1.0) and openmetrics (for the textfile
collector of node_exporter).

With --probe it also runs the configuration checks of nginx, httpd and HAProxy (nginx -T,
httpd -t -D DUMP_CONFIG, haproxy -c). They create files and run Lua that a configuration
names, so each runs as the service's user, for at most 20 s, on a read-only machine
without network; whatever it creates is removed. With --url it sends a Puppet Server about
fifteen GET requests that it should refuse.

Without PLATFORM it first measures for two seconds why this machine is slow, and which
programs make others wait: see --sample.`,
		Annotations: map[string]string{moreFormats: cliutil.AuditFormats},
		RunE: func(c *cobra.Command, args []string) error {
			o.sample.given = c.Flags().Changed("sample")
			return a.check(c.Context(), args, o)
		},
	}
	f := c.Flags()
	f.BoolVarP(&o.view.All, "all", "a", false, "also list passed and not applicable rules, and reminders")
	f.BoolVar(&o.view.Details, "details", false, "show reason, fix and sources of each finding, and what could not be determined")
	f.StringVar(&o.failOn, "fail-on", "", "exit with 3 on a finding of this state or worse: fail, warn or unknown")
	f.StringVar(&o.baseline, "baseline", "", "compare with an earlier audit (check --output json), fact archive or sosreport of this machine: only new and worse findings count")
	f.StringVar(&o.explain, "explain", "", "explain one rule by its ID: here, wanted, why, fix, source")
	f.BoolVar(&o.ruleText, "rule", false, "with --explain also the text of the rule, its evidence and tables")
	f.StringSliceVar(&o.on, "on", nil, "audit other hosts with the fettle installed there: ssh:HOST,ssh:USER@HOST")
	f.StringVar(&o.logs, "logs", "tail", "how much of each log is read: tail (the last 16 MiB) or all")
	f.StringVar(&o.release, "for", "", "check what an upgrade of the kubelet or etcd to this release breaks: Kubernetes 1.37, OpenShift 4.20, etcd 3.7")
	o.probe.flags(f)
	o.probe.rules(c)
	o.sample.flag(f)
	cliutil.Requires(c, "--explain", "rule")
	cliutil.Excludes(c, "on", "the other hosts do not have that", "root", "baseline", "explain", "probe", "for")
	cliutil.OneOf(f, "fail-on", "fail", "warn", "unknown")
	cliutil.OneOf(f, "logs", "tail", "all")
	cliutil.Reads(f, "on", "ssh:web1.example", sshHosts(false))
	return c
}

// sources returns the sources of rule inputs.
func sources() []platform.Source {
	all := slices.Concat(platform.Facts(), linux.Sources(), []platform.Source{satellite.Source(), puppet.Source(), puppet.FrontSource(), openshift.Source(), platform.ClusterSource(), measured.Source()})
	for _, p := range components.All {
		all = append(all, platform.Product(p))
	}
	return all
}

// products returns the names of all products.
func products() []string {
	var names []string
	for _, p := range components.All {
		names = append(names, p.Name)
	}
	return names
}

func platformNames() []string {
	var names []string
	for _, p := range platform.All {
		names = append(names, p.Name)
	}
	return append(names, products()...)
}

// otherNames maps names of platforms that people type to ours.
var otherNames = map[string]string{"foreman": "satellite"}

// knownPlatforms returns platforms by their own names. It returns an error for an unknown one.
func knownPlatforms(names []string) (known []string, err error) {
	for _, n := range names {
		n = cmp.Or(otherNames[n], n)
		if all := platformNames(); !slices.Contains(all, n) {
			return nil, unknownPlatform(n, all)
		}
		known = append(known, n)
	}
	return known, nil
}

// unknownPlatform returns the error for an unknown platform. It suggests a platform with a
// similar name, or the platform to which the product belongs.
func unknownPlatform(name string, all []string) error {
	err := fmt.Errorf("unknown platform %q%s; platforms are %s", name, internaltext.Suggest(name, all), strings.Join(all, ", "))
	return ui.OtherWord(err, name, cmp.Or(partOf[strings.ToLower(name)], internaltext.Nearest(name, all), "linux"))
}

// partOf maps products whose rules belong to a platform with another name to that platform.
var partOf = map[string]string{
	"katello": "satellite", "pulp": "satellite", "candlepin": "satellite", "capsule": "satellite", "foreman-proxy": "satellite", "smart-proxy": "satellite", "dynflow": "satellite", "qpid": "satellite", "qdrouterd": "satellite",
	"k8s": "kubernetes-node", "kubernetes": "kubernetes-node", "node": "kubernetes-node", "kube-apiserver": "cluster",
	"apache": "httpd", "apache2": "httpd", "postgres": "postgresql", "pgsql": "postgresql", "kernel": "linux", "rhel": "linux", "ocp": "openshift", "haproxy": "router",
}

// aliases returns other names of a platform.
func aliases(platform string) (out []string) {
	for name, of := range otherNames {
		if of == platform {
			out = append(out, name)
		}
	}
	return out
}

// partsOf returns the products that partOf maps to a platform.
func partsOf(platform string) (out []string) {
	for name, of := range partOf {
		if of == platform {
			out = append(out, name)
		}
	}
	return out
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

func (a *app) check(ctx context.Context, names []string, o checkOptions) error {
	names, err := knownPlatforms(names)
	if err != nil {
		return err
	}
	names = distinct(names)
	to, err := forRelease(o.release, &names)
	if err != nil {
		return err
	}
	if len(o.on) > 0 {
		return a.checkOn(ctx, names, o)
	}
	asked := slices.Clone(names)
	var old *baseline
	if o.baseline != "" {
		if old, err = a.readBaseline(o.baseline); err != nil {
			return err
		}
	}
	defer endWith(ctx)()
	h, err := a.host()
	if err != nil {
		return err
	}
	own, err := administratorsRules(h, a.screen.Say)
	if err != nil {
		return err
	}
	subject := a.subject(ctx, h, table.Kinds(h))
	if to != nil {
		to.from(subject)
		subject = a.subjectOf(ctx, h, table.Kinds(h), to.sources())
	}
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
	var c *rule.Catalogue
	if len(own) > 0 || o.explain != "" { // an error in them is reported before the audit
		if c, err = catalogueOf(own, nil); err != nil {
			return err
		}
	}
	if o.explain != "" {
		return a.explain(ctx, c, subject, o)
	}
	diagnosis, err := a.diagnose(ctx, h, asked, o)
	if err != nil {
		return err
	}
	var undecided []rule.Finding
	if len(names) == 0 {
		var unknown map[string]string
		names, unknown = subject.Of(products())
		if !subject.HasMachine() {
			// Only rules about documents apply.
			names, unknown = slices.DeleteFunc(names, func(p string) bool { return p != "openshift" }), nil
			if len(names) == 0 {
				return noMachine(a.root)
			}
			a.screen.Say("%s has documents of a cluster and no machine: only their rules are checked (fettle check linux --root %s checks the others)", a.root, a.root)
		}
		undecided = platform.Undetermined(unknown)
	}
	if c == nil {
		if c, err = catalogueOf(nil, names); err != nil {
			return err
		}
	}
	name := hostname(h)
	findings := append(to.only(c).Check(ctx, subject, names, c.Disabled()), undecided...)
	if err := ctx.Err(); err != nil {
		return err
	}
	audit := guidefindings.NewAudit(cmp.Or(name, h.Name), h.Clock.Now().UTC(), names, findings)
	audit.Hostname, audit.For, audit.Slow = name, to.audit(), diagnosis
	audit.FileSystems, _ = fact.FileSystems(subject.Host) // if unknown, no later audit can compare them
	a.sayCutLogs(subject, "--logs all")
	a.sayDisabled(audit.Findings)
	audit.Root, audit.Copied, audit.From = directoryOf(a.root), a.root != "", a.root
	for i := range audit.Findings {
		audit.Findings[i].Ask = askFor(&audit.Findings[i], h.Live, os.Geteuid() == 0)
	}
	if old != nil {
		was, err := old.auditWith(ctx, a, c, names, asked)
		if err == nil {
			err = a.against(audit, o.baseline, was)
		}
		if err != nil {
			return err
		}
	}
	if to != nil {
		asked = to.platforms
		if a.screen.Format != ui.Table {
			a.screen.Say("with %s", audit.For.Words())
		}
	}
	absent := subject.Absent(asked, products())
	for _, p := range absent {
		a.screen.Say("%s not found; checking its rules anyway", p)
	}
	return cliutil.Audit(a.screen, a.version, audit, o.view, cmp.Or(undetermined(audit, absent), audit.Gate(o.failOn), o.gateSample(diagnosis), allUnknown(audit)))
}

// hasCommand matches reasons that already name the command for an unknown fact.
var hasCommand = internaltext.LazyRegexp(`\b(fettle|oc|kubectl) [a-z]`)

// askFor returns the command that determines an unknown finding: a copy may lack data of the
// machine, and an unprivileged user may not read all of it.
func askFor(f *rule.Finding, live, root bool) string {
	switch {
	case f.State != rule.Unknown || hasCommand().MatchString(f.Reason) || live && root:
		return ""
	case f.Rule == nil || f.Rule.ID == "": // of the platform, not of a rule
		return "sudo fettle check"
	}
	return "sudo fettle check --explain " + f.ID
}

// noMachine returns the error for a directory that does not contain a machine.
func noMachine(root string) error {
	way := "fettle facts --archive FILE on the machine makes one that fettle check --root FILE reads"
	if dir := filepath.Clean(root); slices.Contains([]string{"etc", "proc", "sys", "usr", "var"}, filepath.Base(dir)) {
		way = "--root takes the directory above it: fettle check --root " + filepath.Dir(dir)
	}
	return ui.Hinted(ui.Failed, fmt.Errorf("nothing could be determined: %s has neither /proc, /sys or /etc of a machine nor documents of a cluster", root), way)
}

// undetermined returns an error if no rule applied in an audit. Then no gate is met.
func undetermined(a *guidefindings.Audit, absent []string) error {
	if slices.ContainsFunc(a.Findings, func(f rule.Finding) bool { return f.State != rule.NotApplicable && f.State != rule.Reminded }) {
		return nil
	}
	if len(absent) == 0 {
		return ui.Exit(ui.Failed, errors.New("nothing could be determined: no rule applies"))
	}
	return ui.Hinted(ui.Failed, fmt.Errorf("nothing could be determined: %s not found", strings.Join(absent, " and ")), "fettle check without a platform checks what is installed")
}

// allUnknown returns an error if every finding of an audit is unknown.
func allUnknown(a *guidefindings.Audit) error {
	decided := func(f rule.Finding) bool {
		return f.State == rule.Passed || f.State == rule.Warned || f.State == rule.Failed
	}
	if slices.ContainsFunc(a.Findings, decided) {
		return nil
	}
	if a.Copied {
		return ui.Hinted(ui.Failed, errors.New("nothing could be determined: the copy lacks the data that the rules need"), "fettle facts --archive FILE on the machine records it, and fettle check --root FILE reads that")
	}
	return ui.Hinted(ui.Failed, errors.New("nothing could be determined: each finding is unknown"), "run it as root: sudo fettle check")
}

// subject returns the rules' view of the machine, including what fettle has in force.
func (a *app) subject(ctx context.Context, h *host.Host, kinds setting.Kinds) *platform.Subject {
	return a.subjectOf(ctx, h, kinds, sources())
}

func (a *app) subjectOf(ctx context.Context, h *host.Host, kinds setting.Kinds, sources []platform.Source) *platform.Subject {
	s := platform.NewSubject(ctx, h, kinds, sources)
	s.Planned = func(ctx context.Context, profiles []string) ([]string, error) {
		return a.planned(ctx, h, profiles)
	}
	if a.root == "" {
		s.RunsDir = filepath.Join(a.state(), "runs")
		s.InForce = func() ([]string, error) { return a.profilesInForce(h) }
	}
	return s
}

// planned returns the kernel files that the profiles would change on a machine.
func (a *app) planned(ctx context.Context, h *host.Host, profiles []string) ([]string, error) {
	m, err := a.machineOn(ctx, h, func(error) error { return nil })
	if err != nil {
		return nil, err
	}
	p, err := m.Load(ctx, false, profiles...)
	if err != nil {
		return nil, err
	}
	plan, err := m.Engine.PlanProfile(ctx, p, &journal.State{})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, s := range plan.Writing() {
		out = append(out, m.Kinds.KernelFiles(s)...)
	}
	return out, nil
}

// sayCutLogs reports which parts of logs were not read, and a command that reads them.
func (a *app) sayCutLogs(m *platform.Subject, call string) {
	for _, file := range slices.Sorted(maps.Keys(m.Unread)) {
		a.sayOnce(fmt.Sprintf("%s: the first %s are not read, only the last %d MiB (%s reads them)", file, unit.Size(m.Unread[file]).Human(), m.LogBytes>>20, call))
	}
}

// sayDisabled reports the rules that a copy disables, because the copy may be hostile.
func (a *app) sayDisabled(findings []rule.Finding) {
	for _, f := range findings {
		if f.DisabledByCopy() {
			a.sayOnce(f.ID + " is " + f.Reason)
		}
	}
}

// profilesInForce returns the selection in the journal, or none if there is no journal.
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
		return nil, errors.New("the journal belongs to root: what fettle has in force is not known here")
	case err != nil:
		return nil, err
	}
	sel, err := tune.SelectionOf(state.InForce())
	if err != nil || sel == nil {
		return nil, err
	}
	return tune.WithPostLoaded(sel.Profiles, sel.PostLoaded), nil
}

// directoryOf returns the absolute path of --root if it is a directory, or "".
func directoryOf(root string) string {
	if st, err := os.Stat(root); root == "" || err != nil || !st.IsDir() {
		return ""
	}
	full, err := filepath.Abs(root)
	if err != nil {
		return root
	}
	return full
}
