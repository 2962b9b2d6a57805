package report

import (
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/rule"
	"fettle.dev/fettle/internal/ui"
)

// Gate is the error of check's --fail-on: fail, warn, unknown, or "" for none. It counts
// as the report does; with a baseline only what is new or worse counts.
func (a *Audit) Gate(failOn string) error {
	order := []rule.State{rule.Failed, rule.Warned, rule.Unknown}
	for _, s := range order[:slices.Index(order, rule.State(failOn))+1] {
		if rules, items := a.Counted(s); rules > 0 {
			are, of := "rules are", ""
			if rules == 1 {
				are = "rule is"
			}
			if items > rules {
				of = fmt.Sprintf(" (%d items)", items)
			}
			return ui.Exit(ui.GateNotMet, fmt.Errorf("%d %s %s%s, and --fail-on is %s", rules, are, s, of, failOn))
		}
	}
	return nil
}
