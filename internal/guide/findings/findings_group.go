package findings

import (
	"cmp"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/guide/rule"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// group is a finding of a rule on one item, or the same finding on several.
type group struct {
	rule.Finding
	Items   []item
	Changes []string // changes that fettle fix would write
	where   string   // see Audit.where
}

// Fixes returns the fixes as text: commands and words.
func (g group) Fixes() []string {
	return asText(g.fixLines())
}

// fixLines returns the lines of Fixes, with commands separate from the words.
func (g group) fixLines() []fixLine {
	out := fixLines(g.Finding, g.where)
	if n := len(g.Changes); n > 0 {
		more := ""
		if n > shown {
			more = internaltext.Sprintf(" and %d more", n-shown)
		}
		out[0].after += " (" + strings.Join(g.Changes[:min(shown, n)], ", ") + more + ")"
	}
	return out
}

// fixLine is one line of a fix: a command with the words before and after it. where precedes the
// command if it must run on another machine.
type fixLine struct{ before, where, command, after string }

func (l fixLine) String() string { return l.before + l.where + l.command + l.after }

// where returns the words before a command that must run on the audited machine, if that is
// another one; otherwise "".
func (a *Audit) where() string {
	switch {
	case a.On != "":
		return "on " + a.On + ": "
	case a.Copied:
		return "on that machine: "
	}
	return ""
}

func asText(lines []fixLine) (out []string) {
	for _, l := range lines {
		out = append(out, l.String())
	}
	return out
}

// item is one judged item, or several with the same result.
type item struct {
	Instance, Measured, Want string
	Compare                  rule.Compare
	At                       []string
	more                     []string // other instances
}

// Name returns the items' names. If there are many, it returns the first ones and the number of
// the others.
func (i item) Name() string {
	all := append([]string{i.Instance}, i.more...)
	name := strings.Join(all[:min(shown, len(all))], ", ")
	if n := len(all) - shown; n > 0 {
		name += internaltext.Sprintf(" and %d more", n)
	}
	return name
}

// says describes the item with its values.
func (i item) says() string {
	text := i.Values()
	if i.Instance == "" {
		return text
	}
	if text == "" {
		return i.Name()
	}
	return i.Name() + ": " + text
}

// Values returns the measured and the wanted value: "88.4 %, limit 50 %". For a condition it
// returns "", because the title says enough.
func (i item) Values() string {
	if i.Measured == "true" || i.Measured == "false" {
		return ""
	}
	if i.Want == "" {
		return i.Measured
	}
	return cmp.Or(i.Measured, "none") + ", " + i.wanted()
}

// wanted returns the wanted value as a bound: "limit 50 %", "at least 8", "wanted never".
func (i item) wanted() string {
	switch i.Compare {
	case rule.AtMost, rule.LessThan:
		return "limit " + i.Want
	case rule.AtLeast:
		return "at least " + i.Want
	}
	return "wanted " + i.Want
}

// bound returns the wanted value with its comparison: "at most 50 %".
func (i item) bound() string {
	if i.Compare == "" || i.Want == "" {
		return i.Want
	}
	return string(i.Compare) + " " + i.Want
}

// full returns says with the sources of the values.
func (i item) full() string {
	text := i.says()
	if at := i.places(); len(at) > 0 {
		text = strings.TrimSpace(text + " (" + strings.Join(at, ", ") + ")")
	}
	return text
}

// line describes the group in one line: the title for its state, its first item's values, and the
// number of other items.
func (g group) line() string {
	text := g.Heading()
	items := g.Told()
	switch {
	case g.State == rule.Reminded || len(items) == 0:
		return text
	case g.Reason != "":
		return text + ": " + g.Reasons()
	case g.State == rule.Passed:
		if items[0].Measured == "true" || items[0].Measured == "false" {
			items[0].Measured = ""
		}
		items[0].Want = ""
	}
	if says := items[0].says(); says != "" {
		text += ": " + says
	}
	if n := len(items) - 1; n > 0 {
		text += internaltext.Sprintf("; and %d more", n)
	}
	return text
}

// alike merges items with the same result.
func alike(items []item) []item {
	var out []item
	for _, i := range items {
		n := slices.IndexFunc(out, func(o item) bool {
			return i.Instance != "" && o.Measured == i.Measured && o.Want == i.Want && o.Compare == i.Compare
		})
		if n < 0 {
			out = append(out, i)
			continue
		}
		out[n].more = append(out[n].more, i.Instance)
	}
	return out
}

// general returns the reason without the name of the item.
func general(f rule.Finding) string {
	if f.Instance == "" {
		return f.Reason
	}
	return strings.ReplaceAll(f.Reason, f.Instance, "*")
}

// Reasons returns the group's reason, with its items.
func (g group) Reasons() string {
	all := alike(g.Items)
	switch {
	case g.Instance == "":
		return g.Reason
	case len(g.Items) == 1:
		return g.Instance + ": " + g.Reason
	}
	return all[0].Name() + ": " + general(g.Finding)
}

// Told returns the items of a finding for its full form.
func (g group) Told() []item { return alike(g.Items) }

// places returns the sources to look at first: lines of files, or else the first two sources.
func (i item) places() []string {
	lines := slices.DeleteFunc(slices.Clone(i.At), func(at string) bool { return !fileLine().MatchString(at) })
	if len(lines) == 0 {
		lines = i.At
	}
	return lines[:min(2, len(lines))]
}

// printed formats a value for people: a number as unit.Digits does, bytes in binary units. The unit
// of the number 1 is in the singular.
func printed(v any, of string) string {
	n, ok := v.(float64)
	switch {
	case !ok:
		return rule.Print(v)
	case of == "bytes" && n < 0:
		return "-" + unit.Size(-n).Human()
	case of == "bytes":
		return unit.Size(n).Human()
	case n == 1 && counts(of):
		if of = strings.TrimSuffix(of, "s"); strings.HasSuffix(of, "sse") {
			of = strings.TrimSuffix(of, "e")
		}
	}
	return strings.TrimSpace(unit.Digits(n) + " " + of)
}

// counts reports whether a unit names counted things, such as "workers".
func counts(unit string) bool {
	return len(unit) > 3 && unit != "bytes" && strings.HasSuffix(unit, "s")
}

// Wanted returns the wanted value of a finding with its unit.
func Wanted(f rule.Finding) string {
	_, want := values(f)
	return want
}

// values formats the measured and the wanted value. The wanted one is without the unit of counted
// things, which the measured one has, and "" if the items of a list were counted. Numbers that
// look equal but are not get more digits.
func values(f rule.Finding) (measured, want string) {
	of := f.Unit
	if counts(of) {
		of = ""
	}
	have, number := f.Measured.(float64)
	bound, _ := f.Want.(float64)
	switch want = printed(f.Want, of); {
	case !number && f.Want == 0.0:
		want = ""
	case number && have != bound && printed(have, of) == want:
		return strings.TrimSpace(unit.Decimals(have, 6) + " " + f.Unit), strings.TrimSpace(unit.Decimals(bound, 6) + " " + of)
	}
	return printed(f.Measured, f.Unit), want
}

// groups merges the findings of a rule with the same result.
func (a *Audit) groups() []group {
	var out []group
	for _, f := range a.Findings {
		measured, want := values(f)
		i := item{Instance: f.Instance, Measured: measured, Want: want, Compare: f.Compare, At: slices.Concat(f.MeasuredAt, f.WantAt)}
		n := len(out) - 1
		if n >= 0 && out[n].ID == f.ID && out[n].State == f.State && general(out[n].Finding) == general(f) && out[n].Because == f.Because && out[n].Change == f.Change {
			out[n].Items = append(out[n].Items, i)
			out[n].Changes = append(out[n].Changes, changesIn(f)...)
			out[n].Inputs = append(slices.Clip(out[n].Inputs), f.Inputs...)
			continue
		}
		out = append(out, group{Finding: f, Items: []item{i}, Changes: changesIn(f), where: a.where()})
	}
	return out
}

// fewer merges a rule's unknown findings with different reasons, except the first few.
func (a *Audit) fewer(all []group) []group {
	var out []group
	seen, rest := map[string]int{}, map[string]int{}
	for _, g := range all {
		id := g.ID + " " + string(g.Change)
		if g.State == rule.Unknown {
			seen[id]++
		}
		switch {
		case g.State != rule.Unknown || seen[id] <= shown:
			out = append(out, g)
		case seen[id] == shown+1:
			rest[id] = len(out)
			g.Reason = "different reasons (" + a.explained(g.ID) + ")"
			out = append(out, g)
		default:
			of := &out[rest[id]]
			of.Items = append(of.Items, g.Items...)
		}
	}
	return out
}

// fixLines returns the lines of a finding's fixes, without its values.
func fixLines(f rule.Finding, where string) []fixLine {
	if f.Fix == nil {
		return nil
	}
	var out []fixLine
	if len(f.Fix.Changes) > 0 {
		out = append(out, fixLine{where: where, command: "fettle fix " + f.ID})
	}
	if f.Fix.Artefact != rule.Installer { // the installer's command contains them
		for _, e := range f.Fix.Entries {
			out = append(out, fixLine{before: f.Fix.Artefact + ": " + e.Name + ": " + e.Value})
		}
	}
	words := f.Fix.Text
	if len(out) == 0 && words != "" && f.Fix.Artefact != rule.Installer {
		out, words = append(out, fixLine{before: words}), "" // before the command
	}
	switch {
	case f.Fix.Command == "":
	case len(out) > 0:
		out = append(out, fixLine{before: "then ", where: where, command: f.Fix.Command})
	default:
		out = append(out, fixLine{where: where, command: f.Fix.Command})
	}
	if words != "" {
		out = append(out, fixLine{before: words})
	}
	return out
}

// changesIn returns the values that fettle fix would write.
func changesIn(f rule.Finding) []string {
	if f.Fix == nil {
		return nil
	}
	var out []string
	for _, c := range f.Fix.Changes {
		out = append(out, strings.TrimPrefix(strings.TrimPrefix(c.Name, "sysctl:"), "sysfs:")+" = "+c.Value)
	}
	return out
}
