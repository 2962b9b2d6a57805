package cli

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
	internaltext "fettle.dev/fettle/internal/text"
)

var catalogue = sync.OnceValues(func() (*rule.Catalogue, error) { return audit.CatalogueOf(nil, nil) })

// loadCatalogue returns fettle's rules, which are read once for all tests. Tests that run in
// parallel must not use it, because a rule is compiled when it is first evaluated.
func loadCatalogue(t *testing.T) *rule.Catalogue {
	t.Helper()
	c, err := catalogue()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// recordedMachines returns the archives of the recorded machines, one in eight under -short.
func recordedMachines(t *testing.T) []string {
	t.Helper()
	hosts, err := filepath.Glob("../../testdata/hosts/*.txt")
	if err != nil || len(hosts) < 15 {
		t.Fatalf("%d machines: %v", len(hosts), err)
	}
	return testkitroot.Some(hosts)
}

// Every rule of ours is without mistakes, and its examples hold.
func TestCatalogue(t *testing.T) {
	c := loadCatalogue(t)
	for _, r := range c.Rules() {
		t.Run(r.ID, func(t *testing.T) {
			if err := c.Compile(r); err != nil {
				t.Fatal(err)
			}
			for _, p := range c.TestExamples(t.Context(), r) {
				t.Error(p)
			}
			_, problems := tryFixes(t.Context(), c, r)
			for _, p := range problems {
				t.Error(p)
			}
			for _, p := range r.Platforms {
				if !slices.Contains(audit.Platforms(), p) {
					t.Errorf("%s: there is no platform %q", r.At, p)
				}
			}
		})
	}
}

// A rule that judges a list shows the list: a bare count says nothing of what is wrong.
func TestRulesShowLists(t *testing.T) {
	for _, r := range loadCatalogue(t).Rules() {
		if r.Measured != nil && strings.HasPrefix(r.Measured.Text, "len(") {
			t.Errorf("%s: %s shows only %s", r.At, r.ID, r.Measured.Text)
		}
	}
}

// A rule that finds something says what to do about it, and names no verb that
// fettle has not.
func TestRulesSayWhatToDo(t *testing.T) {
	verbs := map[string]bool{}
	for _, c := range Command("test").Commands() {
		verbs[c.Name()] = true
	}
	named := regexp.MustCompile(`\bfettle (bench|load|logs|prove|runs|report|[a-z]+ (?:--|ID|PROFILE)[a-z]*)`)
	for _, r := range loadCatalogue(t).Rules() {
		said := r.Why
		switch x := r.Fix; {
		case r.Reminder:
		case x == nil || len(x.Changes)+len(x.Entries) == 0 && x.Command == "" && len(strings.Fields(x.Text)) < 3:
			t.Errorf("%s: %s says of nothing what to do", r.At, r.ID)
		default:
			said += " " + x.Text + " " + x.Command
		}
		for _, m := range named.FindAllStringSubmatch(said, -1) {
			if verb, _, _ := strings.Cut(m[1], " "); !verbs[verb] {
				t.Errorf("%s: %s names fettle %s, which there is not", r.At, r.ID, m[1])
			}
		}
	}
}

// A fix that does not mend what its rule finds is told, with its example's line.
func TestFixThatDoesNotMend(t *testing.T) {
	files := []rule.File{{Name: "own.yaml", Text: []byte(`- id: L1
  title: t
  failed: not t
  platforms: [linux]
  inputs: {v: {input: "sysctl:vm.swappiness", as: number}}
  pass: measured <= 10
  want: "10"
  why: w
  sources: [{document: ours}]
  fix: {changes: {"sysctl:vm.swappiness": "20"}}
  examples:
    - {name: good, given: {v: 10}, finding: pass}
    - {name: bad, given: {v: 60}, finding: warn}
`)}}
	inputs, sets := platform.Inputs(audit.Sources())
	c, err := rule.Load(inputs, sets, files)
	if err != nil {
		t.Fatal(err)
	}
	n, problems := tryFixes(t.Context(), c, c.Rule("L1"))
	if n != 1 || len(problems) != 1 || !strings.Contains(problems[0].Error(), `own.yaml:13: L1: the fix of example "bad": after the fix the rule is warn: 20, want 10`) {
		t.Errorf("%d: %v", n, problems)
	}
}

// The names of the sources are theirs alone, and each input is one of its own.
func TestSources(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range audit.Sources() {
		if seen[s.Prefix] {
			t.Errorf("two sources are called %s", s.Prefix)
		}
		seen[s.Prefix] = true
		for _, in := range s.Inputs {
			if !strings.HasPrefix(in.Name, s.Prefix+".") || in.Type == "" {
				t.Errorf("%+v is no input of %s", in, s.Prefix)
			}
			if of := in.Of(); of != "" && !slices.Contains(s.Sets, of) {
				t.Errorf("%s is of %s, which is no set of the source", in.Name, of)
			}
		}
	}
}

var idParts = internaltext.LazyRegexp(`^([A-Za-z.-]*)(\d*)(.*)$`)

// compareIDs orders S2 before S10.
func compareIDs(a, b string) int {
	x, y := idParts().FindStringSubmatch(a), idParts().FindStringSubmatch(b)
	if x == nil || y == nil || x[1] != y[1] || len(x[2]) == len(y[2]) {
		return strings.Compare(a, b)
	}
	return len(x[2]) - len(y[2])
}
