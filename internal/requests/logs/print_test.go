package logs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/requests/formats"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/requests/source"
	"fettle.dev/fettle/internal/ui"
)

// recordedLogs returns the recorded logs of real and documented programs.
func recordedLogs(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("../../logformat/testdata/*/*.log")
	if err != nil || len(paths) < 30 {
		t.Fatalf("%d logs, %v", len(paths), err)
	}
	return paths
}

// reportOf reads a log as the verb logs does. It returns nil if its format needs an option.
func reportOf(t *testing.T, path string) *logs.Report {
	t.Helper()
	found, err := source.Find(host.Live(), []string{path})
	if err != nil {
		t.Fatal(err)
	}
	set := source.NewSet(found)
	finder := formats.Finder{NoDurations: true}
	of, err := finder.Find(set)
	if err != nil {
		t.Logf("%s: %v", path, err)
		return nil
	}
	by, err := logs.Usual(set, of)
	if err != nil {
		t.Fatal(err)
	}
	r, err := logs.Read(context.Background(), set, of, logs.Options{By: by, Percentiles: true, Groups: 1000, Workers: 1, Slowest: 5})
	if err != nil {
		t.Fatal(err)
	}
	finder.Another(r)
	return r.Report("total", 10)
}

// screen returns a screen of a terminal of so many columns (0: a pipe), and its output.
func screen(width int) (*ui.Screen, *bytes.Buffer) {
	var out bytes.Buffer
	return &ui.Screen{Out: &out, Err: &out, Format: ui.Table, Width: width, Call: func(r ui.Remedy) string { return "fettle logs FILE " + strings.Join(r.Options, " ") }}, &out
}

// TestPrintFits checks that the report of every recorded log fits a terminal of 80 columns and
// 40 lines, except for paths and commands, which stand alone on a line and whole, and that a pipe
// has the same in at most as many lines.
func TestPrintFits(t *testing.T) {
	t.Parallel()
	read := 0
	for _, path := range recordedLogs(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			r := reportOf(t, path)
			if r == nil {
				return
			}
			read++
			for _, width := range []int{0, 80} {
				s, out := screen(width)
				logs.Print(s, r, logs.Shown{})
				lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
				if len(lines) > 40 {
					t.Errorf("width %d: %d lines:\n%s", width, len(lines), out)
				}
				for _, l := range lines {
					alone := strings.HasPrefix(l, "    fettle ") || len(strings.Fields(l)) == 1
					if width > 0 && utf8.RuneCountInString(l) > width && !alone {
						t.Errorf("longer than %d columns: %s", width, l)
					}
					if width == 0 && strings.Contains(l, "…") {
						t.Errorf("cut on a pipe: %s", l)
					}
				}
			}
		})
	}
	if read < 30 {
		t.Errorf("only %d logs have a known format", read)
	}
}

// headlineFigures maps the figures of a headline to their values in the document.
var headlineFigures = map[string]string{
	"requests": "requests", "span_s": "span_s", "total_s": "all.total_s", "errors": "all.errors", "untimed": "all.untimed", "left_out": "left_out", "unread_lines": "unread.lines",
	"went_to_requests": "went_to.count", "went_to_total_s": "went_to.total_s", "went_to_mean_s": "went_to.mean_s",
	"most_asked_requests": "most_asked.count", "most_asked_total_s": "most_asked.total_s", "most_asked_mean_s": "most_asked.mean_s",
}

