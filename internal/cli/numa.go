package cli

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/placement"
	"fettle.dev/fettle/internal/ui"
)

func numaCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "numa", Short: "Show where memory, CPUs and devices are; move processes",
		Long: `Shows the NUMA nodes of a machine: their CPUs, memory, distances and devices. Runs
processes on some nodes, or moves processes there.`,
		Args: cliutil.KnownVerb, RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(numaShowCommand(a), numaAdviseCommand(a), numaBalanceCommand(a), numaRunCommand(a))
	return c
}

func numaShowCommand(a *app) *cobra.Command {
	var details, numastat bool
	var process string
	var limit time.Duration
	c := &cobra.Command{
		Use: "show", Short: "Show NUMA nodes, free memory and misses",
		Long: `Shows each NUMA node: CPUs, memory, free memory, huge pages and distances. "missed" is
the share of a node's allocations that were intended for another node. "remote" is the
share of a node's allocations that CPUs of other nodes made. Both count since boot. The
output also lists devices with interrupts that only CPUs of other nodes serve. --process
shows the memory and CPU time of processes by node, and whether they are local. With
--numastat, all further arguments and the output are those of numastat(8).`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := a.host()
			if err != nil {
				return err
			}
			if numastat {
				return a.printNumastat(h)
			}
			if c.Flags().Changed("process") {
				return a.numaProcesses(h, process, limit, details)
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
	c.Flags().BoolVar(&numastat, "numastat", false, "print numastat's tables; options after this one are numastat's: -c -m -n -p -s -v -V -z")
	c.Flags().StringVarP(&process, "process", "p", "", "show a process by node: its number or name, a unit, a container's id or name, a libvirt guest, or a pod's UID or name")
	c.Flags().DurationVar(&limit, "read-for", 2*time.Second, "time limit of reading the memory of processes, the largest first")
	cliutil.Between(c.Flags(), "read-for", time.Millisecond, time.Hour, 2*time.Second)
	c.Flags().BoolVar(&details, "details", false, "list all devices, or with --process all processes")
	return c
}

func (a *app) numaProcesses(h *host.Host, word string, limit time.Duration, details bool) error {
	d, err := placement.ReadProcesses(h, word, os.Getpid(), limit)
	if err != nil {
		return err
	}
	if len(d.Processes) == 0 {
		err = fmt.Errorf("nothing could be determined: %s", d.Unread[0].Why)
	}
	if a.data() {
		return a.result(d, err)
	}
	d.Print(a.screen, details)
	return err
}

// foreignArguments cuts off the arguments of another program, because cobra does not know its
// options: numastat's after --numastat of numa show, and numactl's after numa run.
func foreignArguments(args []string) (ours, foreign []string) {
	at := slices.Index(args, "numa")
	if at < 0 {
		return args, nil
	}
	if c, _, err := tree("", args[at:]).Find(args[:at+1]); err != nil || c.Name() != "numa" {
		return args, nil // a word of another command: power record -- fettle numa run
	}
	if i := slices.Index(args, "--numastat"); i > at {
		return args[:i+1], args[i+1:]
	}
	if at+2 < len(args) && args[at+1] == "run" && args[at+2] != "--help" && args[at+2] != "-h" {
		return args[:at+2], args[at+2:]
	}
	return args, nil
}

func (a *app) printNumastat(h *host.Host) error {
	value, set := os.LookupEnv("NUMASTAT_WIDTH")
	width := placement.NumastatWidth(value, set, a.screen.Width > 0)
	if err := placement.Numastat(h, a.foreign, width, os.Getpid(), a.screen.Out, a.screen.Say); err != nil {
		return ui.Exit(ui.Failed, err) // the exit code of numastat
	}
	return nil
}
