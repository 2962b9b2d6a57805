package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/ui"
)

func verifyCommand(a *app) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "verify [PROFILE...]", Short: "Give a verdict for every value in force",
		Long: `Reads every value of the selection again, and those that were set one by one
beside it (tune --set, fix). Exit code 3 unless each one is in force, or it is known
why it is not to be (unsupported here, overridden by an administrator's file,
kept, refused).`,
		ValidArgsFunction: a.completeProfiles,
		RunE:              func(c *cobra.Command, args []string) error { return a.verify(c.Context(), args, all) },
	}
	c.Flags().BoolVarP(&all, "all", "a", false, "also list values that are as wanted")
	return c
}

func (a *app) verify(ctx context.Context, names []string, all bool) error {
	m, err := a.machine(ctx)
	if err != nil {
		return err
	}
	read := m.state // what is in force is in the journal alone
	if len(names) > 0 {
		read = m.stateIfReadable
	}
	s, err := read()
	if err != nil {
		return err
	}
	v, err := m.verification(ctx, s, names)
	if err != nil {
		return err
	}
	m.nameWriters(v.Values)
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

// verification verifies what is in force, or profiles as if they were.
func (m *machine) verification(ctx context.Context, s *journal.State, names []string) (*tune.Verification, error) {
	if len(names) > 0 {
		p, err := m.load(ctx, m.host.Live, names...)
		if err != nil {
			return nil, err
		}
		return m.engine.Verify(ctx, p, s)
	}
	p, _, err := m.inForce(ctx, s)
	if err != nil {
		return nil, err
	}
	v, err := m.engine.VerifyInForce(ctx, p, s)
	if err == nil && p == nil && len(v.Values) == 0 {
		err = ui.Hinted(ui.Failed, errors.New("no selection is in force, so there is nothing to verify"), "fettle tune PROFILE applies one; fettle verify PROFILE compares without applying")
	}
	return v, err
}
