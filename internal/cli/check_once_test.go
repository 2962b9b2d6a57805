package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/rule"
)

// One cause gives one finding: no two that nothing explains mend the same setting,
// or blame the same line or value.
func TestOneCauseOneFinding(t *testing.T) {
	archives, err := filepath.Glob("../../testdata/hosts/*.txt")
	if err != nil || len(archives) == 0 {
		t.Fatal(err)
	}
	c := loadCatalogue(t)
	input := func(r *rule.Rule, name string) string {
		for _, b := range r.Inputs {
			if b.Name == name {
				return b.Input
			}
		}
		return ""
	}
	for _, archive := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(archive), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(archive)
			if err != nil {
				t.Fatal(err)
			}
			by := map[string]rule.Finding{} // what a finding is about
			about := func(f rule.Finding, what string) {
				if other, ok := by[what]; ok && other.ID != f.ID {
					t.Errorf("%s (%s) and %s (%s) say the same of %s", other.ID, other.Title, f.ID, f.Title, what)
				}
				by[what] = f
			}
			m := recorded(t, string(text))
			platforms, _ := m.Of(products())
			for _, f := range c.Check(t.Context(), m, platforms, nil) {
				if f.State != rule.Warned && f.State != rule.Failed || f.Because != "" {
					continue
				}
				if f.Fix != nil {
					for _, x := range f.Fix.Changes {
						about(f, x.Name)
					}
					for _, x := range f.Fix.Entries {
						about(f, f.Fix.Artefact+" "+x.Name)
					}
				}
				if r := f.Rule; r.Measured != nil {
					if in := input(r, r.Measured.Text); in != "" {
						about(f, strings.ReplaceAll(in, "*", f.Instance))
					}
				}
				if len(f.At) > 0 && strings.Contains(f.At[0], ":") {
					about(f, f.At[0])
				}
			}
		})
	}
}
