package calls

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"fettle.dev/fettle/internal/testkit/root"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Headlines checks that the schema of each kind of JSON output has a headline, except the kinds
// in without, which gives the reason.
func Headlines(t *testing.T, documents map[string]any, without map[string]string) {
	for kind, doc := range documents {
		text, err := ui.Schema("fettle/"+kind+"/v1", doc)
		if err != nil {
			t.Fatal(err)
		}
		var schema struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if err := json.Unmarshal(text, &schema); err != nil {
			t.Fatal(err)
		}
		_, has := schema.Properties["headline"]
		if why, excepted := without[kind]; has == excepted {
			t.Errorf("%s has a headline: %v; excepted: %q", kind, has, why)
		}
	}
}

// Headline checks that a call prints the headline of its JSON output first, on a pipe and on a
// terminal of 80 columns, and that the terminal's lines fit. A folded output has at most 40 lines.
// It reports whether the call has a result.
func (p Program) Headline(t *testing.T, call string, args []string, folded bool) bool {
	t.Helper()
	h, ok := p.headlineOf(t, args)
	if !ok {
		return false
	}
	_, pipe, said := p.run(args)
	if !strings.HasPrefix(pipe, strings.Join(h.Lines, "\n")+"\n") {
		t.Errorf("%s: the output begins with %q, the headline is %q", call, pipe[:min(len(pipe), 200)], h.Lines)
	}
	checkFigures(t, call, h)
	if line := padded().FindString(pipe); line != "" && !strings.HasPrefix(call, "rules show") { // which shows tables as they are
		t.Errorf("%s: on a pipe a column before the last is padded to its longest cell: %q", call, line)
	}
	side, shown := root.Screen(t, 80)
	p.Main("test", args, side, io.Discard)
	terminal := shown()
	checkLines(t, call, terminal, folded)
	for _, fault := range Figures(terminal + said) {
		t.Errorf("%s: %s", call, fault)
	}
	if got, want := joined(terminal), joined(strings.Join(h.Lines, "\n")); !strings.HasPrefix(got, want) {
		t.Errorf("%s: on a terminal the output begins with %q, the headline is %q", call, got[:min(len(got), len(want))], want)
	}
	return true
}

// headlineOf returns the headline of the JSON output. ok is false if the call failed; a document
// without a headline is then no error for the reason of a setting that the machine does not have.
func (p Program) headlineOf(t *testing.T, args []string) (h ui.Headline, ok bool) {
	t.Helper()
	code, out, said := p.run(append(slices.Clip(args), "--output", "json"))
	var doc struct {
		Headline ui.Headline `json:"headline"`
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil || len(doc.Headline.Lines) == 0 || len(doc.Headline.Lines) > 3 {
		if code == ui.Failed && slices.Contains(args, "why") {
			return h, false
		}
		t.Fatalf("%v: headline %q, %v: %s", args, doc.Headline.Lines, err, said)
	}
	return doc.Headline, code != ui.Failed
}

// padded matches a line with a column that one long cell widens.
var padded = internaltext.LazyRegexp(`(?m)^.*\S {120,}\S.*$`)

var number = internaltext.LazyRegexp(`\d[\d,]*(\.\d+)?`)

// checkFigures reports counts that are not in the lines of their headline.
func checkFigures(t *testing.T, call string, h ui.Headline) {
	t.Helper()
	var printed []string
	for _, f := range number().FindAllString(strings.Join(h.Lines, " "), -1) {
		printed = append(printed, strings.ReplaceAll(strings.TrimRight(f, ","), ",", ""))
	}
	for name, v := range h.Figures {
		if strings.HasSuffix(name, "_bytes") || strings.HasSuffix(name, "_mib") || strings.HasSuffix(name, "_s") {
			continue // printed in another unit
		}
		whole := strings.HasSuffix(name, "_percent") && slices.Contains(printed, fmt.Sprintf("%.0f", v))
		if want := strings.ReplaceAll(unit.Digits(v), ",", ""); !whole && !slices.Contains(printed, want) {
			t.Errorf("%s: %s is %s, the lines have %q", call, name, want, printed)
		}
	}
}

func checkLines(t *testing.T, call, out string, folded bool) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if folded && len(lines) > 40 {
		t.Errorf("%s: %d lines", call, len(lines))
	}
	for _, l := range lines {
		alone := len(strings.Fields(l)) == 1 || strings.HasPrefix(l, "    ") // a path, or a command that can be copied
		if n := utf8.RuneCountInString(l); n > 80 && !alone {
			t.Errorf("%s: a line of %d: %q", call, n, l)
		}
	}
}

func joined(s string) string { return strings.Join(strings.Fields(s), " ") }
