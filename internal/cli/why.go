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
		Use: "why SETTING", Short: "Show what sets a value, and which source wins", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.why(c.Context(), args[0]) },
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
