package findings

import (
	"bytes"
	"encoding/json"
	"html"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/ui"
)

// The published schema of SARIF 2.1.0 holds, whatever the machine's text is.
func TestSARIF(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("testdata/sarif/sarif-schema-2.1.0.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, all := range []bool{false, true} {
		for _, text := range []string{"plain", hostile} {
			a, old := sample(text), sample(text)
			old.Findings = old.Findings[1:]
			old.Findings = append(old.Findings, rule.Finding{ID: "W1", Instance: "gone", State: rule.Failed, Title: text})
			a.Against("before.json", old)
			a.Root = "/tmp/a copy"
			var out bytes.Buffer
			if err := SARIF(&out, "1.2.3", all, a, sample("second")); err != nil {
				t.Fatal(err)
			}
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(out.Bytes()))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(doc); err != nil {
				t.Errorf("%v\n%s", err, &out)
			}
		}
	}
	var out bytes.Buffer
	a := sample("plain")
	a.Root = "/tmp/a copy"
	if err := SARIF(&out, "1.2.3", false, a); err != nil {
		t.Fatal(err)
	}
	var log sarifLog
	if err := json.Unmarshal(out.Bytes(), &log); err != nil {
		t.Fatal(err)
	}
	run := log.Runs[0]
	if got := run.BaseURIs[machineBase].URI; got != "file:///tmp/a%20copy/" {
		t.Errorf("the base is %s", got)
	}
	for _, r := range run.Results {
		if rule := run.Tool.Driver.Rules[r.RuleIndex]; rule.ID != r.RuleID {
			t.Errorf("result of %s has the rule %s", r.RuleID, rule.ID)
		}
		if (r.Kind == "fail") != (r.Level != "none") {
			t.Errorf("%s is of kind %s and level %s", r.RuleID, r.Kind, r.Level)
		}
		if r.RuleID == "F1" {
			p := r.Locations[0].Physical
			if p == nil || p.Artifact.URI != "etc/sysctl.d/90.conf" || p.Region == nil || p.Region.StartLine != 12 {
				t.Errorf("the place of F1 is %+v", p)
			}
		}
		if r.RuleID == "W2" && r.Locations[0].Physical != nil {
			t.Errorf("a pattern is no file: %+v", r.Locations[0].Physical)
		}
	}
	if n := len(run.Results); n != 6 { // the disabled one is a suppressed result
		t.Errorf("%d results, want 6", n)
	}
	// A schema that holds for everything would show nothing.
	broken := bytes.Replace(out.Bytes(), []byte(`"level": "error"`), []byte(`"level": "bad"`), 1)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(broken))
	if err != nil || schema.Validate(doc) == nil {
		t.Errorf("the schema does not see a wrong level (%v)", err)
	}
}

// The title of a series is that of its state: "the machine swaps" of a warning.
func TestOpenMetricsTitles(t *testing.T) {
	a := NewAudit("m", time.Time{}, []string{"linux"}, []rule.Finding{{ID: "A", Title: "All is well", Failed: "It is broken", State: rule.Failed}})
	var out bytes.Buffer
	if err := OpenMetrics(&out, a); err != nil || !strings.Contains(out.String(), `title="It is broken"`) {
		t.Errorf("%v: %s", err, &out)
	}
}

// A failed item keeps its fix when another one has passed; a long command of another machine has a
// line of its own; what fettle fix does not write is explained.
func TestFixLines(t *testing.T) {
	r := &rule.Rule{ID: "A", Title: "fine", Failed: "broken", Why: "because"}
	bad := rule.Finding{Rule: r, ID: "A", Title: r.Title, Failed: r.Failed, State: rule.Warned, Instance: "x", Measured: 1.0, Want: 2.0, Why: r.Why, Fix: &rule.Repair{Changes: []rule.Entry{{Name: "sysctl:vm.x", Value: "2"}}}}
	good := bad
	good.State, good.Instance, good.Fix = rule.Passed, "y", nil
	print := func(with func(s *ui.Screen, a *Audit), all ...rule.Finding) string {
		a := NewAudit("m", time.Time{}, []string{"linux"}, all)
		a.Copied = true
		a.Conclude()
		var out bytes.Buffer
		with(&ui.Screen{Out: &out, Err: &out, Width: 80}, a)
		return out.String()
	}
	explained := print(func(s *ui.Screen, a *Audit) { PrintExplained(s, a, false) }, bad, good)
	if !strings.Contains(explained, "fettle fix A\n") || strings.Contains(explained, "--rule") {
		t.Errorf("explained:\n%s", explained)
	}
	long, file := bad, bad
	long.ID, long.Fix = "B", &rule.Repair{Command: "satellite-installer --foreman-foreman-service-puma-workers 26 && satellite-maintain health check"}
	file.ID, file.Fix = "C", &rule.Repair{Artefact: "kernel command line", Entries: []rule.Entry{{Name: "elevator", Value: "(remove)"}}}
	short := print(func(s *ui.Screen, a *Audit) { Print(s, a, View{}) }, long, file)
	for _, want := range []string{"    on that machine:\n    satellite-installer ", " check --explain C\n"} {
		if !strings.Contains(short, want) {
			t.Errorf("no %q in:\n%s", want, short)
		}
	}
}

var metricLine = regexp.MustCompile(`^[a-z_]+(\{[a-z_]+="([^"\\\n]|\\["\\n])*"(,[a-z_]+="([^"\\\n]|\\["\\n])*")*\})? -?[0-9.e+]+$`)

