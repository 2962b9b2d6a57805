package cli

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/placement"
	"fettle.dev/fettle/internal/ui"
)

func numaAdviseCommand(a *app) *cobra.Command {
	var details bool
	var limit time.Duration
	c := &cobra.Command{
		Use: "advise [CPUS[:MB]]", Short: "Plan which processes to move to other nodes",
		Long: `Shows which processes have their memory far from their CPUs and fit better on other
nodes. For each it shows how much memory to move, and the systemd drop-in, libvirt XML,
kubelet settings or commands to copy. It watches processes with more than 300 MiB and 0.5
CPUs for 2 s. Often the answer is "leave it", with the reasons. Nothing is changed or bound.

With CPUS[:MB] it shows the nodes on which a new process of this size fits best, as
numad -w does. The second and further threads of a core count as 0.2 CPUs each.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.numaPlan(c.Context(), details, limit)
			}
			return a.numaAdvise(c.Context(), args[0])
		},
	}
	c.Flags().BoolVar(&details, "details", false, "also list the processes to keep in place, with reasons")
	c.Flags().DurationVar(&limit, "read-for", 2*time.Second, "time limit of reading the memory of processes, the largest first")
	cliutil.Between(c.Flags(), "read-for", time.Millisecond, time.Hour, 2*time.Second)
	return c
}

func (a *app) numaPlan(ctx context.Context, details bool, limit time.Duration) error {
	h, err := a.host()
	if err != nil {
		return err
	}
	if a.root == "" { // a copy has no processes to look at
		a.screen.Status("looking at the processes for %s", placement.Sample)
	}
	plan, err := placement.PlanAll(ctx, h, os.Getpid(), limit)
	a.screen.Status("")
	if errors.Is(err, placement.ErrRecorded) {
		return ui.Without(err, "--root")
	}
	if err != nil {
		return err
	}
	if a.data() {
		return a.result(plan, nil)
	}
	plan.Print(a.screen, details)
	return nil
}

func (a *app) numaAdvise(ctx context.Context, need string) error {
	mb, cpu, err := placement.ParseNeed(need)
	if err != nil {
		return &ui.Error{Code: ui.Usage, Err: err, Remedy: &ui.Remedy{Word: need, Become: []string{nearestNeed(need)}, Example: true}}
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

// nearestNeed replaces what is wrong in a need.
func nearestNeed(word string) string {
	cpus, memory, some := strings.Cut(word, ":")
	if _, _, err := placement.ParseNeed(cpus); err != nil {
		cpus = "4"
	}
	if !some {
		return cpus
	}
	if _, _, err := placement.ParseNeed("1:" + memory); err != nil {
		memory = "8GiB"
	}
	return cpus + ":" + memory
}
