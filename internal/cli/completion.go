package cli

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/fact"
)

// What a shell offers when the tab key is pressed. Where the machine or the
// journal cannot be read, it offers nothing; the command itself says why.

func (a *app) completeProfiles(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	m, err := a.machine(c.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	sums, err := m.loader.List()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	out := make([]string, len(sums))
	for i, s := range sums {
		out[i] = s.Name + "\t" + s.Summary
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeAfterCalendar offers profiles behind the calendar of schedule add.
func (a *app) completeAfterCalendar(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return []string{"daily", "weekly", "monthly"}, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeProfiles(c, args, typed)
}

// completeFacts offers the names of facts.
func (a *app) completeFacts(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	h, err := a.host()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []string
	for _, it := range fact.Collect(h).List() {
		if strings.HasPrefix(it.Name, typed) {
			out = append(out, it.Name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeTransactions offers the transactions that undo can take back, the
// newest first, and what each was.
func (a *app) completeTransactions(c *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	m, err := a.machineAsIs(c.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	s, err := m.engine.State()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []string
	for _, t := range slices.Backward(s.Live()) {
		if id := strconv.Itoa(t.ID); !slices.Contains(given, id) {
			out = append(out, id+"\t"+t.Reason)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completeSettings offers the settings that fettle has changed: who asks why is
// most often about one of them.
func (a *app) completeSettings(c *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	m, err := a.machineAsIs(c.Context())
	if err != nil || len(given) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	s, err := m.engine.State()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []string
	for place := range s.Chains() {
		out = append(out, tune.SettingWords(place))
	}
	slices.Sort(out)
	return out, cobra.ShellCompDirectiveDefault // files too: /sys/...
}
