package findings

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/guide/rule"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// Gate returns an error if the audit does not meet check's --fail-on: fail, warn, unknown, or ""
// for no gate. With a baseline only new and worse findings count.
func (a *Audit) Gate(failOn string) error {
	order := []rule.State{rule.Failed, rule.Warned, rule.Unknown}
	var found []string
	for _, s := range order[:slices.Index(order, rule.State(failOn))+1] {
		if rules, items := a.Counted(s); rules > 0 {
			text := fmt.Sprintf("%s are %s", internaltext.Count(rules, "rule"), s)
			if rules == 1 {
				text = fmt.Sprintf("1 rule is %s", s)
			}
			if items > rules {
				text += internaltext.Sprintf(" (%d items)", items)
			}
			found = append(found, text)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return ui.Exit(ui.GateNotMet, fmt.Errorf("%s, and --fail-on is %s", strings.Join(found, ", "), failOn))
}
