package cli

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/engine/compliance"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/ui"
)

// ComplianceResult is the JSON form of fettle import compliance.
type ComplianceResult struct {
	Schema       string                   `json:"schema"` // fettle/compliance/v1
	Headline     ui.Headline              `json:"headline"`
	Requirements []compliance.Requirement `json:"requirements"`
	// Others is the number of selected rules that name no setting which fettle could change.
	Others int `json:"others"`
	// Checks reports whether the file has the checks of the rules: an ARF does.
	Checks bool `json:"checks"`
}

func importComplianceCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "compliance FILE", Short: "Print the settings that a compliance scan requires",
		Long: `Reads the result of a compliance scan (OpenSCAP: oscap xccdf eval --results-arf FILE) and
prints the settings that its rules require as lines for a file in ` + tune.KeepDir + `.
With such a file, tune never writes a value that a rule does not allow. An XCCDF results
file (--results) has no checks, so most required values remain unknown.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.importCompliance(args[0]) },
	}
}

func (a *app) importCompliance(file string) error {
	h, err := a.host()
	if err != nil {
		return err
	}
	doc, err := readCompliance(h, file)
	if err != nil {
		return err
	}
	doc.Schema = "fettle/compliance/v1"
	unknown := 0
	for _, r := range doc.Requirements {
		if len(r.Allowed) == 0 {
			unknown++
		}
	}
	head := &doc.Headline
	head.Line("%s required by rules, %s of them unknown; %s about something else",
		head.Count("settings", len(doc.Requirements), "setting"), head.Count("values_unknown", unknown, "value"), head.Count("other_rules", doc.Others, "rule"))
	if a.data() {
		return a.result(doc, nil)
	}
	a.screen.Say("%s", head.Lines[0])
	fmt.Fprintf(a.screen.Out, "# Required by the rules of %s; fettle import compliance wrote this.\n", ui.Line(filepath.Base(file)))
	for _, r := range doc.Requirements {
		fmt.Fprintln(a.screen.Out, ui.Line(tune.KeepEntry{Pattern: r.Setting.String(), Allowed: r.Allowed, Reason: "required by " + r.Short()}.Text()))
	}
	return nil
}

// readCompliance reads the result of a scan.
func readCompliance(h *host.Host, file string) (*ComplianceResult, error) {
	f, err := host.OpenRegular(file)
	if err != nil {
		return nil, ui.Exit(ui.Usage, err)
	}
	defer f.Close()
	d, err := compliance.Read(f)
	if err != nil {
		return nil, ui.Exit(ui.Usage, fmt.Errorf("%s: %w", file, err))
	}
	r := &ComplianceResult{Requirements: []compliance.Requirement{}, Checks: d.Checks}
	all, others := d.Requirements(h)
	r.Requirements, r.Others = append(r.Requirements, all...), others
	return r, nil
}

// keepRequired adds the requirements of a scan to the settings that are never written. Without a
// file it adds nothing.
func (a *app) keepRequired(m *tune.Machine, file string) error {
	if file == "" {
		return nil
	}
	r, err := readCompliance(m.Host, file)
	if err != nil {
		return fmt.Errorf("--compliance: %w", err)
	}
	for _, q := range r.Requirements {
		m.Keep = append(m.Keep, tune.RuleEntry(m.Kinds, q.Setting, q.Short(), q.Allowed, file))
	}
	if len(r.Requirements) == 0 {
		a.screen.Say("--compliance %s: no rule requires a setting that fettle knows", file)
	}
	return nil
}
