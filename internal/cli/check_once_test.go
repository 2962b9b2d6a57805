package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/guide/rule"
)

// One cause gives one finding: no two that nothing explains mend the same setting,
// or blame the same line or value, and what another one explains is mended with that.
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
	explained := 0
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
			platforms, _ := m.Of(audit.Products())
			all := c.Check(t.Context(), m, platforms, nil)
			for _, f := range all {
				if f.State != rule.Warned && f.State != rule.Failed {
					continue
				}
				if f.Because != "" {
					explained++
					first := root(f, all)
					if f.Fix == nil || len(f.Fix.Changes)+len(f.Fix.Entries) > 0 || f.Fix.Command+f.Fix.Artefact != "" || !strings.HasPrefix(f.Fix.Text, "see "+first) {
						t.Errorf("%s is because of %s, and mended by %+v, not as %s", f.ID, f.Because, f.Fix, first)
					}
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
	if explained < 10 {
		t.Errorf("%d findings are explained by another: there should be more", explained)
	}
}

// root is the id of the finding that explains one, and that nothing explains.
func root(f rule.Finding, all []rule.Finding) string {
	for f.Because != "" {
		i := slices.IndexFunc(all, func(c rule.Finding) bool {
			return c.ID == f.Because && (c.State == rule.Warned || c.State == rule.Failed)
		})
		f = all[i]
	}
	return f.ID
}
