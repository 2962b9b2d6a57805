package cli

import (
	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/fact/irq"
	"fettle.dev/fettle/internal/ui"
)

func irqCommand(a *app) *cobra.Command {
	var all bool
	show := &cobra.Command{
		Use: "show", Short: "Show which CPUs serve the interrupts of each device",
		Long: `Shows for each device which CPUs serve its interrupts, and whether they are on the
device's NUMA node. It also shows the CPUs of software queues (RPS, RFS, XPS), and the
CPUs and interrupts that irqbalance does not use: those in its configuration, or else
isolated and nohz_full CPUs. Counts are since boot.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			h, err := a.host()
			if err != nil {
				return err
			}
			r := irq.Read(h)
			if a.data() {
				return a.result(r, a.recordAgain(r.Err()))
			}
			irq.Print(a.screen, r, all)
			return a.recordAgain(r.Err())
		},
	}
	show.Flags().BoolVar(&all, "all", false, "show all devices, not only the first 12 and those that are not ok")
	return cliutil.Group("irq", "Show and plan where interrupts are served", show, irqAdviseCommand(a))
}

// recordAgain adds to an error about a copy that lacks the interrupts how to record them.
func (a *app) recordAgain(err error) error {
	if err == nil || a.root == "" {
		return err
	}
	return ui.Hinted(ui.Failed, err, "on that machine run: sudo fettle facts --archive FILE")
}
