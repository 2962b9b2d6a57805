package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/measure/placement"
)

func numaCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "numa", Short: "Show where memory, CPUs and devices are",
		Long: `Shows the NUMA nodes of a machine: their CPUs, memory, distances and devices.`,
		Args: cliutil.KnownVerb, RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(numaShowCommand(a))
	return c
}

func numaShowCommand(a *app) *cobra.Command {
	var details bool
	c := &cobra.Command{
		Use: "show", Short: "Show NUMA nodes, free memory and misses",
		Long: `Shows each NUMA node: CPUs, memory, free memory, huge pages and distances. "missed" is
the share of allocations on a node that were intended for another node, "remote" the
share of those for CPUs of other nodes, both since boot. Devices with interrupts that no
CPU of their own node serves are listed.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			h, err := a.host()
			if err != nil {
				return err
			}
			v := placement.Read(h)
			if len(v.Nodes) == 0 && len(v.Unknown) > 0 {
				err = fmt.Errorf("nothing could be determined: %s", v.Unknown[0])
			}
			if a.data() {
				return a.result(v, err)
			}
			v.Print(a.screen, details)
			return err
		},
	}
	c.Flags().BoolVar(&details, "details", false, "list all devices, not only those with interrupts off their node")
	return c
}
