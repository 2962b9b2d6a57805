package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/load"
	"fettle.dev/fettle/kube/load/mux"
	"fettle.dev/fettle/kube/load/plan"
	loadrun "fettle.dev/fettle/kube/load/run"
)

// loadOptions are the options of all verbs below load.
type loadOptions struct {
	stateDir string
	inFlight int
	rate     string
	keep     bool
	beyond   bool
	slo      []string
	offline  bool
	version  string
	noBrake  bool
	quota    string
	forProve bool
	margin   string
	force    bool
	// For kube-burner files.
	read   load.ReadOptions
	ignore []string
	// For mirror.
	write string
	image string
	// Metrics addresses of etcd members, and certificates to access them.
	metrics []string
	etcd    etcdAccess
}

func loadCommand(a *app) *cobra.Command {
	o := &loadOptions{}
	c := &cobra.Command{
		Use: "load", Short: "Load a cluster with many objects, measure, clean up",
		Long: `Creates the objects of a load file, and measures how the cluster handles them. A load
file is one of OpenShift's Cluster Loader or of kube-burner. Without a file fettle uses a
small built-in load. It records each object in a journal. So load resume can continue an
interrupted run, and load undo removes exactly the objects of a run.`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
		Args: cliutil.KnownVerb,
	}
	c.PersistentFlags().StringVar(&o.stateDir, "state-dir", "", "directory of the runs (default $XDG_STATE_HOME/fettle/load or ~/.local/state/fettle/load)")
	c.AddCommand(a.loadPlanCommand(o), a.loadRunCommand(o), a.loadResumeCommand(o), a.loadStatusCommand(o), a.loadUndoCommand(o), a.loadCompareCommand(o), a.loadMirrorCommand(o), a.loadHTTPCommand(o), a.loadScenarioCommand(o))
	return c
}

// drivingFlags adds the flags of load run and load resume.
func (o *loadOptions) drivingFlags(f *pflag.FlagSet) {
	f.IntVar(&o.inFlight, "in-flight", 0, text.Sprintf("maximum number of concurrent requests, 1 to %d (default from the file, or %d)", mostInFlight, loadrun.DefaultInFlight))
	f.StringVar(&o.rate, "rate", "", "maximum rate of new objects, such as 500/s or 600/min (default from the file, or no limit)")
	f.BoolVar(&o.noBrake, "no-brake", false, "turn off the brake, which stops a run when the API server rejects requests, etcd is slow or full, or nodes become NotReady")
	o.quotaFlag(f)
	f.StringArrayVar(&o.metrics, "etcd-metrics", nil, "URL of an etcd member's metrics for the brake (see --no-brake), such as http://127.0.0.1:2381, or https://10.0.0.1:2379 with --etcd-cert; repeatable (default from the cluster)")
	o.etcd.flags(f)
	f.BoolVar(&o.keep, "keep", false, "keep the objects when the run is interrupted, and ignore the file's cleanup")
	f.StringArrayVar(&o.slo, "slo", nil, "exit with 3 unless this is met: 'create p99 < 1s', 'ready p99 < 5s', 'errors < 1%', 'rate > 450/s'; repeatable")
	cliutil.Between(f, "in-flight", 1, mostInFlight, loadrun.DefaultInFlight)
	cliutil.Reads(f, "rate", "500/s", func(word string) error { _, err := engine.ParseSchedule(word); return err })
	cliutil.Reads(f, "slo", "create p99 < 1s", func(word string) error { _, err := load.ParseGate(word); return err })
	cliutil.Reads(f, "etcd-metrics", "http://127.0.0.1:2381", func(word string) error { _, err := metricsAddress(word); return err })
}

// fileFlags adds the flags of load plan and load run about reading a kube-burner file.
func (o *loadOptions) fileFlags(f *pflag.FlagSet) {
	f.StringVar(&o.read.UserData, "user-data", "", "for kube-burner files: file of variables, YAML or JSON; overrides the environment")
	f.StringArrayVar(&o.read.Set, "set", nil, "for kube-burner files: set a field, KEY=VALUE, such as jobs.0.qps=20; repeatable")
	f.BoolVar(&o.read.AllowMissing, "allow-missing", false, "for kube-burner files: leave unset variables empty")
	f.StringVar(&o.read.UUID, "uuid", "", "for kube-burner files: UUID for the templates (default a new UUID)")
	f.StringSliceVar(&o.ignore, "ignore", nil, "for kube-burner files: ignore these fields: "+strings.Join(ignorable, ", ")+"; repeatable")
	cliutil.Reads(f, "ignore", ignorable[0], func(words string) error {
		for word := range strings.SplitSeq(words, ",") {
			if !slices.Contains(ignorable, word) {
				return fmt.Errorf("want %s%s", strings.Join(ignorable, ", "), text.Suggest(word, ignorable))
			}
		}
		return nil
	})
}

