package cli

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/cliutil/loadcli"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/fact/irq"
	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/measure/experiment"
	"fettle.dev/fettle/internal/measure/network"
	"fettle.dev/fettle/internal/requests/logs"
)

// completions returns completions for the arguments and flags that have a finite set of
// values. Flags that accept a few fixed words complete themselves.
func (a *app) completions() map[string]cobra.CompletionFunc {
	ids := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return a.completeIDs(), cobra.ShellCompDirectiveNoFileComp
	}
	idsOrFiles := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return a.completeIDs(), cobra.ShellCompDirectiveDefault
	}
	fixable := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return a.completeRules(), cobra.ShellCompDirectiveNoFileComp
	}
	platforms := append(audit.Platforms(), "foreman")
	formats := cliutil.Fixed(logformat.Names()...)
	return map[string]cobra.CompletionFunc{
		"check":                        cliutil.Fixed(platforms...),
		"check --explain":              ids,
		"diff":                         a.completeProfiles,
		"eject":                        a.completeProfiles,
		"facts":                        a.completeFacts,
		"fix":                          fixable,
		"fix --platform":               cliutil.ListOf(platforms...),
		"irq advise":                   a.completeInterruptDevices,
		"show":                         a.completeProfiles,
		"tune":                         a.completeProfiles,
		"verify":                       a.completeProfiles,
		"why":                          a.completeSettings,
		"undo":                         a.completeTransactions,
		"rules list":                   cliutil.Fixed(platforms...),
		"rules lint":                   idsOrFiles,
		"rules test":                   idsOrFiles,
		"rules show":                   ids,
		"schema":                       cliutil.Fixed(documentKinds()...),
		"schedule add":                 a.completeAfterCalendar,
		"schedule remove":              a.completeSchedule,
		"prove --profile":              a.completeProfiles,
		"prove --resume":               a.completeRuns,
		"prove --bench":                cliutil.Fixed("disk:", "memory:", "postgres:", "etcd:"),
		"search --resume":              a.completeRuns,
		"search --bench":               cliutil.Fixed("disk:", "memory:", "postgres:", "etcd:"),
		"search --metric":              cliutil.Fixed("time", "cpu-time", "max-memory", "energy"),
		"search --space":               cliutil.Fixed(experiment.SpaceNames()...),
		"prove --metric":               cliutil.Fixed("time", "cpu-time", "max-memory", "energy"),
		"bench memory --cells":         cliutil.ListOf("4k", "thp", "hugetlb-2m", "hugetlb-1g", "4k-remote", "thp-remote"),
		"bench network --cells":        cliutil.ListOf(networkCells()...),
		"runs show":                    a.completeRuns,
		"runs compare":                 a.completeRuns,
		"runs export":                  a.completeRuns,
		"logs --by":                    cliutil.ListOf(logs.Dimensions()...),
		"logs compare --by":            cliutil.ListOf(logs.Dimensions()...),
		"load http --method":           cliutil.Fixed(loadcli.Methods...),
		"load http --observe":          cliutil.Fixed("local", "ssh:"),
		"load http --replay-method":    cliutil.Fixed(loadcli.Methods...),
		"load http --replay-format":    formats,
		"check --for":                  completeReleases,
		"logs --format":                formats,
		"logs compare --format":        formats,
		"logs export --format":         formats,
		"logs puppet-reports --format": formats,
		"prove --log-format":           formats,
	}
}

// networkCells returns the names of the measurements that bench network makes by default.
func networkCells() []string {
	var names []string
	for _, c := range network.Cells() {
		names = append(names, c.Name())
	}
	return names
}

// Shell completions. They suggest nothing if the machine or the journal cannot be read; the
// command itself reports the error.

// completeReleases reads the table of releases only for a completion. Every command makes the map
// above, so the map must not read it.
func completeReleases(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	return cliutil.Fixed(kuberelease.Known().Targets()...)(c, args, typed)
}

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

// completeTransactions completes the transactions that undo can revert, newest first.
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

// completeSettings completes the settings that fettle has changed. Sysctls are completed one
// part of the name at a time.
func (a *app) completeSettings(c *cobra.Command, given []string, typed string) ([]string, cobra.ShellCompDirective) {
	m, err := a.machineAsIs(c.Context())
	if err != nil || len(given) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	if s, err := m.Engine.State(); err == nil {
		for place := range s.Chains() {
			out = append(out, tune.SettingWords(place))
		}
	}
	if strings.HasPrefix(typed, "/") {
		return out, cobra.ShellCompDirectiveDefault // files: /sys/...
	}
	directive := cobra.ShellCompDirectiveNoFileComp
	above := typed[:strings.LastIndex(typed, ".")+1]
	entries, err := m.Host.Files.ReadDir("/proc/sys/" + strings.ReplaceAll(above, ".", "/"))
	if err != nil {
		return out, directive
	}
	for _, e := range entries {
		name := above + e.Name()
		if e.IsDir() {
			name += "."
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		if strings.HasPrefix(name, typed) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), directive
}

// completeRuns completes the IDs of runs, newest first, and then files.
func (a *app) completeRuns(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	m, err := a.machineAsIs(c.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	store := experiment.Store(m)
	names, _ := store.Unfinished()
	runs, _ := store.All()
	for _, r := range slices.Backward(runs) {
		names = append(names, r.ID+"\t"+r.Command)
	}
	return names, cobra.ShellCompDirectiveKeepOrder
}

// completeSchedule completes the line numbers of the schedule's entries.
func (a *app) completeSchedule(c *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	h, err := a.host()
	file, _ := c.Flags().GetString("file")
	if err != nil || len(given) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	_, entries, err := readSchedule(h, file)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []string
	for _, e := range entries {
		out = append(out, strconv.Itoa(e.Line)+"\t"+e.String())
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) completeInterruptDevices(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	h, err := a.host()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return irq.Read(h).Names(), cobra.ShellCompDirectiveNoFileComp
}
