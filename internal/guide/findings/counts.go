package findings

import (
	"fmt"
	"strings"

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

// countWords returns the counts on one line: of rules, and of items if there are more.
func (a *Audit) countWords() string {
	var parts []string
	rules := 0
	for _, state := range rule.States {
		n, items := a.RuleCounts[state], a.Counts[state]
		rules += n
		parts = append(parts, counted(n, items, string(state)))
	}
	text := fmt.Sprintf("%s: %s, of %s", strings.Join(a.Platforms, ", "), strings.Join(parts, ", "), internaltext.Count(rules, "rule"))
	if off := a.disabledByCopy(); len(off) > 0 {
		text += fmt.Sprintf("; %d disabled by the copy itself: %s", len(off), strings.Join(off, ", "))
	}
	return text
}

// disabledByCopy returns the rules that a copy disabled, which are always reported.
func (a *Audit) disabledByCopy() []string {
	var off []string
	for _, f := range a.Findings {
		if f.DisabledByCopy() {
			off = append(off, f.ID)
		}
	}
	return off
}

// counted prints a number of rules, and the number of items if it differs.
func counted(rules, items int, what string) string {
	text := fmt.Sprintf("%d %s", rules, what)
	if items != rules {
		text += fmt.Sprintf(" (%s)", internaltext.Count(items, "item"))
	}
	return text
}
