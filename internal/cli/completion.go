package cli

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/fact"
)

// Shell completions. If the machine or the journal cannot be read, they suggest nothing; the
// command itself reports the error.

func (a *app) completeProfiles(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	m, err := a.machine(c.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	sums, err := m.Loader.List()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	out := make([]string, len(sums))
	for i, s := range sums {
		out[i] = s.Name + "\t" + s.Summary
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeAfterCalendar completes calendars, then profiles, for schedule add.
func (a *app) completeAfterCalendar(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return []string{"daily", "weekly", "monthly"}, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeProfiles(c, args, typed)
}

// completeFacts completes the names of facts.
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

// completeTransactions completes the transactions that can be undone, newest first.
func (a *app) completeTransactions(c *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	m, err := a.machineAsIs(c.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	s, err := m.Engine.State()
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

// completeSettings completes the settings that fettle has changed.
func (a *app) completeSettings(c *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	m, err := a.machineAsIs(c.Context())
	if err != nil || len(given) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	s, err := m.Engine.State()
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
