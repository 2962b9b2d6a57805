package cli

import (
	"encoding/json"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// headlineVerbs are calls that work on a copy of a machine. Those whose rows may be folded
// print at most 40 lines.
var headlineVerbs = []struct {
	call   string
	folded bool
}{
	{"check", true},
	{"check linux", true},
	{"check --details", false},
	{"check --all", false},
	{"facts", true},
	{"recommend", true},
	{"list", true},
	{"list plugins", false},
	{"rules list", false},
	{"show virtual-guest", true},
	{"show throughput-performance", true},
	{"rules show S12", false},
	{"check satellite", true},
	{"check postgresql --details", false},
	{"check --explain T19", true},
	{"diff", false},
	{"size puppet --ram 16GiB --log ../../examples/logs/puppet.log", true},
	{"size httpd --log ../../internal/logformat/testdata/real/httpd-combined_TD.log", true},
	{"size router --log ../../internal/logformat/testdata/real/haproxy-local.log", true},
	{"schedule next", true},
	{"status", true},
	{"diff throughput-performance", false},
	{"diff virtual-guest", false},
	{"diff openshift-control-plane", false},
	{"verify latency-performance", false},
	{"why vm.swappiness", false},
	{"why vm.dirty_ratio", false},
	{"schedule list", true},
	{"numa show", true},
	{"power", true},
	{"irq show", true},
}

// On every recorded machine the first lines are the headline that the JSON output has, with the
// figures of these lines; on a terminal of 80 columns no line is longer but a path or command
// that stands alone.
func TestHeadlines(t *testing.T) {
	machines, err := filepath.Glob("../../testdata/hosts/*.txt")
	if err != nil || len(machines) < 15 {
		t.Fatalf("%d machines, %v", len(machines), err)
	}
	each := len(machines) / testkitroot.Sample(len(machines))
	for i, machine := range machines {
		if i%each != 0 {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(machine), ".txt"), func(t *testing.T) {
			t.Parallel()
			for _, v := range headlineVerbs {
				args := append([]string{"--root", machine, "--state-dir", filepath.Join(t.TempDir(), "state")}, strings.Fields(v.call)...)
				checkHeadline(t, v.call, args, v.folded)
			}
		})
	}
}

// headlineOf returns the headline of the JSON output; ok is false for the reason of a setting
// that the machine does not have.
func headlineOf(t *testing.T, args []string) (h ui.Headline, ok bool) {
	t.Helper()
	var out strings.Builder
	code := Main("test", append(args, "--output", "json"), &out, io.Discard)
	var doc struct {
		Headline ui.Headline `json:"headline"`
	}
	if err := json.Unmarshal([]byte(out.String()), &doc); err != nil || len(doc.Headline.Lines) == 0 || len(doc.Headline.Lines) > 3 {
		if code == ui.Failed && slices.Contains(args, "why") {
			return h, false
		}
		t.Fatalf("%v: headline %q, %v", args, doc.Headline.Lines, err)
	}
	return doc.Headline, code != ui.Failed
}

var figure = regexp.MustCompile(`\d[\d,]*(\.\d+)?`)

// checkFigures reports counts that are not in the lines of their headline.
func checkFigures(t *testing.T, call string, h ui.Headline) {
	t.Helper()
	var printed []string
	for _, f := range figure.FindAllString(strings.Join(h.Lines, " "), -1) {
		printed = append(printed, strings.ReplaceAll(strings.TrimRight(f, ","), ",", ""))
	}
	for name, v := range h.Figures {
		if strings.HasSuffix(name, "_bytes") || strings.HasSuffix(name, "_mib") || strings.HasSuffix(name, "_s") {
			continue // printed in another unit
		}
		if want := strings.ReplaceAll(unit.Digits(v), ",", ""); !slices.Contains(printed, want) {
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

func firstLines(s string, n int) string {
	lines := strings.SplitN(s, "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], "\n")
}

// onTerminal returns what a call prints on a terminal that is so many columns wide.
func onTerminal(t *testing.T, args []string, columns uint16) string {
	t.Helper()
	side, shown := testkitroot.Screen(t, columns)
	Main("test", args, side, io.Discard)
	return shown()
}
