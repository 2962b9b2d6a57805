package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/engine/why"
	"fettle.dev/fettle/internal/ui"
)

func verifyCommand(a *app) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "verify [PROFILE...]", Short: "Check that every tuned value is still in force",
		Long: `Reads every value of the selection again, and those that were set separately (tune --set,
fix). The exit code is 3 unless each value is in force, or there is a reason why it is not:
unsupported here, overridden by an administrator's file, kept, refused.`,
		RunE: func(c *cobra.Command, args []string) error { return a.verify(c.Context(), args, all) },
	}
	c.Flags().BoolVarP(&all, "all", "a", false, "also list values that do not change")
	return c
}

func (a *app) verify(ctx context.Context, names []string, all bool) error {
	m, err := a.machine(ctx)
	if err != nil {
		return err
	}
	read := m.ReadState // only the journal records what is in force
	if len(names) > 0 {
		read = m.ReadStateIfAllowed
	}
	s, err := read()
	if err != nil {
		return err
	}
	v, err := m.VerifyNamed(ctx, s, names)
	if err != nil {
		return err
	}
	why.NameWriters(m, v.Values)
	for _, pr := range v.Problems {
		a.screen.Say("%s", pr)
	}
	if !v.Met {
		err = ui.Exit(ui.GateNotMet, fmt.Errorf("not every value of %s is in force", cmp.Or(strings.Join(v.Profiles, " "), "those set one by one")))
	}
	if a.data() {
		return a.result(v, err)
	}
	tune.PrintVerification(a.screen, v, all)
	return err
}
