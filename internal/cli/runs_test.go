package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/disk"
	"fettle.dev/fettle/internal/measure/etcd"
	"fettle.dev/fettle/internal/measure/memory"
	"fettle.dev/fettle/internal/measure/network"
	"fettle.dev/fettle/internal/measure/postgres"
	"fettle.dev/fettle/internal/measure/prove"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// run runs fettle to its end.
func (p *proving) run(args ...string) (string, int) {
	p.t.Helper()
	c := p.command(args...)
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		p.t.Fatal(err)
	}
	return string(out), c.ProcessState.ExitCode()
}

// proved makes an experiment and returns its record.
func (p *proving) proved(more ...string) (*evidence.Run, *prove.Evidence) {
	p.t.Helper()
	out, err := p.prove(append([]string{"--force", "--output", "json"}, more...)...).Output()
	if err != nil {
		p.t.Fatal(err)
	}
	var r evidence.Run
	var e prove.Evidence
	if err := json.Unmarshal(out, &r); err != nil {
		p.t.Fatal(err)
	}
	if err := json.Unmarshal(r.Body, &e); err != nil {
		p.t.Fatal(err)
	}
	return &r, &e
}

// TestRunsMethod: a record that another method has judged shows its verdict as it was
// given, next to that of this one if it differs.
func TestRunsMethod(t *testing.T) {
	testkitroot.Real(t, "makes an experiment")
	p := newProving(t)
	now, e := p.proved()
	if e.Method != prove.Method {
		t.Errorf("judged by method %d, and this is %d", e.Method, prove.Method)
	}
	// A record of before methods were counted, when the interval was another one.
	numbered := []byte(fmt.Sprintf(`"method":%d,`, prove.Method))
	body := new(bytes.Buffer)
	if err := json.Compact(body, now.Body); err != nil || !bytes.Contains(body.Bytes(), numbered) {
		t.Fatalf("%v: %.300s", err, body)
	}
	old := *now
	old.Body = bytes.ReplaceAll(bytes.ReplaceAll(body.Bytes(), []byte("faster by "), []byte("faster by 9")), numbered, nil)
	old.Verdict = strings.Replace(now.Verdict, "faster by ", "faster by 9", 1)
	// And one of a version that is to come.
	later := old
	later.Body = bytes.Replace(old.Body, []byte(`"ending":`), []byte(`"method":99,"ending":`), 1)
	for _, r := range []*evidence.Run{&old, &later} {
		r.ID = ""
		if err := p.runs().Put(r); err != nil {
			t.Fatal(err)
		}
	}
	for r, method := range map[*evidence.Run]int{&old: 1, &later: 99} {
		says := fmt.Sprintf("evaluated by method %d; method %d of this version gives for the same samples: %s", method, prove.Method, now.Verdict)
		out, code := p.run("runs", "show", r.ID)
		if code != 0 || !strings.Contains(out, printedVerdict(old.Verdict)+"\n") || !strings.Contains(out, says) {
			t.Errorf("exit code %d: %s", code, out)
		}
		if out, code := p.run("runs", "show", r.ID, "--output", "json"); code != 0 || !strings.Contains(out, "evaluated by method") {
			t.Errorf("exit code %d: %s", code, out)
		}
	}
	if out, code := p.run("runs", "show", now.ID); code != 0 || strings.Contains(out, "method") {
		t.Errorf("exit code %d: %s", code, out)
	}

	out, code := p.run("runs", "list")
	if code != 0 || !strings.Contains(out, fmt.Sprintf("%s (judged by method 1; the current method %d says: %s)", old.Verdict, prove.Method, now.Verdict)) || strings.Count(out, "(judged by method") != 2 {
		t.Errorf("exit code %d: %s", code, out)
	}

	// The effects of both sides are by the method of this version.
	text, err := p.command("runs", "compare", now.ID, old.ID, "--output", "json").Output()
	var c prove.Comparison
	if err != nil || json.Unmarshal(text, &c) != nil || c.Effects == nil {
		t.Fatalf("%v: %s", err, text)
	}
	if c.Effects.A.Judged != "" || !strings.Contains(c.Effects.B.Judged, "evaluated by method 1") || *c.Effects.A.Effect != *c.Effects.B.Effect || c.B.Verdict != old.Verdict {
		t.Errorf("%+v %+v", c.Effects, c.B)
	}
	if out, code := p.run("runs", "compare", now.ID, old.ID); code != 0 || !strings.Contains(out, "B was evaluated by method 1; ") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if out, code := p.run("runs", "show", old.ID, "--output", "html"); code != 0 || strings.Count(out, "<li>evaluated by method 1; method") != 1 {
		t.Errorf("exit code %d, or the page does not say it: %.2000s", code, out)
	}
}