// TestHeadlineFigures checks that the lines printed first are those of the JSON document, and
// their figures those of its fields.
func TestHeadlineFigures(t *testing.T) {
	t.Parallel()
	for _, path := range recordedLogs(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			r := reportOf(t, path)
			if r == nil {
				return
			}
			s, out := screen(0)
			logs.Print(s, r, logs.Shown{})
			text, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			var doc map[string]any
			if err := json.Unmarshal(text, &doc); err != nil {
				t.Fatal(err)
			}
			h := doc["headline"].(map[string]any)
			var lines []string
			for _, l := range h["lines"].([]any) {
				lines = append(lines, l.(string))
			}
			if len(lines) < 1 || len(lines) > 3 || !strings.HasPrefix(out.String(), strings.Join(lines, "\n")+"\n") {
				t.Errorf("the first lines of\n%s\nare not %q", out, lines)
			}
			figures := h["figures"].(map[string]any)
			for name, v := range figures {
				at, known := headlineFigures[name]
				want := any(nil)
				switch name {
				case "lines":
					want = float64(r.Requests + r.LeftOut + r.OtherLines + r.Unread.Lines)
				case "unread_percent":
					want = 100 * float64(r.Unread.Lines) / float64(r.Requests+r.LeftOut+r.OtherLines+r.Unread.Lines)
				case "went_to_share_percent":
					want = 100 * *r.WentTo.Share
				case "most_asked_share_percent":
					want = 100 * float64(r.MostAsked.Count) / float64(r.Requests)
				default:
					if !known {
						t.Errorf("no field is known for %s", name)
						continue
					}
					want = field(doc, at)
				}
				if number, ok := want.(float64); !ok || math.Abs(number-v.(float64)) > 1e-9*math.Abs(number) {
					t.Errorf("%s is %v, the document has %v", name, v, want)
				}
			}
			if _, ok := figures["requests"]; !ok {
				t.Error("no figure for requests")
			}
		})
	}
}

// field returns a member of a document by its path.
func field(doc map[string]any, path string) any {
	var at any = doc
	for name := range strings.SplitSeq(path, ".") {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[name]
	}
	return at
}

// TestLongKeys checks that a key is shortened in its middle on a terminal only, and that then
// optional columns are omitted.
func TestLongKeys(t *testing.T) {
	t.Parallel()
	long := "GET /" + strings.Repeat("directory/", 9) + "end"
	grid := func() ui.Grid {
		g := ui.Grid{Columns: []ui.Column{{Head: "path"}, {Head: "mean", Right: true}, {Head: "p50", Optional: true}, {Head: "total", Wide: true}}}
		g.Rows = [][]string{{long, "12.3 ms", strings.Repeat("5", 40), "1 s"}, {"GET /", "900 ms", "2 s", "3 s"}}
		return g
	}
	for _, c := range []struct {
		width int
		wide  bool
		want  []string
		never []string
	}{
		{0, false, []string{long, "p50"}, []string{"…", "total"}},
		{0, true, []string{long, "total"}, []string{"…"}},
		{60, true, []string{long, "total"}, []string{"…"}},
		{60, false, []string{"…", "GET /directory", "end", "mean"}, []string{"p50", "total"}},
		{100, false, []string{"…", "p50"}, []string{"total"}},
	} {
		s, out := screen(c.width)
		s.Wide = c.wide
		logs.WriteKeyed(s, grid())
		for _, w := range c.want {
			if !strings.Contains(out.String(), w) {
				t.Errorf("width %d, wide %v: no %q in\n%s", c.width, c.wide, w, out)
			}
		}
		for _, w := range c.never {
			if strings.Contains(out.String(), w) {
				t.Errorf("width %d, wide %v: %q in\n%s", c.width, c.wide, w, out)
			}
		}
		for l := range strings.Lines(out.String()) {
			if c.width > 0 && !c.wide && utf8.RuneCountInString(l) > c.width+1 {
				t.Errorf("longer than %d: %s", c.width, l)
			}
		}
	}
}

// TestFold checks that rows are shown up to the limit, at least one of each table.
func TestFold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rows  []int
		lines int
		want  []int
	}{
		{[]int{3, 2}, 9, []int{3, 2}},
		{[]int{3, 2}, 8, []int{1, 1}}, // three lines name what is left
		{[]int{10, 10, 10, 10}, 25, []int{6, 3, 3, 2}},
		{[]int{10, 10}, 1, []int{1, 1}},
		{[]int{}, 5, []int{}},
		{[]int{2, 10}, 15, []int{2, 6}},
	} {
		if got := logs.Fold(c.rows, c.lines); !slices.Equal(got, c.want) {
			t.Errorf("%v in %d lines: %v, want %v", c.rows, c.lines, got, c.want)
		}
	}
}

