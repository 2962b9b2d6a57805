package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/guide/rule"
)

// Why a finding is as it is, is said in words, not in a rule's expressions.
func TestFindingsAreInWords(t *testing.T) {
	for _, r := range loadCatalogue(t).Rules() {
		if r.Applies != nil && r.For == "" {
			t.Errorf("%s: %s has applies and no words for it: for: ...", r.At, r.ID)
		}
	}
	expression := regexp.MustCompile(`[=!<>]=|&&|\|\||\b(since|len|div|[kmg]ib|cell|least|like|filter|all|any|int|sum|floor)\(|\bnot \(|(^|\W)# (in|==)|"\w+" in |\bin \[`)
	check := func(root string) (found []rule.Finding) {
		r, _ := checked(t, "--all", "--root", root)
		for _, f := range r.Findings {
			for _, text := range []string{f.Reason, f.Title, f.Why} {
				if expression.MatchString(text) {
					t.Errorf("%s: %s: %q has an expression", root, f.ID, text)
				}
			}
		}
		return r.Findings
	}
	for _, root := range recordedMachines(t) {
		check(root)
	}
	// An administrator's rule without words is named by its place.
	dir := t.TempDir()
	file := filepath.Join(dir, audit.OwnRules, "own.yaml")
	text := strings.Replace(ownRule, "  want: '1'\n", "  want: '1'\n  applies: '\"a\" in [\"b\"]'\n", 1)
	proc := filepath.Join(dir, "proc/meminfo")
	for name, text := range map[string]string{file: text, proc: "MemTotal: 1024 kB\n"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range check(dir) {
		if f.ID == "X01" && (f.State != rule.NotApplicable || !strings.Contains(f.Reason, audit.OwnRules+"/own.yaml:7)")) {
			t.Errorf("%s: %s", f.State, f.Reason)
		}
	}
}
