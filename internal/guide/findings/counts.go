package findings

import (
	"fmt"

	"fettle.dev/fettle/internal/guide/rule"
	internaltext "fettle.dev/fettle/internal/text"
)

// count sets the counts of findings and of rules.
func (a *Audit) count() {
	a.Counts, a.RuleCounts = map[rule.State]int{}, map[rule.State]int{}
	for _, s := range rule.States {
		a.Counts[s], a.RuleCounts[s] = 0, 0
	}
	worst := map[string]rule.State{}
	for _, f := range a.Findings {
		a.Counts[f.State]++
		if w, ok := worst[f.ID]; !ok || badness(f.State) < badness(w) {
			worst[f.ID] = f.State
		}
	}
	for _, s := range worst {
		a.RuleCounts[s]++
	}
}

// counted formats a number of rules, and the number of items if it differs.
func counted(rules, items int, what string) string {
	text := fmt.Sprintf("%d %s", rules, what)
	if items != rules {
		text += fmt.Sprintf(" (%s)", internaltext.Count(items, "item"))
	}
	return text
}
