package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/measure/balance"
	"fettle.dev/fettle/internal/measure/placement"
	"fettle.dev/fettle/internal/ui"
)

type balanceOptions struct {
	balance.Options
	all, dryRun, yes bool
	// interval is the time between two passes; 0 means one pass. limit is the time limit of all
	// passes together; 0 means until Ctrl-C.
	interval, limit time.Duration
}

func numaBalanceCommand(a *app) *cobra.Command {
	var o balanceOptions
	c := &cobra.Command{
		Use: "balance", Short: "Move running processes to the nodes where they fit",
		Long: `Moves processes that use more than 300 MiB and half a CPU to the NUMA nodes on which they
fit best, chosen as numad does. The plan is shown first. Then fettle changes the CPUs of
the threads, and moves the memory. Processes that the kubelet, libvirt, an administrator
or their own memory policy has placed are left alone. If a process has less local memory
after its move, or waits longer for a CPU, fettle undoes the move. fettle undo restores
the CPUs and memory of all processes.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.numaBalances(c.Context(), o) },
	}
	f := c.Flags()
	f.StringArrayVarP(&o.Processes, "process", "p", nil, "consider a process: its number or name, a unit, a container's id or name, a libvirt guest, or a pod's UID or name; repeatable")
	f.BoolVar(&o.all, "all", false, "consider all processes")
	f.StringArrayVarP(&o.Exclude, "exclude", "x", nil, "leave a process alone, named as for --process; repeatable")
	f.IntVarP(&o.Utilization, "utilization", "u", placement.Utilization, "share of its memory and CPUs that a process should use, in percent")
	f.IntVarP(&o.Local, "local", "m", 90, "do not move a process with at least this share of local memory, in percent")
	f.BoolVar(&o.OnlyFree, "only-free", false, "count free memory without inactive page cache")
	f.BoolVar(&o.dryRun, "dry-run", false, "show the plan and change nothing")
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask for confirmation")
	f.DurationVarP(&o.interval, "interval", "i", 0, "repeat after this time, until Ctrl-C or the end of --for")
	f.DurationVar(&o.limit, "for", 0, "with --interval: end after this time")
	cliutil.Between(f, "interval", time.Second, 24*time.Hour, 15*time.Second)
	cliutil.Between(f, "for", time.Second, 365*24*time.Hour, time.Hour)
	cliutil.Requires(c, "--interval", "for")
	cliutil.Requires(c, "--yes", "interval")
	cliutil.Between(f, "utilization", 10, 130, placement.Utilization)
	cliutil.Between(f, "local", 50, 100, 90)
	cliutil.Exclusive(c, "process", "all")
	cliutil.Exclusive(c, "dry-run", "yes")
	cliutil.Check(c, func([]string) error {
		if !o.all && len(o.Processes) == 0 {
			more := []string{"--all", "--dry-run"}
			if c.Flags().Changed("yes") || c.Flags().Changed("interval") {
				more = more[:1]
			}
			return ui.Retry(ui.Usage, errors.New("no process is named"), "nothing changed", more...)
		}
		return nil
	})
	return a.writes(c)
}

// numaBalances makes one pass, or with an interval repeated passes. Ctrl-C ends them between two
// passes; moved processes stay where they are.
func (a *app) numaBalances(ctx context.Context, o balanceOptions) error {
	if o.interval == 0 {
		return a.numaBalance(ctx, o)
	}
	a.screen.Series = true
	if o.limit > 0 {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, o.limit)
		defer end()
	}
	for {
		err := a.numaBalance(ctx, o)
		if code := ui.Code(err); err != nil && (code == ui.Incomplete || ctx.Err() == nil && code != ui.Partial && code != ui.Busy) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(o.interval):
		}
	}
}

func (a *app) numaBalance(ctx context.Context, o balanceOptions) error {
	if err := a.mustBeLive(); err != nil {
		return err
	}
	m, err := a.machine(ctx)
	if err != nil {
		return err
	}
	state, err := m.ReadStateIfAllowed()
	if err != nil {
		return err
	}
	o.Self = os.Getpid()
	r, err := balance.Plan(ctx, m.Host, state, o.Options)
	if err != nil {
		return err
	}
	if !a.data() {
		r.Print(a.screen)
	}
	if r.Moves() == 0 || o.dryRun {
		return a.balanced(r, nil)
	}
	if err := a.mustBeRoot(); err != nil {
		return err
	}
	if !o.yes {
		if agreed, err := a.screen.Confirm(ctx, "Move these processes? fettle undo restores them."); err != nil || !agreed {
			return err
		}
	}
	if tuners, err := m.OtherTuners(ctx, balance.Writes); err != nil || len(tuners) > 0 {
		if err == nil {
			err = tune.OtherTunerInForce(tuners[0], "fettle tune PROFILE --take-over")
		}
		return err
	}
	switch err = balance.Run(ctx, m.Engine, r); {
	case ctx.Err() != nil && ui.Code(err) != ui.Incomplete:
		err = errors.Join(ui.Exit(ui.Interrupted, errors.New("interrupted; complete moves stay")), err)
	case err == nil:
		err = r.Err()
	}
	if !a.data() {
		fmt.Fprintln(a.screen.Out)
		r.PrintResults(a.screen)
	}
	return a.balanced(r, err)
}

// balanced prints the document for programs.
func (a *app) balanced(r *balance.Report, err error) error {
	if a.data() {
		return a.result(r, err)
	}
	return err
}
