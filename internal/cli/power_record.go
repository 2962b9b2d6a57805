package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/fact/power"
	"fettle.dev/fettle/internal/ui"
)

func powerRecordCommand(a *app) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "record -- COMMAND...", Short: "Show what the CPUs did, and the energy, during a command",
		Long: `Runs a command, and shows what the CPUs did meanwhile, as fettle power does. With RAPL it
also shows the energy of the processor packages and their memory, which includes the
energy that all other processes use. The command's output goes to standard error. If the
command fails, fettle exits with 1, and the report shows the exit code of the command.`,
		Annotations: map[string]string{moreFormats: string(cliutil.OpenMetrics)},
		RunE:        func(c *cobra.Command, args []string) error { return a.powerRecord(c.Context(), args, all) },
	}
	c.Flags().BoolVar(&all, "all", false, "show all CPUs, not only the 16 busiest")
	return c
}

func (a *app) powerRecord(ctx context.Context, args []string, all bool) error {
	if err := a.mustBeLive(); err != nil {
		return err
	}
	if len(args) == 0 {
		return ui.Exit(ui.Usage, errors.New("nothing to run; give a command after --"))
	}
	if _, err := exec.LookPath(args[0]); err != nil {
		return ui.Exit(ui.Usage, fmt.Errorf("cannot start the command: %w", err))
	}
	m := power.Open(a.live())
	defer m.Close()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, a.screen.Err, a.screen.Err
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	s, joules, err := m.During(cmd.Run)
	if ctx.Err() != nil {
		return errInterrupted
	}
	r := m.Report(s)
	r.SetCommand(power.Command{Args: args, ExitCode: cmd.ProcessState.ExitCode(), DurationS: s.IntervalS, EnergyJ: joules})
	if err != nil {
		err = fmt.Errorf("%s: %w", args[0], err)
	}
	return a.printPower(r, all, err)
}