// TestRunsFailed: an experiment whose work failed is listed as failed, and as one that
// can go on where something was learned; so is one that was interrupted.
func TestRunsFailed(t *testing.T) {
	testkitroot.Real(t, "makes an experiment")
	p := newProving(t)
	list := func() []ListedRun {
		t.Helper()
		text, err := p.command("runs", "list", "--output", "json").Output()
		var l RunList
		if err != nil || json.Unmarshal(text, &l) != nil {
			t.Fatalf("%v: %s", err, text)
		}
		return l.Runs
	}
	// Before anything was learned.
	p.touch("fail")
	if out, code := p.run("prove", "--set", "vm.swappiness=10", "--force", "--", p.work); code != 1 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	if l := list(); len(l) != 1 || l[0].State != "failed" || l[0].Resumable || l[0].ID == "" {
		t.Errorf("%+v", l)
	}
	if err := os.Remove(p.file("fail")); err != nil {
		t.Fatal(err)
	}
	// In its blocks.
	text, err := os.ReadFile(p.work)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.work, append(text, "[ $n -lt 15 ] || [ -e "+p.file("mended")+" ] || exit 9\n"...), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := p.prove("--force").CombinedOutput(); err == nil || !strings.Contains(string(out), "fettle prove --resume") {
		t.Fatalf("%v: %s", err, out)
	}
	l := list()
	if len(l) != 2 || l[1].State != "failed" || !l[1].Resumable || l[1].Name == "" {
		t.Fatalf("%+v", l)
	}
	if out, code := p.run("runs", "list"); code != 0 || !strings.Contains(out, "failed, can be resumed") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if out, code := p.run("runs", "show", l[1].Name); code != 0 || !strings.Contains(out, "failed: the measured work failed with") || !strings.Contains(out, "exit status 9") {
		t.Errorf("exit code %d: %s", code, out)
	}
	p.touch("mended")
	if out, code := p.run("prove", "--resume", "last", "--force"); code != 0 || !strings.Contains(out, "faster by ") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if l := list(); len(l) != 2 || l[1].State != "ended" || l[1].Method != prove.Method {
		t.Errorf("%+v", l)
	}
	p.restored()
}

// TestRunsShowBench: a bench's run is shown as the bench has printed it.
func TestRunsShowBench(t *testing.T) {
	p := newProving(t)
	if err := journal.Prepare(filepath.Join(p.machine, "var/lib/fettle")); err != nil {
		t.Fatal(err)
	}
	for kind, x := range map[string]struct {
		body any
		says string
	}{
		disk.Kind:          {disk.Evidence{Places: []disk.Measured{{Place: disk.Place{Directory: "/srv"}, Results: []disk.Result{{Cell: disk.Cell{Name: "depth-8", Unit: "1/s"}, Value: 31}}}}}, "depth-8"},
		"bench-memory":     {memory.Result{Rounds: 13, Cells: []memory.Summary{{Cell: "thp", Random: 123}}}, "123 ns"},
		"bench-postgres":   {postgres.Result{Server: "15/main", Text: "1188 transactions a second", Steps: []postgres.Step{{Clients: 8, TPS: 1188}}}, "15/main, version"},
		network.RecordKind: {network.Result{Peer: "192.0.2.7:5219", Text: "send 1 Mbit/s"}, "192.0.2.7:5219"},
		"bench-etcd":       {etcd.Result{Member: "infra1", Text: "fast enough"}, "infra1, version"},
	} {
		body, err := json.Marshal(x.body)
		if err != nil {
			t.Fatal(err)
		}
		r := &evidence.Run{Kind: kind, Command: "fettle bench", Body: body}
		if err := p.runs().Put(r); err != nil {
			t.Fatal(err)
		}
		if out, code := p.run("runs", "show", r.ID); code != 0 || !strings.Contains(out, x.says) || !strings.Contains(out, "run "+r.ID) || strings.Contains(out, `"schema"`) {
			t.Errorf("%s: exit code %d: %s", kind, code, out)
		}
		if out, code := p.run("runs", "show", r.ID, "--output", "json"); code != 0 || !strings.Contains(out, `"kind": "`+kind+`"`) {
			t.Errorf("%s: exit code %d: %s", kind, code, out)
		}
	}
}

// printedVerdict returns a recorded verdict as it is printed, with its interval in words.
func printedVerdict(recorded string) string {
	return regexp.MustCompile(` \[(\S+), (\S+)\]`).ReplaceAllString(recorded, ", interval $1 to $2 %")
}
