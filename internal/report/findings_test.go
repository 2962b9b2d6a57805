package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"fettle.dev/fettle/internal/rule"
	"fettle.dev/fettle/internal/ui"
)

// hostile is text of a machine that would act on each of the forms, were it not
// escaped.
const hostile = "\x1b[2J</td><script>alert(1)</script>\"}\n# HELP x\r`|[x](http://evil.example)@everyone \\ \xff\u202e{{.}}"

// sample is an audit that has everything.
func sample(text string) *Audit {
	find := func(id string, state rule.State, more func(*rule.Finding)) rule.Finding {
		r := &rule.Rule{ID: id, Title: "Rule " + id + " " + text, Platforms: []string{"linux"}, Severity: rule.Warn, Why: "because " + text, Sources: []rule.Source{{Document: "004", Section: text}}}
		f := rule.Finding{Rule: r, ID: id, Title: r.Title, State: state, Why: r.Why, Sources: r.Sources}
		if more != nil {
			more(&f)
		}
		return f
	}
	return NewAudit("a machine "+text, time.Date(2026, 11, 22, 3, 4, 5, 0, time.UTC), []string{"linux"}, []rule.Finding{
		find("P1", rule.Passed, func(f *rule.Finding) { f.Measured, f.Want, f.At = 1.0, 1.0, []string{"/proc/x"} }),
		find("W1", rule.Warned, func(f *rule.Finding) {
			f.Instance, f.Measured, f.Want, f.At = text, text, "other", []string{"/etc/a file%41" + text + ":7", "ethtool -k"}
			f.Fix = &rule.Repair{Changes: []rule.Entry{{Name: "sysctl:vm.x", Value: text}}, Text: text}
		}),
		find("W1", rule.Warned, func(f *rule.Finding) { f.Instance, f.Measured, f.Want, f.Unit = "b", 12.5, 10.0, "%" }),
		find("W2", rule.Failed, func(f *rule.Finding) { f.Because, f.Measured, f.At = "F1", []string{text}, []string{"/sys/*/y"} }),
		find("F1", rule.Failed, func(f *rule.Finding) { f.Measured, f.At = "x", []string{"/etc/sysctl.d/90.conf:12"} }),
		find("U1", rule.Unknown, func(f *rule.Finding) { f.Reason = "missing " + text }),
		find("N1", rule.NotApplicable, func(f *rule.Finding) { f.Reason = rule.Disabled + text }),
		find("R1", rule.Reminded, nil),
	})
}

// A rule counts once, in the worst of its states; its items are counted beside.
func TestCounts(t *testing.T) {
	f := func(id, instance string, s rule.State) rule.Finding {
		return rule.Finding{ID: id, Instance: instance, State: s}
	}
	a := NewAudit("m", time.Time{}, []string{"linux"}, []rule.Finding{
		f("A", "1", rule.Passed), f("A", "2", rule.Warned), f("A", "3", rule.Failed), f("B", "", rule.NotApplicable), f("C", "x", rule.Passed), f("C", "y", rule.NotApplicable),
	})
	if got, want := a.countWords(), "linux: 1 fail, 0 warn (1 item), 0 unknown, 1 pass (2 items), 1 not-applicable (2 items), 0 reminder, of 3 rules"; got != want {
		t.Errorf("%q", got)
	}
	a = NewAudit("m", time.Time{}, []string{"linux"}, []rule.Finding{f("A", "", rule.Passed), f("B", "", rule.Failed)})
	if got := a.countWords(); strings.Contains(got, "item") {
		t.Errorf("each rule has one item, and yet: %q", got)
	}
}

