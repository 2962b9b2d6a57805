package findings

import (
	"testing"

	"fettle.dev/fettle/internal/guide/rule"
)

// That a machine is of a platform was not to be told, and is: mended, where a rule of
// it has an answer, and not where all of them are unknown still.
func TestPlatformMended(t *testing.T) {
	old := &Audit{Findings: []rule.Finding{{ID: "platform", Instance: "kubelet", State: rule.Unknown}}}
	for state, want := range map[rule.State]int{rule.Passed: 1, rule.Warned: 1, rule.Unknown: 0, rule.Reminded: 0} {
		now := &Audit{Platforms: []string{"linux", "kubelet"}, Findings: []rule.Finding{
			{ID: "T19", State: rule.Passed, Rule: &rule.Rule{Platforms: []string{"linux"}}},
			{ID: "K01", State: state, Rule: &rule.Rule{Platforms: []string{"kubelet"}}},
		}}
		now.Against("old.json", old)
		if got := len(now.Baseline.Mended); got != want {
			t.Errorf("with a rule that is %s: %d mended, want %d", state, got, want)
		}
	}
}
