package cli

import (
	compare "cmp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/sizing"
)

// The rules of a platform alone judge as all of them together do, and stand in
// the same lines.
func TestRulesOfPlatform(t *testing.T) {
	whole := loadCatalogue(t)
	found := func(c *rule.Catalogue, names []string) []rule.Finding {
		h, err := host.OpenRoot("../../testdata/hosts/satellite-6.12-overloaded.txt")
		if err != nil {
			t.Fatal(err)
		}
		return c.Check(t.Context(), platform.NewSubject(t.Context(), h, table.Kinds(h), audit.Sources()), names, nil)
	}
	sets := [][]string{{"linux", "satellite", "httpd"}, audit.Platforms(), {}}
	for _, p := range audit.Platforms() {
		sets = append(sets, []string{p})
	}
	for _, names := range sets {
		some, err := audit.CatalogueOf(nil, names)
		if err != nil {
			t.Errorf("%v: %v", names, err)
			continue
		}
		for _, r := range whole.Rules() {
			asked := slices.ContainsFunc(r.Platforms, func(p string) bool { return slices.Contains(names, p) })
			if s := some.Rule(r.ID); asked && (s == nil || s.At != r.At) {
				t.Errorf("%v: %s is %v", names, r.ID, s)
			}
		}
		if len(names) < 3 && len(names) > 0 && len(some.Rules()) > len(whole.Rules())/2 {
			t.Errorf("%v: %d rules are loaded of %d", names, len(some.Rules()), len(whole.Rules()))
		}
		// A rule comes behind those that it depends on, so their order is another one
		// where a rule of another platform is among these.
		sorted := cmpopts.SortSlices(func(a, b rule.Finding) int {
			return compare.Or(compare.Compare(a.ID, b.ID), compare.Compare(a.Instance, b.Instance))
		})
		if diff := cmp.Diff(found(whole, names), found(some, names), cmpopts.IgnoreFields(rule.Finding{}, "Rule"), sorted); diff != "" {
			t.Errorf("%v: %s", names, diff)
		}
	}
}

// Sizing reads the tables without the rules: they are those of the whole catalog.
func TestTablesWithoutRules(t *testing.T) {
	got := sizing.Figures(t)
	all := loadCatalogue(t).Tables()
	if len(all) < 5 {
		t.Errorf("%d tables", len(all))
	}
	for _, want := range all {
		if diff := cmp.Diff(want, got.Table(want.Name)); diff != "" {
			t.Errorf("%s: %s", want.Name, diff)
		}
	}
}