// ignorable are the fields that --ignore accepts.
var ignorable = []string{"hooks", "watchers", "waitOptions", "objectWait"}

// fitting returns an error for options that do not apply to the file's format.
func (o *loadOptions) fitting(l *plan.Load) error {
	r := o.read
	if l.Format != "kube-burner" && (r.UUID != "" || r.UserData != "" || len(r.Set) > 0 || r.AllowMissing || len(o.ignore) > 0) {
		return ui.Without(fmt.Errorf("--user-data, --set, --allow-missing, --uuid and --ignore need a kube-burner configuration, but this load is %s", l.Format), "--user-data", "--set", "--allow-missing", "--uuid", "--ignore")
	}
	return nil
}

// unread returns an error for a file whose unsupported fields would change the load, unless
// --ignore names these fields.
func (o *loadOptions) unread(l *plan.Load) error {
	var first *plan.Unread
	fields := o.ignore
	for i := range l.Unread {
		u := &l.Unread[i]
		if !slices.Contains(fields, u.Field) {
			fields = append(fields, u.Field)
			first = cmp.Or(first, u)
		}
		l.Notes = append(l.Notes, u.At+": "+u.Field+" is ignored: "+u.What)
	}
	if first == nil {
		return nil
	}
	return ui.Instead(ui.Refused, fmt.Errorf("%s: %s is not supported: %s", first.At, first.Field, first.What), "use --ignore to run the load without this field", "--ignore="+strings.Join(fields, ","))
}

func (o *loadOptions) quotaFlag(f *pflag.FlagSet) {
	f.StringVar(&o.quota, "etcd-quota", "", "etcd's --quota-backend-bytes, used if etcd does not report its quota: a size such as 8GiB, or -1 for no quota (default 2GiB, 8GiB on OpenShift)")
	cliutil.Reads(f, "etcd-quota", "8GiB", func(word string) error { _, err := quotaBytes(word); return err })
}

// quotaBytes returns --etcd-quota in bytes. Like in etcd, zero means etcd's default, and negative
// values mean no quota (-1). It returns 0 without the flag.
func quotaBytes(word string) (int64, error) {
	if word == "" {
		return 0, nil
	}
	if n, err := strconv.ParseInt(word, 0, 64); err == nil && n < 0 {
		return -1, nil
	}
	quota, err := unit.ParseSize(word)
	if err != nil {
		return 0, err
	}
	if quota == 0 {
		return plan.DefaultQuota, nil
	}
	return int64(quota), nil
}

// askEtcd determines the database size and the quota of etcd: the quota from the members, or else
// from --etcd-quota.
func (o *loadOptions) askEtcd(ctx context.Context, s *cluster.Server, members []*loadrun.Member, c *plan.Cluster) error {
	given, err := quotaBytes(o.quota)
	if err != nil {
		return err
	}
	if len(members) == 0 {
		members = loadrun.Members(ctx, s)
	}
	size, quota := loadrun.Database(ctx, s, members)
	c.EtcdBytes, c.EtcdQuotaBytes, c.EtcdQuotaSource = size, quota, "etcd's own metrics"
	if quota == 0 {
		c.EtcdQuotaBytes, c.EtcdQuotaSource = given, "--etcd-quota"
	}
	return nil
}

// mostInFlight limits the concurrent requests of one process.
const mostInFlight = plan.MostInFlight

func (o *loadOptions) driving() (load.Options, error) {
	x := load.Options{InFlight: o.inFlight, NoBrake: o.noBrake}
	var err error
	if x.QuotaBytes, err = quotaBytes(o.quota); err != nil {
		return x, err
	}
	if x.Etcd, err = o.etcd.watched(o.metrics); err != nil {
		return x, err
	}
	if o.rate != "" {
		if x.Rate, err = engine.ParseSchedule(o.rate); err != nil {
			return x, err
		}
	}
	return x, nil
}

