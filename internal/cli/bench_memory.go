package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/experiment"
	"fettle.dev/fettle/internal/measure/memory"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

type benchMemoryOptions struct {
	size, cells string
	rounds      int
	reads       int64
	reserve     bool
}

func benchMemoryCommand(a *app) *cobra.Command {
	var o benchMemoryOptions
	var noReserve bool
	c := &cobra.Command{
		Use: "memory", Short: "Measure the effect of huge pages and NUMA nodes",
		Long: `Measures the CPU time of the first access to memory and of random reads. It compares
4 KiB pages, transparent huge pages (madvise), reserved huge pages of 2 MiB and 1 GiB,
and memory of another NUMA node. Other programs' memory is not touched. Huge pages are
reserved through the journal and released afterwards, also after Ctrl-C or kill -9.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.reserve = !noReserve
			return a.benchMemory(c.Context(), o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.size, "size", "", "size of each mapping, such as 512MiB (default 1GiB, at most a quarter of the available memory)")
	f.StringVar(&o.cells, "cells", "", "kinds of memory to measure: 4k,thp,hugetlb-2m,hugetlb-1g,4k-remote,thp-remote (default all that the machine supports)")
	f.IntVar(&o.rounds, "rounds", memory.Rounds, "number of measurements of each kind of memory (--cells)")
	f.Int64Var(&o.reads, "reads", memory.Reads, "random reads in each measurement")
	cliutil.Reads(f, "size", "512MiB", func(word string) error {
		size, err := unit.ParseSize(word)
		if err == nil && (size < 2*unit.MiB || size > unit.EiB) {
			err = cmp.Or(unit.Bare(word, 2*unit.MiB, 16*unit.GiB), errors.New("want at least 2 MiB"))
		}
		return err
	})
	cliutil.Reads(f, "cells", "4k,thp", func(word string) error { _, err := memory.ParseCells(word); return err })
	cliutil.Between(f, "rounds", 1, 10_000, memory.Rounds)
	cliutil.Between[int64](f, "reads", 1, 1<<40, memory.Reads)
	f.BoolVar(&noReserve, "no-reserve", false, "do not reserve huge pages; hugetlb is not measured")
	return c
}

// plan returns the plan of the measurement on this machine.
func (o benchMemoryOptions) plan(h *host.Host) (*memory.Plan, error) {
	asked := memory.Asked{Rounds: o.rounds, Reads: o.reads, Unreserved: !o.reserve}
	if o.size != "" {
		size, _ := unit.ParseSize(o.size) // the option has validated it
		asked.Bytes = int64(size)
	}
	if o.cells != "" {
		asked.Cells, _ = memory.ParseCells(o.cells) // the option has validated it
	}
	p, err := memory.Make(fact.Collect(h), asked)
	if errors.Is(err, memory.ErrTooLarge) {
		return nil, memory.TooLarge(err)
	}
	if errors.Is(err, memory.ErrAsked) {
		return nil, ui.Exit(ui.Usage, err)
	}
	return p, err
}

func (a *app) benchMemory(ctx context.Context, o benchMemoryOptions) error {
	m, err := a.machine(ctx)
	if err != nil {
		return err
	}
	p, err := o.plan(m.Host)
	if err != nil {
		return err
	}
	if err := mayMeasure(m); err != nil {
		return err
	}
	run, err := memory.InNewProcesses(m.Host.Exec)
	if err != nil {
		return err
	}
	k := a.keeper(m, "bench-memory")
	p.Finished = func(r *memory.Result) error { return k.Finished(r.Text, r) }
	pages, err := experiment.Reserve(ctx, m, a.watchdog(), p, a.mustBeRoot())
	if err != nil {
		return err
	}
	a.screen.Say("measuring %s of memory (--cells) %s (--rounds), %s each: about %s", text.Count(len(p.Cells), "kind"), text.Count(p.Rounds, "time"), unit.Size(p.Bytes).Human(), ui.Roughly(p.TakesS()))
	step, stop := a.screen.Steps(experiment.Seconds(p.TakesS()))
	result, err := p.Run(ctx, run, rand.Uint64N(1<<53), func(done, all int, c memory.Cell) {
		step(text.Sprintf("%d of %d: %s", done+1, all, c), done, all)
	})
	stop()
	if released := pages.Release(ctx); released != nil {
		return errors.Join(released, err)
	}
	verdict := ""
	if result != nil {
		verdict = result.Text
	}
	return finish(ctx, a, k, verdict, result, err, "machine restored", nil)
}

// measureMemoryCommand returns the hidden command for the process of one run.
func measureMemoryCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "measure-memory TASK", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			var v memory.Task
			if err := json.Unmarshal([]byte(args[0]), &v); err != nil {
				return ui.Exit(ui.Usage, err)
			}
			// If memory runs out, the kernel kills this process first. Every process may raise
			// its value (proc(5), oom_score_adj).
			if err := os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0); err != nil {
				return err
			}
			s, err := v.Measure()
			if err != nil {
				return err
			}
			return json.NewEncoder(a.screen.Out).Encode(s)
		},
	}
}
