package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/component/kubelet"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/platform"
	"fettle.dev/fettle/internal/platform/linux"
	"fettle.dev/fettle/internal/platform/puppet"
	"fettle.dev/fettle/internal/platform/satellite"
	"fettle.dev/fettle/internal/plugin/table"
	"fettle.dev/fettle/internal/report"
	"fettle.dev/fettle/internal/rule"
	"fettle.dev/fettle/internal/spell"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/rules"
)

// ownRules are an administrator's.
const ownRules = "/etc/fettle/rules.d"

type checkOptions struct {
	all    bool
	failOn string
}

func checkCommand(a *app) *cobra.Command {
	var o checkOptions
	c := &cobra.Command{
		Use: "check [PLATFORM...]", Short: "Audit a machine with the rules of the field, each with its source",
		Long: `Asks the rules of the platforms, or of all that this machine is, and writes
nothing. What cannot be read is unknown, and never passed.`,
		ValidArgs: platformNames(),
		RunE:      func(c *cobra.Command, args []string) error { return a.check(c.Context(), args, o) },
	}
	f := c.Flags()
	f.BoolVarP(&o.all, "all", "a", false, "also list what has passed, is not applicable, or is a reminder")
	f.StringVar(&o.failOn, "fail-on", "", "exit with 3 if there is a finding of this state or a worse one: fail, warn or unknown")
	_ = c.RegisterFlagCompletionFunc("fail-on", cobra.FixedCompletions([]string{"fail", "warn", "unknown"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// sources are where the rules' inputs come from.
func sources() []platform.Source {
	return slices.Concat(platform.Facts(), linux.Sources(), []platform.Source{platform.Product(kubelet.Product), satellite.Source(), puppet.Source()})
}

// products are the names of the products that fettle knows.
func products() []string { return nil }

func platformNames() []string {
	var names []string
	for _, p := range platform.All {
		names = append(names, p.Name)
	}
	return append(names, products()...)
}

func knownPlatforms(names []string) error {
	for _, n := range names {
		if all := platformNames(); !slices.Contains(all, n) {
			return ui.Hinted(ui.Usage, fmt.Errorf("there is no platform %q%s", n, spell.Suggest(n, all)), "fettle check --help lists them")
		}
	}
	return nil
}

// catalogue loads the rules: ours, and those of the machine's administrator.
func catalogue(h *host.Host) (*rule.Catalogue, error) {
	inputs, sets := platform.Inputs(sources())
	files, err := rule.Embedded(rules.FS)
	if err != nil {
		return nil, err
	}
	own, err := administratorsRules(h)
	if err != nil {
		return nil, err
	}
	c, err := rule.Load(inputs, sets, append(files, own...))
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, r := range c.Rules() {
		if slices.ContainsFunc(own, func(f rule.File) bool { return f.Name == r.At.File }) {
			problems = append(problems, c.Compile(r)) // the tests do it for ours
		}
	}
	return c, errors.Join(problems...)
}

// administratorsRules reads /etc/fettle/rules.d.
func administratorsRules(h *host.Host) ([]rule.File, error) {
	entries, err := h.Files.ReadDir(ownRules)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var files []rule.File
	for _, e := range entries {
		name := path.Join(ownRules, e.Name())
		if path.Ext(name) != ".yaml" {
			continue
		}
		text, err := h.Files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files = append(files, rule.File{Name: name, Text: text})
	}
	return files, nil
}

func (a *app) check(ctx context.Context, names []string, o checkOptions) error {
	if o.failOn != "" && !slices.Contains([]string{"fail", "warn", "unknown"}, o.failOn) {
		return ui.Exit(ui.Usage, fmt.Errorf("--fail-on %q: want fail, warn or unknown", o.failOn))
	}
	if err := knownPlatforms(names); err != nil {
		return err
	}
	h, err := a.host()
	if err != nil {
		return err
	}
	c, err := catalogue(h)
	if err != nil {
		return err
	}
	subject := platform.NewSubject(ctx, h, table.Kinds(h), sources())
	if len(names) == 0 {
		var unknown map[string]string
		names, unknown = subject.Of(products())
		for _, n := range slices.Sorted(maps.Keys(unknown)) {
			a.screen.Say("whether this is %s is not known: %s", n, unknown[n])
		}
	}
	audit := report.NewAudit(h.Name, h.Clock.Now().UTC(), names, c.Check(subject, names, nil))
	err = gate(audit, o.failOn)
	if a.data() {
		return a.result(audit, err)
	}
	report.Findings(a.screen, audit, o.all)
	return err
}

// gate is the error of --fail-on.
func gate(a *report.Audit, failOn string) error {
	order := []rule.State{rule.Failed, rule.Warned, rule.Unknown}
	for _, s := range order[:slices.Index(order, rule.State(failOn))+1] {
		if n := a.Counts[s]; n > 0 {
			return ui.Exit(ui.GateNotMet, fmt.Errorf("%d findings are %s, and --fail-on is %s", n, s, failOn))
		}
	}
	return nil
}
