package cli

import (
	"context"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/engine/why"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

func whyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "why SETTING", Short: "Show why a setting has its value: who sets it, wins and wrote last", Args: cobra.ExactArgs(1),
		Example:           "  fettle why vm.dirty_ratio\n  fettle why /sys/block/sda/queue/scheduler",
		ValidArgsFunction: a.completeSettings,
		RunE:              func(c *cobra.Command, args []string) error { return a.why(c.Context(), args[0]) },
	}
}

func (a *app) why(ctx context.Context, name string) error {
	s, err := setting.Parse(name)
	if err != nil {
		return ui.Exit(ui.Usage, err)
	}
	m, err := a.machineAsIs(ctx)
	if err != nil {
		return err
	}
	w, missing, err := why.Explain(ctx, m, s)
	switch {
	case err != nil:
		return err
	case a.data():
		return a.result(w, missing)
	case missing == nil || !w.Empty():
		why.Print(a.screen, &w)
	}
	return missing
}
