package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/engine/why"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

func verifyCommand(a *app) *cobra.Command {
	var l tune.Listing
	var t textfile
	c := &cobra.Command{
		Use: "verify [PROFILE...]", Short: "Check that every tuned value is still in force",
		Long: `Compares every value of the active profiles, and values set separately (tune --set,
fix), with the machine. The exit code is 3 if a value is not in force. It stays 0
if the value is unsupported on this machine, overridden by an administrator's file, named
in keep.d (kept), or refused by fettle as harmful. --output foreman writes a config report
for a Foreman.`,
		Annotations: map[string]string{moreFormats: string(cliutil.OpenMetrics) + " " + foremanFormat},
		RunE: func(c *cobra.Command, args []string) error {
			return t.run(c.Context(), "verify", func() error { return a.verify(c.Context(), args, l, &t) })
		},
	}
	t.flag(c)
	c.Flags().BoolVarP(&l.All, "all", "a", false, "also list values that are in force")
	c.Flags().BoolVar(&l.Details, "details", false, "also list values that do not apply, and why")
	return c
}

func (a *app) verify(ctx context.Context, names []string, l tune.Listing, t *textfile) error {
	m, err := a.machine(ctx)
	if err != nil {
		return err
	}
	read := m.ReadState // the applied state is only in the journal
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
		which := "that was set individually"
		if len(v.Profiles) > 0 {
			which = "of " + strings.Join(v.Profiles, " ")
		}
		err = ui.Exit(ui.GateNotMet, fmt.Errorf("not every value %s is in force", which))
	}
	v.Headline = v.Summarize()
	t.metrics = func(w io.Writer) error { return tune.VerificationMetrics(w, v, m.Host.Clock.Now()) }
	switch {
	case a.data():
		return a.result(v, err)
	case a.screen.Format == cliutil.OpenMetrics:
		return errors.Join(err, t.metrics(a.screen.Out))
	case a.screen.Format == foremanFormat:
		return errors.Join(err, a.foremanReport(m.Host, v.Foreman))
	}
	tune.PrintVerification(a.screen, v, l)
	if i := slices.IndexFunc(v.Values, func(c tune.Checked) bool { return c.Verdict == plugin.Drifted || c.Verdict == plugin.Differs }); i >= 0 {
		a.printAfterDrift(v, v.Values[i].Setting, names)
	}
	return err
}

// printAfterDrift prints what to do about drifted values. s is the first of them.
func (a *app) printAfterDrift(v *tune.Verification, s setting.Setting, names []string) {
	write := []string{"tune", "--update"}
	if len(names) > 0 {
		write = append([]string{"tune"}, names...)
	}
	again := a.root == "" && len(v.Profiles) > 0
	text := "to see what sets the first value"
	switch {
	case again && v.NotInForce:
		text += ", and to apply the profile"
	case again:
		text += ", and to write the values again"
	}
	fmt.Fprintf(a.screen.Out, "\n%s:\n", text)
	ui.PrintCommand(a.screen, a.next("why", tune.SettingWords(s)))
	if again {
		ui.PrintCommand(a.screen, a.next(write...))
	}
}
