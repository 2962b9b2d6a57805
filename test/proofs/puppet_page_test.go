package proofs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/guide/sizing"
)

// TestPuppetPage: docs/proofs/puppet.md is what the record of TestPuppet makes, and what it
// says in words is so. With FETTLE_UPDATE_GOLDEN=1 it writes the page.
func TestPuppetPage(t *testing.T) {
	const page = "../../docs/proofs/puppet.md"
	r := readPuppetRecord(t, "../../docs/proofs/puppet")
	have, err := os.ReadFile(page)
	if r == nil {
		if !os.IsNotExist(err) {
			t.Errorf("%s has no record: %v", page, err)
		}
		return
	}
	for _, wrong := range r.unsound() {
		t.Error(wrong)
	}
	want := []byte(r.page())
	if os.Getenv("FETTLE_UPDATE_GOLDEN") == "1" {
		if err := os.WriteFile(page, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err != nil || !bytes.Equal(have, want) {
		t.Errorf("%s does not match its record: run make golden (%v)", page, err)
	}
	if size := recordSize(t, "../../docs/proofs/puppet"); size > 300<<10 {
		t.Errorf("the record has %d KB: want 300 at the most", size>>10)
	}
}

func recordSize(t *testing.T, dir string) (sum int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		sum += st.Size()
	}
	return sum
}

// TestPuppetUnsound: a record that says otherwise than the page's words is found.
func TestPuppetUnsound(t *testing.T) {
	record := func() *puppetRecord {
		shut := map[string]puppetFinding{"P30": {State: "pass"}}
		first := sizing.Result{Values: []sizing.Value{{Group: "static catalogs", Name: "verdict", Value: "first"}}}
		return &puppetRecord{
			Sizes: map[string]sizing.Result{"apache": first, "nginx": first},
			Loads: []puppetLoad{{Of: "mix"}},
			Agents: []puppetRun{
				{What: noCache, Behind: map[string]uint64{"GET file_metadata": 41}, AtFront: map[string]uint64{}},
				{What: nothingChanged, Static: true, Behind: map[string]uint64{"POST catalog": 1}, AtFront: map[string]uint64{}},
			},
			Probes: []puppetSite{
				{Name: "ours", Ours: true, Kept: true, Answers: []puppetAnswer{{Question: askedStale, Open: true}, {Question: askedPurged}}, Findings: shut},
				{Name: "theirs", Configuration: workingCache, Kept: true, Answers: []puppetAnswer{{Question: askedNobody, Open: true}, {Question: askedElsewhere, Open: true}}},
				{Name: "theirs", Configuration: todaysCache},
			},
		}
	}
	if wrong := record().unsound(); len(wrong) > 0 {
		t.Errorf("of a sound record: %q", wrong)
	}
	for want, change := range map[string]func(*puppetRecord){
		"of 0 requests":   func(r *puppetRecord) { r.Loads[0].Result.Whole.Errors = 1 },
		"does not advise": func(r *puppetRecord) { delete(r.Sizes, "nginx") },
		"nothing to do":   func(r *puppetRecord) { r.Agents[1].What = "" },
		"static catalogs": func(r *puppetRecord) { r.Agents[1].Behind["GET file_metadata"] = 1 },
		"no run shows":    func(r *puppetRecord) { r.Agents = r.Agents[1:] },
		"is open":         func(r *puppetRecord) { r.Probes[0].Answers[1].Open = true },
		"P30 is fail":     func(r *puppetRecord) { r.Probes[0].Findings["P30"] = puppetFinding{State: "fail"} },
		"keeps nothing":   func(r *puppetRecord) { r.Probes[0].Kept = false },
		"both holes":      func(r *puppetRecord) { r.Probes[1].Answers[0].Open = false },
		"keeps something": func(r *puppetRecord) { r.Probes[2].Kept = true },
	} {
		r := record()
		change(r)
		if wrong := strings.Join(r.unsound(), "\n"); !strings.Contains(wrong, want) {
			t.Errorf("want %q: %q", want, wrong)
		}
	}
}

// unsound says what of a record is otherwise than the page says in words.
func (r *puppetRecord) unsound() (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for _, l := range r.Loads {
		if w := l.Result.Whole; l.Of != "replay" && w.Errors > 0 {
			say("%s through %s, cached %v: %d of %d requests failed", l.Of, l.Front, l.Cached, w.Errors, w.Starts)
		}
	}
	for _, static := range []bool{false, true} {
		if r.unchanged(static).AtFront == nil {
			say("no run had nothing to do, static catalogs %v", static)
		}
	}
	for _, f := range puppetFronts {
		if size := r.Sizes[f.Name]; !slices.ContainsFunc(size.Values, func(v sizing.Value) bool {
			return v.Group == "static catalogs" && v.Name == "verdict" && v.Value == "first"
		}) {
			say("size puppet for %s does not advise static catalogs first", f.Title)
		}
	}
	metadata := uint64(0)
	for _, a := range r.Agents {
		n := a.Behind["GET file_metadata"] + a.AtFront["GET file_metadata"]
		if a.Static && n > 0 {
			say("%s, with static catalogs: %d requests for file_metadata", a.What, n)
		}
		if !a.Static && !a.Cached {
			metadata = max(metadata, n)
		}
	}
	if metadata == 0 {
		say("no run shows what agents ask for without static catalogs")
	}
	for _, s := range r.Probes {
		for _, a := range s.Answers {
			if s.Ours && a.Open && a.Question != askedStale { // until it is emptied a cache may be behind
				say("%s: %q is open (%s)", s.Name, a.Question, a.Status)
			}
		}
		switch {
		case s.Ours && !s.Kept:
			say("%s keeps nothing", s.Name)
		case s.Configuration == todaysCache && s.Kept:
			say("%s keeps something", s.Name)
		case s.Configuration == workingCache && !(s.Kept && s.open(askedNobody) && s.open(askedElsewhere)):
			say("%s does not have both holes", s.Name)
		}
		for id, f := range s.Findings {
			if s.Ours && f.State != "pass" && f.State != "not-applicable" {
				say("%s: %s is %s: %v %s", s.Name, id, f.State, f.Measured, f.Reason)
			}
		}
	}
	return wrong
}
