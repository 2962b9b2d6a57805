package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/host"
	bench "fettle.dev/fettle/internal/measure/etcd"
	"fettle.dev/fettle/internal/text"
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
		Use: "etcd", Short: "Check whether the disk of a running etcd is fast enough",
		Long: `Measures the latency of etcd's log (fsync) and database (commit) on this machine, from
etcd's own histograms. It prints bounds of the 99th percentile, since etcd's start and
while observing it. Nothing is written without --write-prefix.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.benchEtcd(c.Context(), o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.member, "member", "", "name of the etcd member, if several run on this machine")
	f.DurationVar(&o.window, "for", 10*time.Second, "how long etcd is observed, such as 1m")
	f.StringVar(&o.prefix, "write-prefix", "", "also write keys with this prefix; they are removed afterwards")
	f.IntVar(&o.writes, "writes", 2000, "number of keys to write, one after the other")
	f.IntVar(&o.value, "value-size", 1024, "size of each value in bytes")
	cliutil.Between(f, "for", time.Second, 24*time.Hour, 10*time.Second)
	cliutil.Between(f, "writes", 1, bench.MostWrites, 2000)
	cliutil.Between(f, "value-size", 1, bench.MostValue, 1024)
	cliutil.Requires(c, "--write-prefix=bench/", "writes", "value-size")
	cliutil.Excludes(c, "write-prefix", "the time depends on --writes", "for")
	return c
}

// slicesOfEtcd is the number of samples. Each covers an equal part of the time.
const slicesOfEtcd = 5

func (a *app) benchEtcd(ctx context.Context, o benchEtcdOptions) error {
	m, err := a.machine(ctx)
	if err != nil {
		return err
	}
	member, err := bench.FindMember(ctx, m.Host, o.member)
	if err != nil {
		return err
	}
	defer member.Close()
	page := func(ctx context.Context) (bench.Page, error) { return bench.ReadPage(ctx, member) }
	if err := mayMeasure(m); err != nil {
		return err
	}
	b := bench.Bench{Clock: m.Host.Clock, Page: page, Window: o.window, Slices: slicesOfEtcd, Wait: host.Sleep}
	if o.prefix != "" {
		b.Writer = &bench.Writer{Prefix: o.prefix, Writes: o.writes, Value: o.value, Clock: m.Host.Clock, Call: member.Call}
		now, err := page(ctx)
		if err != nil {
			return err
		}
		if err := b.Writer.Check(now); err != nil {
			return bench.Unwritable(err)
		}
		if err := b.Writer.Begin(ctx); err != nil {
			return fmt.Errorf("cannot write to etcd: %w", err)
		}
		a.screen.Say("writing %s of %s below %s; they are removed afterwards", text.Count(o.writes, "key"), text.Count(o.value, "byte"), o.prefix)
	} else {
		a.screen.Say("observing etcd member %s for %s", member.Name, o.window)
	}
	k := a.keeper(m, "bench-etcd")
	b.Finished = func(r *bench.Result) error {
		r.Member = member.Name
		return k.Finished(r.Text, r)
	}
	takes := o.window
	if o.prefix != "" {
		takes = 0 // as fast as etcd writes
	}
	step, stop := a.screen.Steps(takes)
	b.Progress = func(done, all int) { step(text.Sprintf("part %d of %d", done+1, all), done, all) }
	result, err := b.Run(ctx)
	stop()
	left := "nothing was written"
	if b.Writer != nil {
		left = "the keys are removed"
		if ended := b.Writer.End(context.WithoutCancel(ctx)); ended != nil {
			return errors.Join(ui.Exit(ui.Incomplete, ended), err)
		}
	}
	verdict := ""
	if result != nil {
		result.Member, verdict = member.Name, result.Text
	}
	return finish(ctx, a, k, verdict, result, err, left, nil)
}
