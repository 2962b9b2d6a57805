package findings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/ui"
)

// hostile is text of a machine that would act on each of the forms, were it not
// escaped.
const hostile = "\x1b[2J</td><script>alert(1)</script>\"}\n# HELP x\r`|[x](http://evil.example)@everyone \\ \xff\u202e{{.}}"

// sample is an audit that has everything.
func sample(text string) *Audit {
	find := func(id string, state rule.State, more func(*rule.Finding)) rule.Finding {
		r := &rule.Rule{ID: id, Title: "Rule " + id + " " + text, Platforms: []string{"linux"}, Severity: rule.Warn, Why: "because " + text, Sources: []rule.Source{{Document: "handbook", Section: text}}}
		f := rule.Finding{Rule: r, ID: id, Title: r.Title, State: state, Why: r.Why, Sources: r.Sources}
		if more != nil {
			more(&f)
		}
		return f
	}
	a := NewAudit("a machine "+text, time.Date(2026, 11, 22, 3, 4, 5, 0, time.UTC), []string{"linux"}, []rule.Finding{
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
	a.Conclude()
	return a
}

// A rule counts once, in the worst of its states; its items are counted separately.
func TestCounts(t *testing.T) {
	f := func(id, instance string, s rule.State) rule.Finding {
		return rule.Finding{ID: id, Instance: instance, State: s}
	}
	a := NewAudit("m", time.Time{}, []string{"linux"}, []rule.Finding{
		f("A", "1", rule.Passed), f("A", "2", rule.Warned), f("A", "3", rule.Failed), f("B", "", rule.NotApplicable), f("C", "x", rule.Passed), f("C", "y", rule.NotApplicable),
	})
	a.Conclude()
	if got, want := a.Headline.Lines[0], "1 problem, 0 warnings, 1 fine, 0 not determined (linux)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := a.Headline.Figures["problems"]; got != 1 {
		t.Errorf("%g problems", got)
	}
	if a.Counts[rule.Warned] != 1 || a.RuleCounts[rule.Warned] != 0 {
		t.Errorf("%v, %v", a.Counts, a.RuleCounts)
	}
}

// Things of which a rule says the same are in one line, and a fraction has the digits
// that matter; a path begins where it is read.
func TestAlike(t *testing.T) {
	r := &rule.Rule{ID: "A", Title: "t"}
	var all []rule.Finding
	for i := range 9 {
		name := "policy" + string(rune('0'+i))
		all = append(all, rule.Finding{Rule: r, ID: "A", Instance: name, State: rule.Warned, Measured: "powersave", Want: "performance", MeasuredAt: []string{"/sys/" + name + "/governor"}})
		all = append(all, rule.Finding{Rule: r, ID: "B", Instance: name, State: rule.Unknown, Reason: "cpu." + name + ".busy: not recorded"})
	}
	all = append(all, rule.Finding{Rule: r, ID: "A", Instance: "other", State: rule.Warned, Measured: 126.55699138957812, Want: 0.0000125})
	all = append(all, rule.Finding{Rule: r, ID: "C", State: rule.Warned, Measured: 1160.0, Want: 1000.0, MeasuredAt: []string{"/etc/systemd/system/foreman.service.d/installer.conf:7", "/etc/foreman/database.yml:10"},
		Fix: &rule.Repair{Command: "satellite-installer", Text: "take the key out"}})
	var out bytes.Buffer
	Print(&ui.Screen{Out: &out, Err: &out, Width: 80}, NewAudit("m", time.Time{}, []string{"linux"}, all), View{Details: true})
	for _, want := range []string{
		"  here    policy0, policy1, policy2, policy3, policy4, policy5 and 3 more:\n          powersave, wanted performance (/sys/policy0/governor)\n  here    other: 127, wanted 0.0000125\n",
		"  here    policy0, policy1, policy2, policy3, policy4, policy5 and 3 more:\n          cpu.*.busy: not recorded\n",
		"/etc/foreman/database.yml:10)\n",
		"  fix     take the key out\n          satellite-installer\n",
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
	var out, markdown bytes.Buffer
	Print(&ui.Screen{Out: &out, Err: &out, Width: 80}, audit, View{Details: true})
	if err := Markdown(&markdown, audit, false); err != nil {
		t.Fatal(err)
	}
	for form, text := range map[string]string{"table": out.String(), "markdown": markdown.String(), "html": pageOf(t, audit)} {
		want := shown
		if form == "html" {
			want *= 2 // in the table and in the cards
		}
		if n := strings.Count(text, "is not recorded"); n != want {
			t.Errorf("%s: %d reasons are told, want %d", form, n, want)
		}
		if text = strings.Join(strings.Fields(text), " "); !strings.Contains(text, "key10, key11 and 988 more: different reasons (fettle check --explain A)") && form != "markdown" {
			t.Errorf("%s: the rest is not counted:\n%s", form, text)
		}
	}
}

// TestCommandsOfAnotherMachine tests that no output suggests to run a fix of another machine on
// this one.
func TestCommandsOfAnotherMachine(t *testing.T) {
	for where, on := range map[string]string{"on that machine: ": "", "on web1: ": "web1"} {
		a := sample("plain")
		a.Copied, a.On = on == "", on
		a.Conclude()
		for name, print := range map[string]func(s *ui.Screen){
			"short":   func(s *ui.Screen) { Print(s, a, View{}) },
			"details": func(s *ui.Screen) { Print(s, a, View{Details: true}) },
			"explain": func(s *ui.Screen) {
				one := *a
				one.Findings = slices.DeleteFunc(slices.Clone(a.Findings), func(f rule.Finding) bool { return f.ID != "W1" })
				PrintExplained(s, &one, true)
			},
			"markdown": func(s *ui.Screen) { _ = Markdown(s.Out, a, false) },
			"sarif":    func(s *ui.Screen) { _ = SARIF(s.Out, "test", false, a) },
		} {
			var out bytes.Buffer
			print(&ui.Screen{Out: &out, Err: &out, Width: 80})
			text := strings.NewReplacer("`", "", "\\", "").Replace(strings.Join(strings.Fields(out.String()), " "))
			parts := strings.Split(text, "fettle fix")
			if len(parts) < 2 {
				t.Errorf("%s: no fix in %s", name, text)
			}
			for _, before := range parts[:len(parts)-1] {
				if !strings.HasSuffix(before, where) {
					t.Errorf("%s: no %q at the end of %q", name, where, before)
				}
			}
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
	if want := []string{"cause", "cause", "fail", "far", "alone", "warn", "unknown", "pass"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestFindingsTable(t *testing.T) {
	for _, text := range []string{"plain", hostile, strings.Repeat("long ", 40), strings.Repeat("x", 300)} {
		var out bytes.Buffer
		Print(&ui.Screen{Out: &out, Err: &out, Width: 80}, sample(text), View{All: true, Details: true})
		for line := range strings.Lines(out.String()) {
			line = strings.TrimSuffix(line, "\n")
			if n := len([]rune(line)); n > 80 && len(strings.Fields(line)) > 2 {
				t.Errorf("a line of %d columns: %q", n, line)
			}
			if ui.Printable(line) != line {
				t.Errorf("control characters in %q", line)
			}
		}
		if text != "plain" {
			continue
		}
		for _, want := range []string{"2 problems, 1 warning, 1 fine, 1 not determined (linux)\n\n", "✗ fail  W2", "Rule W2 plain (due to F1)", "b: 12.5 %, wanted 10 %", "  fix     vm.x = plain\n          fettle fix W1\n", "next: fettle fix fixes 1 finding (W1), after a confirmation"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in:\n%s", want, &out)
			}
		}
		if strings.Index(out.String(), "F1  Rule") > strings.Index(out.String(), "W2  Rule") {
			t.Errorf("the cause comes after its consequence:\n%s", &out)
		}
	}
}

// TestFixOfAnotherRule: the command of another rule's fix is a line of its own, however narrow the terminal.
func TestFixOfAnotherRule(t *testing.T) {
	a := sample("plain")
	for i := range a.Findings {
		a.Findings[i].Fix = &rule.Repair{Text: "see O16.net.netfilter.nf_conntrack_max: fettle fix O16.net.netfilter.nf_conntrack_max"}
	}
	var out bytes.Buffer
	Print(&ui.Screen{Out: &out, Err: &out, Width: 60}, a, View{All: true, Details: true})
	if want := "  fix     see O16.net.netfilter.nf_conntrack_max:\n          fettle fix O16.net.netfilter.nf_conntrack_max\n"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in:\n%s", want, &out)
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
	// F was not asked, and G's items are unknown.
	if want := []string{"Cx", "Cy", "H"}; !slices.Equal(mended, want) {
		t.Errorf("mended: %v, want %v", mended, want)
	}
	if got := a.changeWords(); !strings.HasSuffix(got, ": 3 new, 1 worse, 2 fixed (3 items), 2 as before") {
		t.Errorf("said: %q", got)
	}
	if rules, items := a.Counted(rule.Warned); rules != 1 || items != 1 {
		t.Errorf("%d rules and %d items warn, want 1", rules, items)
	}
	if rules, items := old.Counted(rule.Failed); rules != 3 || items != 4 {
		t.Errorf("%d rules and %d items fail, want 3 and 4", rules, items)
	}
	for failOn, want := range map[string]string{
		"fail":    "1 rule is fail, and --fail-on is fail",
		"unknown": "1 rule is fail, 1 rule is warn, 2 rules are unknown, and --fail-on is unknown",
	} {
		if err := a.Gate(failOn); err == nil || err.Error() != want || ui.Code(err) != ui.GateNotMet {
			t.Errorf("--fail-on %s: %v, want %q", failOn, err, want)
		}
	}
	if err := old.Gate("warn"); err == nil || err.Error() != "3 rules are fail (4 items), 4 rules are warn, and --fail-on is warn" {
		t.Errorf("%v", err)
	}
	if err := old.Gate(""); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{"[": "is not an audit", `{"schema": "fettle/facts/v1"}`: `its schema is "fettle/facts/v1"`} {
		if _, err := ReadBaseline("x.json", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
