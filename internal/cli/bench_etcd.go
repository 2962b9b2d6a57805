package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	bench "fettle.dev/fettle/internal/measure/etcd"
	"fettle.dev/fettle/internal/product/etcd"
	internalprometheus "fettle.dev/fettle/internal/prometheus"
	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/ui"
)

type benchEtcdOptions struct {
	member, prefix string
	window         time.Duration
	writes, value  int
}

func benchEtcdCommand(a *app) *cobra.Command {
	var o benchEtcdOptions
	c := &cobra.Command{
		Use: "etcd", Short: "Whether the disk under a running etcd is fast enough, by its own histograms",
		Long: `Reads the histograms that the etcd of this machine keeps of writing its log (fsync)
and its database (commit), and says between which of their bounds the 99th percentile
lies: since it was started, and while it is watched. Nothing is written, unless
--write-prefix says beneath which keys that may be done.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := noneEmpty(c); err != nil {
				return err
			}
			if o.prefix == "" && (c.Flags().Changed("writes") || c.Flags().Changed("value-size")) {
				return ui.Retry(ui.Usage, errors.New("--writes and --value-size want --write-prefix: without it nothing is written"), "", "--write-prefix=bench/")
			}
			if o.prefix != "" && c.Flags().Changed("for") {
				return ui.Without(errors.New("--for goes without --write-prefix: it takes as long as --writes"), "--for")
			}
			return a.benchEtcd(c.Context(), o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.member, "member", "", "which one, where several run here")
	f.DurationVar(&o.window, "for", 10*time.Second, "how long it is watched")
	f.StringVar(&o.prefix, "write-prefix", "", "also write, beneath keys that begin with this; they are removed again")
	f.IntVar(&o.writes, "writes", 2000, "how many keys are written, one after the other")
	f.IntVar(&o.value, "value-size", 1024, "size of their values in bytes")
	cliutil.Between(f, "for", time.Second, 24*time.Hour, 10*time.Second)
	cliutil.Between(f, "writes", 1, bench.MostWrites, 2000)
	cliutil.Between(f, "value-size", 1, bench.MostValue, 1024)
	return c
}

// slicesOfEtcd is in how many parts the time is cut, of which each gives a sample.
const slicesOfEtcd = 5

func (a *app) benchEtcd(ctx context.Context, o benchEtcdOptions) error {
	if err := a.mustBeLive(); err != nil {
		return err
	}
	m, err := a.machine(ctx)
	if err != nil {
		return err
	}
	member, err := m.etcdMember(ctx, o.member)
	if err != nil {
		return err
	}
	defer member.Close()
	page := func(ctx context.Context) (bench.Page, error) { return askEtcd(ctx, member) }
	if err := m.mayMeasure(); err != nil {
		return err
	}
	b := bench.Bench{Clock: m.host.Clock, Page: page, Window: o.window, Slices: slicesOfEtcd, Wait: wait}
	if o.prefix != "" {
		b.Writer = &bench.Writer{Prefix: o.prefix, Writes: o.writes, Value: o.value, Clock: m.host.Clock, Call: member.Call}
		now, err := page(ctx)
		if err != nil {
			return err
		}
		if err := b.Writer.Check(now); err != nil {
			return unwritable(err)
		}
		if err := b.Writer.Begin(ctx); err != nil {
			return fmt.Errorf("nothing can be written: %w", err)
		}
		a.screen.Say("%d keys of %d bytes are written beneath %s, and removed again", o.writes, o.value, o.prefix)
	} else {
		a.screen.Say("%s is watched for %s", member.Name, o.window)
	}
	k := m.keeper("bench-etcd", m.host.Clock.Now())
	b.Finished = func(r *bench.Result) error {
		r.Member = member.Name
		return k.finished(r.Text, r)
	}
	b.Progress = func(done, all int) { a.screen.Progress("part %d of %d", done+1, all) }
	result, err := b.Run(ctx)
	a.screen.Status("")
	left := "nothing was written"
	if b.Writer != nil {
		// Not to be interrupted: the keys go.
		left = "the keys are removed"
		if ended := b.Writer.End(context.WithoutCancel(ctx)); ended != nil {
			return errors.Join(ui.Exit(ui.Incomplete, ended), err)
		}
	}
	if result == nil {
		return errors.Join(cutShort(ctx, err, left, nil), k.nothing())
	}
	result.Member = member.Name
	recorded, r := k.record(result.Text, result), k.run
	if err != nil {
		err = cutShort(ctx, err, left, r)
	}
	err = errors.Join(err, recorded)
	if a.data() {
		return a.result(BenchResult{r}, err)
	}
	if recorded == nil {
		bench.Print(a.screen, r, result)
	}
	return err
}

// wait waits, or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// etcdMember is the one that is asked for, or the only one.
func (m *machine) etcdMember(ctx context.Context, name string) (*etcd.Member, error) {
	all, err := etcd.Members(ctx, m.host)
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	return oneOf("etcd", "no etcd is set up here: neither etcd.service nor a static pod", "--member", all, func(member *etcd.Member) string { return member.Name }, name)
}

// askEtcd asks a member for what the bench wants of its metrics.
func askEtcd(ctx context.Context, member *etcd.Member) (bench.Page, error) {
	p, err := member.Metrics(ctx)
	if err != nil {
		return bench.Page{}, fmt.Errorf("etcd does not tell its metrics: %w", err)
	}
	return etcdPage(p), nil
}

// etcdPage picks what the bench wants of a page of metrics.
func etcdPage(p internalprometheus.Metrics) bench.Page {
	size := p.Values["etcd_mvcc_db_total_size_in_bytes"]
	if size == 0 {
		size = p.Values["etcd_debugging_mvcc_db_total_size_in_bytes"] // before 3.4
	}
	return bench.Page{
		Fsync: stats.Histogram(p.Histograms["etcd_disk_wal_fsync_duration_seconds"][""]), Commit: stats.Histogram(p.Histograms["etcd_disk_backend_commit_duration_seconds"][""]),
		FsyncSumS: p.Values["etcd_disk_wal_fsync_duration_seconds_sum"], CommitSumS: p.Values["etcd_disk_backend_commit_duration_seconds_sum"],
		Leader: p.Values["etcd_server_has_leader"] == 1, LeaderChanges: p.Values["etcd_server_leader_changes_seen_total"],
		SizeBytes: size, QuotaBytes: p.Values["etcd_server_quota_backend_bytes"], Version: p.Labels["etcd_server_version"]["server_version"],
	}
}

// unwritable refuses to write into a database whose state, or the words of the call, forbid
// it: without writes the member is only watched.
func unwritable(err error) error {
	return ui.Hinted(ui.Refused, err, "etcdctl endpoint status --cluster -w table shows leader and sizes; fettle bench etcd without --write-prefix writes nothing")
}