// TestPrintManyGroups checks the limit of 40 lines for a report of many groups, hours, logs and
// unread lines, which are all longer than the terminal.
func TestPrintManyGroups(t *testing.T) {
	t.Parallel()
	r := reportOf(t, "../../logformat/testdata/real/httpd-combined_D.log")
	long := strings.Repeat("long/", 40)
	for i := range r.By {
		of := r.By[i].Top[0]
		r.By[i].Top, r.By[i].Groups = nil, 500
		for k := range 10 {
			of.Key = []string{fmt.Sprint("/", k, long)}
			r.By[i].Top = append(r.By[i].Top, of)
		}
	}
	for len(r.Logs) < 50 {
		r.Logs = append(r.Logs, r.Logs[0])
	}
	for len(r.Hours) < 100 {
		r.Hours = append(r.Hours, r.Hours[0])
	}
	for len(r.NotRead) < 20 {
		r.NotRead = append(r.NotRead, source.NotRead{Path: "access.log.xz", Why: "compressed by xz"})
	}
	r.Unread = logs.UnreadLines{Lines: 9, Examples: []logs.UnreadLine{{Path: "a.log", Line: 1, Text: long + long}, {Path: "a.log", Line: 2, Text: "b"}, {Path: "a.log", Line: 3, Text: "c"}}}
	s, out := screen(80)
	logs.Print(s, r, logs.Shown{})
	if n := strings.Count(out.String(), "\n"); n > 40 {
		t.Errorf("%d lines:\n%s", n, out)
	}
	for _, want := range []string{"not shown: ", "(48 more: --wide)", "incomplete: also 18 files; --wide shows the names", "busiest hour of 100 (--wide)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	s, out = screen(80)
	s.Wide = true
	logs.Print(s, r, logs.Shown{})
	if n := strings.Count(out.String(), long); n < 10*len(r.By) || strings.Contains(out.String(), "not shown: 499") {
		t.Errorf("--wide shows %d whole keys:\n%s", n, out)
	}
}

// TestPrintComparisonFits checks that a comparison fits 80 columns and 40 lines, and that its
// first lines are those of the JSON document.
func TestPrintComparisonFits(t *testing.T) {
	t.Parallel()
	path := "../../logformat/testdata/real/httpd-combined_TD.log"
	finder := formats.Finder{NoDurations: true}
	c, err := logs.Compare(context.Background(), host.Live(), []string{path}, []string{path}, finder.Find, logs.Options{By: [][]string{{"path"}}, Groups: 1000, Workers: 1}, "total", 0)
	if err != nil {
		t.Fatal(err)
	}
	for len(c.Groups) < 60 {
		x := c.Groups[0]
		x.Key = []string{fmt.Sprint("/", len(c.Groups), strings.Repeat("/long", 30))}
		c.Groups = append(c.Groups, x)
	}
	for _, width := range []int{0, 80} {
		s, out := screen(width)
		logs.PrintComparison(s, c, false)
		if n := strings.Count(out.String(), "\n"); n > 40 {
			t.Errorf("%d lines:\n%s", n, out)
		}
		for l := range strings.Lines(out.String()) {
			if width > 0 && utf8.RuneCountInString(l) > width+1 && !strings.HasPrefix(l, "    fettle ") {
				t.Errorf("longer than %d columns: %s", width, l)
			}
		}
		if width == 0 && !strings.HasPrefix(out.String(), strings.Join(c.Headline.Lines, "\n")+"\n") {
			t.Errorf("the first lines of\n%s\nare not %q", out, c.Headline.Lines)
		}
	}
	if f := c.Headline.Figures; len(c.Headline.Lines) > 3 || f["before_requests"] != float64(c.Before.Requests) || f["after_requests"] != float64(c.After.Requests) || f["mix_s"] != *c.MixS || f["latency_s"] != *c.LatencyS {
		t.Errorf("figures %v of %+v", c.Headline.Figures, c)
	}
}
