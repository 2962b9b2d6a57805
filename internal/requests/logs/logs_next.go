package logs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"fettle.dev/fettle/internal/requests/source"
	"fettle.dev/fettle/internal/ui"
)

// Step is a suggested next step: a sentence and a command.
type Step struct{ Text, Command string }

func (p Step) print(s *ui.Screen) {
	text := ui.Headline{Lines: []string{p.Text + ":"}}
	ui.PrintHeadline(s, &text)
	ui.PrintCommand(s, p.Command)
}

// next returns the next steps after a report: read the rest of the logs, read the durations,
// or examine the group with the most time.
func next(s *ui.Screen, r *Report) (out []Step) {
	if r.Unread.ReadWith != "" {
		out = append(out, Step{"to read the other lines", r.Unread.ReadWith})
	}
	for _, l := range r.Logs {
		if text, command := noUnit(&l); command != "" {
			out = append(out, Step{text, command})
		}
	}
	if len(out) > 0 || s.Call == nil || r.where != "" || r.merged || slices.ContainsFunc(r.Logs, func(l LogRead) bool { return l.Path == source.Stdin }) {
		return out
	}
	if g := r.WentTo; g != nil {
		if where := condition(r.By[0].By, g.Key); where != "" {
			out = append(out, narrower(s, r, where, keyed(g.Key)))
		}
	}
	return out
}

// narrower returns a step that examines a group: its requestors, or its slowest requests.
func narrower(s *ui.Screen, r *Report, where, group string) Step {
	call := ui.Remedy{Drop: []string{"--by", "--top", "--slowest", "--follow", "--since-last", "--save"}, Options: []string{"--where", where}}
	for _, by := range r.By[1:] {
		if slices.Equal(by.By, []string{"requestor"}) {
			call.Options = append(call.Options, "--by", "requestor")
			return Step{"next, who requests " + shortenMiddle(group, longestName), s.Call(call)}
		}
	}
	call.Options = append(call.Options, "--slowest", "20")
	return Step{"next, the slowest requests of " + shortenMiddle(group, longestName), s.Call(call)}
}

// longestName is the maximum length of a group's name in a sentence, in characters.
const longestName = 60

// condition returns a --where condition that selects a group, or "" if that is not possible.
func condition(by, key []string) string {
	if len(by) != len(key) {
		return ""
	}
	var out []string
	for i, name := range by {
		odd := func(c rune) bool { return c != '_' && !unicode.IsLetter(c) && !unicode.IsDigit(c) }
		if strings.ContainsFunc(name, odd) || strings.ContainsFunc(key[i], func(c rune) bool { return c == '\\' || !strconv.IsPrint(c) }) {
			return ""
		}
		out = append(out, fmt.Sprintf("%s == %q", name, key[i]))
	}
	return strings.Join(out, " and ")
}
