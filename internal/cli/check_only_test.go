package cli

import (
	compare "cmp"
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/host"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
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
		some, err := audit.CatalogueOf(nil, &rule.Needed{Platforms: names})
		if err != nil {
			t.Errorf("%v: %v", names, err)
			continue
		}
		for _, r := range whole.Rules() {
			asked := slices.ContainsFunc(r.Platforms, func(p string) bool { return slices.Contains(names, p) })
			if s := some.Rule(r.ID); asked && (s == nil || s.At != r.At || cmp.Diff(keysOf(t, r), keysOf(t, s)) != "") {
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

// keysOf returns the parts of a rule that an audit needs, by their JSON names.
func keysOf(t *testing.T, r *rule.Rule) (parts map[string]any) {
	t.Helper()
	text, err := json.Marshal(r)
	if err == nil {
		err = json.Unmarshal(text, &parts)
	}
	if err != nil {
		t.Fatal(err)
	}
	delete(parts, "examples")
	return parts
}

// A rule, table or measurement alone is what it is in the whole catalog, and a rule judges as it
// does there.
func TestRulesByID(t *testing.T) {
	whole := loadCatalogue(t)
	h, err := host.OpenRoot("../../testdata/hosts/satellite-6.12-overloaded.txt")
	if err != nil {
		t.Fatal(err)
	}
	m := platform.NewSubject(t.Context(), h, table.Kinds(h), audit.Sources())
	findings := whole.Check(t.Context(), m, audit.Platforms(), nil)
	for _, id := range testkitroot.Some(audit.IDs(whole)) {
		some, err := audit.CatalogueWith(nil, []string{id})
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		r := some.Rule(id)
		if diff := cmp.Diff(whole.Rule(id), r, cmpopts.IgnoreUnexported(rule.Rule{}, rule.Expr{})); diff != "" {
			t.Errorf("%s: %s", id, diff)
		}
		explains := func(c *rule.Catalogue) (out []any) {
			for _, e := range c.Evidence() {
				if e.ID == id || slices.Contains(e.Explains, id) {
					out = append(out, e)
				}
			}
			for _, x := range c.Tables() {
				if x.Name == id || slices.Contains(x.IDs, id) {
					out = append(out, x)
				}
			}
			return out
		}
		if diff := cmp.Diff(explains(whole), explains(some)); diff != "" {
			t.Errorf("%s: %s", id, diff)
		}
		if r == nil {
			continue
		}
		if len(some.Rules()) > len(whole.Rules())/4 {
			t.Errorf("%s: %d rules are loaded", id, len(some.Rules()))
		}
		others := func(f rule.Finding) bool { return f.ID != id }
		want, got := slices.DeleteFunc(slices.Clone(findings), others), slices.DeleteFunc(some.With(id).Check(t.Context(), m, audit.Platforms(), nil), others)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(rule.Finding{}, "Rule")); diff != "" {
			t.Errorf("%s: %s", id, diff)
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
