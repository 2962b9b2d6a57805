package calls

import (
	"fmt"
	"regexp"
	"strings"

	internaltext "fettle.dev/fettle/internal/text"
)

// exact matches what an output repeats with all its digits: quotations, settings and their values,
// numbers of bugs and processes, options, and the names of processors.
var exact = internaltext.LazyRegexp(`"[^"]*"|\(says (?:[^()]|\([^)]*\))*\)|[\w-]+(?:[.:]+[\w-]+)+: [^ ,]+(?:, wanted \S+)?|\S+ ?(=|→) ?\S+( \d+)*|\b\d{4,5}, \d{5}\b|\b(BZ|Bug|solution|PID|port|mtu) \d+|@ [\d.]+GHz|(?:^|[ (])--?[a-zA-Z][\w-]*[ =]\S+`)

// settingRow matches a table row of a setting, whose values are as the kernel or a file has them.
var settingRow = internaltext.LazyRegexp(`^ *(fix +)?(/\S+|\w+[._/:]\S*|Limit[A-Z]\w+):?( {2,}| \d|$)|^ *fix  |^ +(fettle|sudo|kubectl|oc|satellite-installer|systemctl) `)

const units = `(?:[KMGT]i?B(?:/s)?|bytes|ns|us|ms|s|min|h|d|%)`

// figureFaults match badly written numbers. In each the first group is the number.
var figureFaults = []struct {
	what string
	find func() *regexp.Regexp
}{
	{"no commas", internaltext.LazyRegexp(`(?:^|[ (])(\d{5,})(?:$|[ ,;:)]|\.(?:$| ))`)},
	{"an exponent", internaltext.LazyRegexp(`\b(\d+(?:\.\d+)?e[+-]\d+)\b`)},
	{"too many digits", internaltext.LazyRegexp(`(?:^|[ (])-?((?:\d[\d,]{2,}\.\d+|\d{2}\.\d{2,}|[1-9]\.\d{3,}|0\.0*[1-9]\d{3,})) ?` + units + `(?:$|[ ,;:)])`)},
	{"plural of one", internaltext.LazyRegexp(`(?:^|[ (])(1 (?:\w+[- ])?(?:lines|requests|[a-z]*CPUs|cores|threads|workers|processes|files|bytes|values|settings|rules|findings|hosts|nodes|pods|connections|clients|runs|rounds|items|groups|problems|warnings|seconds|minutes|hours|days|times|pages|messages|tasks|disks|places|reports|steps|cells|samples|blocks|names|profiles|others|errors|servers|ports|jobs|members|keys|entries|rows|figures|addresses|classes|machines|interpreters))(?:$|[ ,;:).])`)},
	{"singular of several", internaltext.LazyRegexp(`(?:^|[ (])((?:0|[2-9]|\d[\d,.]*\d) (?:line|request|CPU|core|thread|worker|process|file|byte|value|setting|rule|finding|host|node|pod|connection|client|run|round|item|group|problem|warning|second|minute|hour|day|page|message|task|disk|place|report|step|cell|sample|block|profile|error|server|port|job|member|key|entry|row|figure|address|machine))(?:$|[,;:).]| (?:of|with|in|is|are|and|that|which|to|would|for|could)\b)`)},
	{"a unit without a number", internaltext.LazyRegexp(`(?:[-:;(]|limit|wanted|least|most|about|of) +((?:[KMGT]iB|%)(?:/s)?)(?:$|[ ,;:)])`)},
}

// Figures returns the badly written numbers in an output for people: five or more digits without
// commas, exponents, more than three significant digits with a unit, a wrong plural, and a unit
// without a number. It does not judge commands, quotations and the values of settings.
func Figures(output string) []string {
	var out []string
	for _, line := range logicalLines(withoutPIDs(output)) {
		whole := settingRow().MatchString(line)
		left := exact().ReplaceAllString(line, "…0")
		for _, f := range figureFaults {
			if m := f.find().FindStringSubmatch(left); m != nil && !(whole && f.what == "no commas") {
				out = append(out, fmt.Sprintf("%s (%s): %s", m[1], f.what, line))
			}
		}
	}
	return out
}

// pidTitle matches the title of a column of process IDs.
var pidTitle = internaltext.LazyRegexp(`(?:^|  )pid(?:$|  )`)

// withoutPIDs returns the output without the process IDs in tables. Their columns are aligned to
// the right.
func withoutPIDs(output string) string {
	lines := strings.Split(output, "\n")
	end := 0 // of the column, or 0 outside of such a table
	for i, line := range lines {
		switch title := pidTitle().FindStringIndex(line); {
		case title != nil:
			end = len(strings.TrimRight(line[:title[1]], " "))
		case line == "":
			end = 0
		case 0 < end && end <= len(line):
			lines[i] = strings.TrimRight(line[:end], "0123456789") + "…" + line[end:]
		}
	}
	return strings.Join(lines, "\n")
}

// logicalLines joins wrapped lines, which are indented by four or more blanks, to the line above.
func logicalLines(output string) []string {
	var out []string
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\r\n ")
		text := strings.TrimLeft(line, " ")
		if n := len(out); n > 0 && len(line)-len(text) >= 4 && out[n-1] != "" && text != "" && !settingRow().MatchString(line) {
			out[n-1] += " " + text
			continue
		}
		out = append(out, line)
	}
	return out
}
