package cli

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/guide/findings"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/testkit/calls"
	"fettle.dev/fettle/internal/ui"
)

// TestFiguresOfRules: check --details writes the numbers of each rule's examples for people, and
// the bound of each measured number that is not as wanted.
func TestFiguresOfRules(t *testing.T) {
	c, err := audit.CatalogueOf(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	bound := regexp.MustCompile(`, (limit|at least|wanted) [\d-]`)
	for _, r := range c.Rules() {
		for _, e := range r.Examples {
			f := c.Try(t.Context(), r, e, nil)
			var out strings.Builder
			findings.Print(&ui.Screen{Out: &out, Format: ui.Table}, findings.NewAudit("m", time.Time{}, r.Platforms, []rule.Finding{f}), findings.View{All: true, Details: true})
			shown := out.String()
			for _, v := range []any{f.Measured, f.Want} {
				if text, ok := v.(string); ok && strings.Trim(text, "0123456789") == "" && text != "" {
					shown = strings.ReplaceAll(shown, text, "VALUE") // of a setting, as a file has it
				}
			}
			for _, fault := range calls.Figures(shown) {
				t.Errorf("%s, example %q: %s", r.ID, e.Name, fault)
			}
			_, measured := f.Measured.(float64)
			_, wanted := f.Want.(float64)
			if measured && wanted && findings.Bad(f.State) && !bound.MatchString(out.String()) {
				t.Errorf("%s, example %q has no bound:\n%s", r.ID, e.Name, out.String())
			}
		}
	}
}
