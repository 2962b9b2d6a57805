package cli

import (
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/placement"
	"fettle.dev/fettle/internal/ui"
)

func numaRunCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "run OPTIONS COMMAND...", Short: "Run a command on some nodes, with numactl's options",
		Long: `Runs a command on CPUs and with memory of some NUMA nodes. The options are those of
numactl: -N NODES (CPUs of nodes), -C CPUS, -m NODES (memory only from), -i NODES
(interleaved), -w NODES (interleaved by weight), -p NODE (preferred),
--preferred-many NODES, -l (local), -b, -a. Options for shared memory (--shm, --file,
--touch) are refused, because they do not apply to a command.

NODES is a list (0,2-3), relative to the nodes that this process may use (+0-1), all but
some (!0), all, same, or the node of a device: netdev:eth0, block:nvme0n1, file:/var/lib,
ip:10.0.0.1, pci:3b:00.0.`,
		DisableFlagParsing: a.foreign == nil, // else foreignArguments has cut off numactl's options
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 { // --help
				return c.Help()
			}
			return a.numaRun()
		},
	}
}

// numaRun replaces fettle by the command. Like numactl, it ends with 1 if that is not possible.
func (a *app) numaRun() error {
	if err := a.mustBeLive(); err != nil {
		return err
	}
	h := host.Live()
	b, command, err := placement.ParseBinding(h, a.foreign)
	if err != nil {
		return ui.Hinted(ui.Failed, err, "for example: "+a.screen.Example)
	}
	for _, name := range b.Ignored {
		a.screen.Say("%s has no effect on a command", name)
	}
	path, err := exec.LookPath(command[0]) // the caller's own command, by the caller's PATH
	if err == nil {
		err = b.Exec(h, path, command, os.Environ())
	}
	return ui.Exit(ui.Failed, err)
}