// Things of which a rule says the same are in one line, and a fraction has the digits
// that matter; a path begins where it is read.
func TestAlike(t *testing.T) {
	r := &rule.Rule{ID: "A", Title: "t"}
	var all []rule.Finding
	for i := range 9 {
		name := "policy" + string(rune('0'+i))
		all = append(all, rule.Finding{Rule: r, ID: "A", Instance: name, State: rule.Warned, Measured: "powersave", Want: "performance", At: []string{"/sys/" + name + "/governor"}})
		all = append(all, rule.Finding{Rule: r, ID: "B", Instance: name, State: rule.Unknown, Reason: "cpu." + name + ".busy: not recorded"})
	}
	all = append(all, rule.Finding{Rule: r, ID: "A", Instance: "other", State: rule.Warned, Measured: 126.55699138957812, Want: 0.0000125})
	all = append(all, rule.Finding{Rule: r, ID: "C", State: rule.Warned, Measured: 1160.0, Want: 1000.0, At: []string{"/etc/systemd/system/foreman.service.d/installer.conf:7", "/etc/foreman/database.yml:10"},
		Fix: &rule.Repair{Command: "satellite-installer", Text: "take the key out"}})
	var out bytes.Buffer
	Findings(&ui.Screen{Out: &out, Err: &out}, NewAudit("m", time.Time{}, []string{"linux"}, all), false)
	for _, want := range []string{
		"  policy0, policy1, policy2, policy3, policy4, policy5 and 3 more: powersave;\n    wanted performance (/sys/policy0/governor)\n  other: 126.56; wanted 0.000013\n",
		"  policy0, policy1, policy2, policy3, policy4, policy5 and 3 more: cpu.*.busy:\n    not recorded\n",
		"installer.conf:7,\n    /etc/foreman/database.yml:10)\n",
		"  fix: take the key out\n       then satellite-installer\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// Things of which a rule says nothing, each for a reason of its own, are counted after
// the first few.
func TestFewer(t *testing.T) {
	var all []rule.Finding
	for i := range 1000 {
		name := "key" + strconv.Itoa(i)
		all = append(all, rule.Finding{Rule: &rule.Rule{ID: "A"}, ID: "A", Instance: name, State: rule.Unknown, Reason: fmt.Sprintf("%d: /proc/sys/%d is not recorded", i, i)})
	}
	audit := NewAudit("m", time.Time{}, []string{"linux"}, all)
	var out, markdown, page bytes.Buffer
	Findings(&ui.Screen{Out: &out, Err: &out}, audit, false)
	if err := errors.Join(FindingsMarkdown(&markdown, audit, false), FindingsHTML(&page, audit)); err != nil {
		t.Fatal(err)
	}
	for form, text := range map[string]string{"table": out.String(), "markdown": markdown.String(), "html": page.String()} {
		if n := strings.Count(text, "is not recorded"); n != shown {
			t.Errorf("%s: %d reasons are told, want %d", form, n, shown)
		}
		if text = strings.Join(strings.Fields(text), " "); !strings.Contains(text, "key10, key11 and 988 more: reasons of their own (fettle check --explain A)") && form != "markdown" {
			t.Errorf("%s: the rest is not counted:\n%s", form, text)
		}
	}
}

func TestOrder(t *testing.T) {
	f := func(id string, s rule.State, because string) rule.Finding {
		return rule.Finding{ID: id, State: s, Because: because}
	}
	var got []string
	for _, g := range ordered([]rule.Finding{
		f("pass", rule.Passed, ""), f("warn", rule.Warned, ""), f("cause", rule.Warned, ""), f("fail", rule.Failed, "cause"),
		f("far", rule.Failed, "fail"), f("unknown", rule.Unknown, ""), f("alone", rule.Failed, "not here"), f("cause", rule.Warned, ""),
	}) {
		got = append(got, g.ID)
	}
	if want := []string{"alone", "warn", "cause", "cause", "fail", "far", "unknown", "pass"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestFindingsTable(t *testing.T) {
	for _, text := range []string{"plain", hostile, strings.Repeat("long ", 40), strings.Repeat("x", 300)} {
		var out bytes.Buffer
		Findings(&ui.Screen{Out: &out, Err: &out}, sample(text), true)
		for line := range strings.Lines(out.String()) {
			line = strings.TrimSuffix(line, "\n")
			if n := len([]rune(line)); n > 80 {
				t.Errorf("a line of %d columns: %q", n, line)
			}
			if ui.Printable(line) != line {
				t.Errorf("control characters in %q", line)
			}
		}
		if text != "plain" {
			continue
		}
		for _, want := range []string{"✗ fail  W2", "because of F1", "b: 12.5 %; wanted 10 %", "fix: fettle fix W1 (vm.x = plain)", "linux: 2 fail, 1 warn (2 items), 1 unknown, 1 pass, 1 not-applicable, 1\n  reminder, of 7 rules", "next: fettle fix W1"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in:\n%s", want, &out)
			}
		}
		if strings.Index(out.String(), "F1  Rule") > strings.Index(out.String(), "W2  Rule") {
			t.Errorf("the cause comes after its consequence:\n%s", &out)
		}
	}
}

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
		for _, want := range []string{`fettle_check_findings{state="warn"} 2`, `fettle_check_rules{state="warn"} 1`, `fettle_check_measured{id="W1",item="b"} 12.5`, `fettle_check_wanted{id="W1",item="b"} 10`, "fettle_check_time_seconds 1.795316645e+09"} {
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
	if err := FindingsMarkdown(&out, sample(hostile), true); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script", "@everyone", "://", "\x1b", "\u202e", "\n# HELP"} {
		if strings.Contains(out.String(), bad) {
			t.Errorf("%q is in:\n%s", bad, &out)
		}
	}
	out.Reset()
	if err := FindingsMarkdown(&out, sample("plain"), false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"## ✗ fail: W2 Rule W2 plain", "- because of F1", "- b: 12.5 %; wanted 10 %", "- source: 004 plain"} {
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
	if err := FindingsMarkdown(&out, NewAudit("m", time.Now(), nil, []rule.Finding{f}), false); err != nil || !strings.Contains(out.String(), "- fix: first this\n- fix: then `a && b`\n") {
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

func TestFindingsHTML(t *testing.T) {
	var out bytes.Buffer
	a := sample(hostile)
	a.Against("x", sample(hostile))
	if err := FindingsHTML(&out, a); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, bad := range []string{"<script", "\x1b", "\u202e", "ZgotmplZ", "{{", "src=", "href=", "@import", "url("} {
		if strings.Contains(strings.ReplaceAll(text, "{{.}}", ""), bad) {
			t.Errorf("%q is in the page", bad)
		}
	}
	if !strings.Contains(text, "default-src &#39;none&#39;") && !strings.Contains(text, "default-src 'none'") {
		t.Error("the page may load things")
	}
	if !strings.Contains(html.UnescapeString(text), "<script>alert(1)</script>") {
		t.Error("the machine's text is not shown at all")
	}
}

func TestBaseline(t *testing.T) {
	f := func(id, instance string, s rule.State) rule.Finding {
		return rule.Finding{ID: id, Instance: instance, State: s}
	}
	old := NewAudit("m", time.Time{}, nil, []rule.Finding{
		f("A", "", rule.Warned), f("B", "", rule.Warned), f("C", "x", rule.Failed), f("C", "y", rule.Failed), f("D", "", rule.Passed), f("E", "", rule.Failed), f("F", "", rule.Failed), f("G", "z", rule.Warned), f("H", "", rule.Warned),
	})
	a := NewAudit("m", time.Time{}, nil, []rule.Finding{
		f("A", "", rule.Warned), f("B", "", rule.Failed), f("C", "x", rule.Passed), f("D", "", rule.Warned), f("E", "", rule.Warned), f("G", "", rule.Unknown), f("H", "", rule.NotApplicable), f("I", "", rule.Unknown),
	})
	text, err := json.Marshal(old)
	if err != nil {
		t.Fatal(err)
	}
	if old, err = ReadBaseline("old.json", text); err != nil {
		t.Fatal(err)
	}
	a.Against("old.json", old)
	got := map[string]rule.Change{}
	for _, f := range a.Findings {
		got[f.ID] = f.Change
	}
	for id, want := range map[string]rule.Change{"A": Same, "B": Worse, "C": "", "D": New, "E": Same, "G": New, "H": "", "I": New} {
		if got[id] != want {
			t.Errorf("%s is %q, want %q", id, got[id], want)
		}
	}
	var mended []string
	for _, m := range a.Baseline.Mended {
		mended = append(mended, m.ID+m.Instance)
	}
	// F was not asked, and nobody knows of G's things.
	if want := []string{"Cx", "Cy", "H"}; !slices.Equal(mended, want) {
		t.Errorf("mended: %v, want %v", mended, want)
	}
	said := a.changeWords()
	if got := said[len(said)-1]; !strings.HasSuffix(got, ": 3 new, 1 worse, 2 mended (3 items), 2 as before") {
		t.Errorf("said: %q", got)
	}
	if rules, items := a.Counted(rule.Warned); rules != 1 || items != 1 {
		t.Errorf("%d rules and %d items warn, want 1", rules, items)
	}
	if rules, items := old.Counted(rule.Failed); rules != 3 || items != 4 {
		t.Errorf("%d rules and %d items fail, want 3 and 4", rules, items)
	}
	for text, want := range map[string]string{"[": "is no audit", `{"schema": "fettle/facts/v1"}`: `its schema is "fettle/facts/v1"`} {
		if _, err := ReadBaseline("x.json", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
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
		if err := FindingsHTML(&out, a); err != nil {
			t.Fatal(err)
		}
		if md := MarkdownText(text); strings.ContainsAny(md, "<\n\x1b") {
			t.Fatalf("%q becomes %q", text, md)
		}
	})
}