// gates returns the gates in the options and the file, or else Kubernetes' own gates with asked
// false.
func (o *loadOptions) gates(fromFile []string) (gates []*load.Gate, asked bool, err error) {
	for _, text := range append(fromFile, o.slo...) {
		g, err := load.ParseGate(text)
		if err != nil {
			return nil, false, ui.Exit(ui.Usage, fmt.Errorf("--slo: %w", err))
		}
		gates = append(gates, g)
	}
	if len(gates) == 0 {
		return load.Defaults(), false, nil
	}
	return gates, true, nil
}

// loadCluster returns the cluster for a load, with connections for inFlight concurrent requests.
func (a *app) loadCluster(o *loadOptions, inFlight int) (*load.Cluster, error) {
	config, err := a.config()
	if err != nil {
		return nil, err
	}
	s, err := a.loadStore(o)
	if err != nil {
		return nil, err
	}
	server, err := mux.Connect(config, inFlight)
	if err != nil {
		return nil, ui.Exit(ui.Usage, err)
	}
	return &load.Cluster{Server: server, Store: s}, nil
}

// loadEtcd makes the brake watch the named etcd members, or those for which certificates were
// given. It sets the quota of the others. It returns an error for an unreachable member before the
// load creates anything.
func (a *app) loadEtcd(ctx context.Context, o *loadOptions, s *cluster.Server, x *load.Options) error {
	if x.NoBrake {
		return nil
	}
	if x.QuotaBytes == 0 {
		var c plan.Cluster
		c.OpenShift, _ = s.OpenShift(ctx) // without the right to see it, the smaller catalog applies
		x.QuotaBytes, _ = c.Quota()
	}
	if len(x.Etcd) == 0 && o.etcd.given() {
		members, unasked, err := a.shown(ctx, s, &o.etcd, "--etcd-metrics")
		switch {
		case err != nil:
			return err
		case unasked != "":
			return ui.Retry(ui.Usage, errors.New(unasked), "", "--etcd-metrics=http://127.0.0.1:2381")
		}
		for _, m := range members {
			x.Etcd = append(x.Etcd, metricsOf(m, "/metrics"))
		}
	}
	for _, m := range x.Etcd {
		err := m.Check(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return ui.Retry(ui.Refused, fmt.Errorf("the brake cannot watch etcd; nothing created: %w", err), "to use the API server's etcd metrics instead, leave out --etcd-metrics and the etcd certificates; to run without the brake, use --no-brake", "--no-brake")
		}
	}
	return nil
}

func (a *app) loadStore(o *loadOptions) (loadrun.Store, error) {
	if o.stateDir != "" {
		return loadrun.Store{Dir: o.stateDir}, nil
	}
	dir, err := loadrun.Default()
	if err != nil {
		return loadrun.Store{}, ui.Exit(ui.Usage, err)
	}
	return loadrun.Store{Dir: dir}, nil
}

// runNamed returns the ID of the named run, or of the last one without arguments.
func runNamed(s loadrun.Store, args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	id, err := s.Last()
	if err == nil && id == "" {
		err = ui.Hinted(ui.Usage, fmt.Errorf("no run found in %s", s.Dir), "start one with kubectl fettle load run, or name another directory of runs with --state-dir")
	}
	return id, err
}

// loadExit sets the exit code of a load's error.
func loadExit(err error) error {
	var refused *load.Refused
	var unknown *loadrun.Unknown
	var done *ui.Error
	switch {
	case err == nil || errors.As(err, &done):
		return err
	case errors.As(err, &refused):
		return ui.Hinted(ui.Refused, err, refused.Hint)
	case errors.Is(err, loadrun.ErrBrake):
		return ui.Retry(ui.Refused, err, "wait until the cluster has recovered; see kubectl get --raw /readyz")
	case errors.Is(err, loadrun.ErrBusy):
		return ui.Retry(ui.Busy, err, "wait until that process has ended; see kubectl fettle load status")
	case errors.As(err, &unknown):
		return ui.Hinted(ui.Incomplete, err, unknown.Command()+" deletes every object with this label, including those of other clients")
	case errors.Is(err, loadrun.ErrIncomplete):
		return ui.Exit(ui.Incomplete, err)
	case errors.Is(err, plan.ErrTooLarge), errors.Is(err, plan.ErrTwice), errors.Is(err, load.ErrNothing):
		return ui.Exit(ui.Usage, err)
	case errors.Is(err, context.Canceled):
		return ui.Exit(ui.Interrupted, errors.New("interrupted"))
	}
	return err
}
