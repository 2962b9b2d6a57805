package cli

import (
	"context"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/placement"
	"fettle.dev/fettle/internal/ui"
)

func numaAdviseCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "advise CPUS[:MB]", Short: "Show which nodes have room for a new process",
		Long: `Shows on which NUMA nodes a process that needs so many CPUs, and so much memory, fits
best. It is the answer of numad -w: memory that is free or inactive page cache, and CPU
time that is idle for 2 s, weighed with the distances of the nodes. A further thread of a
core counts as 0.2 CPUs. Nothing is changed or bound.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.numaAdvise(c.Context(), args[0]) },
	}
}

func (a *app) numaAdvise(ctx context.Context, need string) error {
	mb, cpu, err := placement.ParseNeed(need)
	if err != nil {
		return ui.Exit(ui.Usage, err)
	}
	if err := a.mustBeLive(); err != nil {
		return err
	}
	advice, err := placement.Advise(ctx, host.Live(), mb, cpu)
	if err != nil {
		return err
	}
	if a.data() {
		return a.result(advice, nil)
	}
	advice.Print(a.screen)
	return nil
}
