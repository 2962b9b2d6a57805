package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/rule"
)

// A copy with some of the CPUs' frequency policies says nothing of the others; one
// that is not at full clock is enough to know.
func TestClockOfSomeCPUs(t *testing.T) {
	text, err := os.ReadFile("../../testdata/hosts/intel-2s-bare-metal.txt")
	if err != nil {
		t.Fatal(err)
	}
	without := func(text, files string) string {
		return regexp.MustCompile(`(?m)^-- (file|dir) .*`+files+`.*\n([^-].*\n)*`).ReplaceAllString(text, "")
	}
	slow := func(text string) string {
		text = regexp.MustCompile(`(policy1/energy_performance_preference --\n).*\n`).ReplaceAllString(text, "${1}power\n")
		return regexp.MustCompile(`(policy1/scaling_governor --\n).*\n`).ReplaceAllString(text, "${1}powersave\n")
	}
	for name, c := range map[string]struct {
		text, more string
		want       rule.State
	}{
		"all of them":        {string(text), "", rule.Passed},
		"a governor is out":  {without(string(text), "policy3/(scaling_governor|energy_performance_preference)"), "policy3/scaling_governor is missing", rule.Unknown},
		"a policy is out":    {without(string(text), "cpufreq/policy3[ /]"), "cpu3 is not in this copy", rule.Unknown},
		"some, and one slow": {slow(without(string(text), "cpufreq/policy3[ /]")), "cpu3 is not in this copy", rule.Warned},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "host.txt")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			r, _ := checked(t, "linux", "--all", "--root", file)
			asked := false
			for _, f := range r.Findings {
				if f.ID != "T08" {
					continue
				}
				asked = true
				if f.State != c.want || c.want == rule.Unknown && !strings.Contains(f.Reason, c.more) {
					t.Errorf("%s, %q; want %s, %q", f.State, f.Reason, c.want, c.more)
				}
			}
			if !asked {
				t.Error("T08 was not asked")
			}
			text, _ := output(t, thisSystem(), "facts", "-o", "json", "--root", file)
			var facts fact.Facts
			if err := json.Unmarshal([]byte(text), &facts); err != nil {
				t.Fatal(err)
			}
			// What may be there as well is in the JSON too, and read back.
			it, _ := facts.Lookup("cpu.frequency.governors")
			if it.Value == nil || it.Unknown != "" || !strings.Contains(it.More, c.more) || c.more == "" && it.More != "" {
				t.Errorf("read back: %+v", it)
			}
		})
	}
}