func TestOpenMetrics(t *testing.T) {
	for _, text := range []string{"plain", hostile} {
		a := sample(text)
		a.Against("x", &Audit{})
		var out bytes.Buffer
		if err := OpenMetrics(&out, a); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(out.String(), "\n# EOF\n") {
			t.Errorf("no end:\n%s", &out)
		}
		seen := map[string]bool{}
		for line := range strings.Lines(out.String()) {
			line = strings.TrimSuffix(line, "\n")
			if strings.HasPrefix(line, "# HELP ") || strings.HasPrefix(line, "# TYPE ") || line == "# EOF" {
				continue
			}
			if !metricLine.MatchString(line) {
				t.Errorf("not a sample: %q", line)
			}
			series := line[:strings.LastIndexByte(line, ' ')]
			if seen[series] {
				t.Errorf("twice: %s", series)
			}
			seen[series] = true
		}
		for _, want := range []string{`fettle_check_findings{state="warn"} 2`, `fettle_check_rules{state="warn"} 1`, `fettle_check_measured{id="W1",item="b"} 12.5`, `fettle_check_wanted{id="W1",item="b"} 10`, "fettle_check_time_seconds 1795316645"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in:\n%s", want, &out)
			}
		}
		if promtool := os.Getenv("FETTLE_TEST_PROMTOOL"); promtool != "" {
			check := exec.Command(promtool, "check", "metrics")
			check.Stdin = &out
			if said, err := check.CombinedOutput(); err != nil {
				t.Errorf("promtool: %v\n%s", err, said)
			}
		}
	}
}

func TestFindingsMarkdown(t *testing.T) {
	var out bytes.Buffer
	if err := Markdown(&out, sample(hostile), true); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script", "@everyone", "://", "\x1b", "\u202e", "\n# HELP"} {
		if strings.Contains(out.String(), bad) {
			t.Errorf("%q is in:\n%s", bad, &out)
		}
	}
	out.Reset()
	if err := Markdown(&out, sample("plain"), false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"## ✗ fail: W2 Rule W2 plain", "- because of F1", "- b: 12.5 %, wanted 10 %", "- source: handbook, plain"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "P1") {
		t.Error("what has passed is listed")
	}
}

// A command can be copied as it is; one that would not stay code is text.
func TestMarkdownCode(t *testing.T) {
	for in, want := range map[string]string{
		"sysctl -w a.b=1 && sysctl --system": "`sysctl -w a.b=1 && sysctl --system`",
		`oc patch x -p '{"spec":{"a_b":*}}'`: "`oc patch x -p '{\"spec\":{\"a_b\":*}}'`",
		"echo `id`":                          "echo \\`id\\`",
		"a </code><script>":                  "a &lt;/code\\>&lt;script\\>",
		"mail @everyone":                     "mail @\u200beveryone",
		"a\x1b[2J":                           MarkdownText("a\x1b[2J"),
		"":                                   "",
	} {
		if got := markdownCode(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	r := &rule.Rule{ID: "X", Severity: rule.Warn}
	f := rule.Finding{Rule: r, ID: "X", Title: "x", State: rule.Warned, Fix: &rule.Repair{Command: "a && b", Text: "first this"}}
	var out bytes.Buffer
	if err := Markdown(&out, NewAudit("m", time.Now(), nil, []rule.Finding{f}), false); err != nil || !strings.Contains(out.String(), "- fix: first this\n- fix: then `a && b`\n") {
		t.Errorf("%v\n%s", err, &out)
	}
}

func TestMarkdownText(t *testing.T) {
	for in, want := range map[string]string{
		"a_b *c*": `a\_b \*c\*`, "- list": `\- list`, "<b>": `&lt;b\>`, "#12": "#\u200b12", "x | y": `x \| y`, "two\nlines": "two lines", "&amp;": "&amp;amp;", "&#60;": "&amp;#\u200b60;", "a && b&": "a && b&",
	} {
		if got := MarkdownText(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

// pageOf returns the page of an audit.
func pageOf(t *testing.T, a *Audit) string {
	t.Helper()
	var out bytes.Buffer
	s := &ui.Screen{Out: &out, Err: io.Discard, Format: ui.HTML}
	s.StartPage("fettle check", "")
	Page(s, a)
	if err := s.EndPage(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestFindingsPage(t *testing.T) {
	a := sample(hostile)
	a.Against("x", sample(hostile))
	text := pageOf(t, a)
	text = strings.ReplaceAll(text[:strings.LastIndex(text, "<script>")], "{{.}}", "") // without our own script
	for _, bad := range []string{"<script", "\x1b", "\u202e", "ZgotmplZ", "{{", "src=", "@import", "url("} {
		if strings.Contains(text, bad) {
			t.Errorf("%q is in the page", bad)
		}
	}
	if !strings.Contains(html.UnescapeString(text), "<script>alert(1)</script>") {
		t.Error("the machine's text is not shown at all")
	}
}

func FuzzForms(f *testing.F) {
	f.Add(hostile)
	f.Add("plain")
	f.Fuzz(func(t *testing.T, text string) {
		a := sample(text)
		var out bytes.Buffer
		if err := OpenMetrics(&out, a); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if line = strings.TrimSuffix(line, "\n"); !strings.HasPrefix(line, "# ") && !metricLine.MatchString(line) {
				t.Fatalf("%q is no sample", line)
			}
		}
		out.Reset()
		if err := SARIF(&out, "x", true, a); err != nil || !json.Valid(out.Bytes()) {
			t.Fatalf("SARIF of %q: %v", text, err)
		}
		pageOf(t, a)
		if md := MarkdownText(text); strings.ContainsAny(md, "<\n\x1b") {
			t.Fatalf("%q becomes %q", text, md)
		}
	})
}
