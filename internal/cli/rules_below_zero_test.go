package cli

import (
	"maps"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/rule"
)

// No rule passes a sysctl below zero: none of those that they judge can be, and a
// comparison that only has an upper end would take it.
func TestNothingBelowZeroPasses(t *testing.T) {
	c := loadCatalogue(t)
	tried := 0
	for _, r := range c.Rules() {
		for _, b := range r.Inputs {
			if !strings.HasPrefix(b.Input, "sysctl:") || b.As == fact.Text {
				continue
			}
			var wrong []any
			switch b.As {
			case fact.Number:
				wrong = []any{-1.0, -2147483648.0}
			case fact.List:
				wrong = []any{[]string{"-1", "-1"}, []string{"-32768", "60999"}, []string{"1024", "-1"}}
			default:
				t.Fatalf("%s: %s is read as %s: say here what of it is below zero", r.ID, b.Input, b.As)
			}
			for _, e := range r.Examples {
				if s := c.Try(t.Context(), r, e, nil).State; s == rule.NotApplicable || s == rule.Unknown {
					continue
				}
				for _, v := range wrong {
					e.Given = maps.Clone(e.Given)
					e.Given[b.Name] = v
					tried++
					if f := c.Try(t.Context(), r, e, nil); f.State != rule.Warned && f.State != rule.Failed {
						t.Errorf("%s: %s %s is %v, and the rule says %s %s", r.ID, e.Name, b.Input, v, f.State, f.Reason)
					}
				}
			}
		}
	}
	if tried < 100 {
		t.Errorf("tried %d", tried)
	}
}
