package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/prove"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// TestLeftBehind: what an experiment has left that was killed with its watchdog is
// named by undo and status, and its record stays; a record that lies is not shown.
func TestLeftBehind(t *testing.T) {
	testkitroot.Real(t, "makes an experiment")
	t.Parallel()
	p := newProving(t)
	out, err := p.prove("--output", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var r evidence.Run
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, int) {
		t.Helper()
		c := p.command(args...)
		out, err := c.CombinedOutput()
		if c.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), c.ProcessState.ExitCode()
	}

	// The record lies, and its seal is right.
	var e prove.Evidence
	if err := json.Unmarshal(r.Body, &e); err != nil {
		t.Fatal(err)
	}
	lie := r
	lie.Body = bytes.ReplaceAll(r.Body, []byte("faster by "), []byte("faster by 9"))
	lie.Verdict = strings.Replace(r.Verdict, "faster by ", "faster by 9", 1)
	if lie.Verdict == r.Verdict || bytes.Equal(lie.Body, r.Body) {
		t.Fatalf("no lie: %s", r.Verdict)
	}
	text, err := lie.Text()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "lie.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, more := range [][]string{nil, {"--output", "json"}} {
		if out, code := run(append([]string{"runs", "show", file}, more...)...); code != 1 || !strings.Contains(out, "the record contradicts itself: verdict") {
			t.Errorf("exit code %d: %s", code, out)
		}
	}
	if out, code := run("runs", "show", r.ID); code != 0 || !strings.HasPrefix(out, printedVerdict(r.Verdict)) {
		t.Errorf("exit code %d: %s", code, out)
	}

	// Another one was cut off, and has left its change.
	body, err := json.Marshal(prove.Evidence{Schema: prove.Schema, Design: e.Design, Work: e.Work, Change: prove.Tested{Apply: "true", Undo: "true"}})
	if err != nil {
		t.Fatal(err)
	}
	u, err := p.runs().Begin(&evidence.Run{Kind: "prove", Command: "fettle prove", Version: "test", Began: time.Now().UTC(), Machine: r.Machine, Verdict: "under way", Body: body})
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Close(); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(p.machine, "var/lib/fettle")
	lease, err := tune.Lease(state, "prove")
	if err != nil {
		t.Fatal(err)
	}
	const how = "cd /srv && ./undo.sh"
	if err := tune.Arm(lease, how); err != nil {
		t.Fatal(err)
	}
	if err := lease.Close(); err != nil {
		t.Fatal(err)
	}
	if out, code := run("undo"); code != 1 || !strings.Contains(out, how) || !strings.Contains(out, "fettle prove --resume last") || strings.Contains(out, "nothing to undo") {
		t.Errorf("undo: exit code %d: %s", code, out)
	}
	if out, code := run("status"); code != 0 || !strings.Contains(out, how) {
		t.Errorf("status: exit code %d: %s", code, out)
	}
	if out, code := run("runs", "prune", "--cut-off", "--yes"); code != 0 || !strings.Contains(out, "not removed: "+u.Name()+": ") || !strings.Contains(out, how) {
		t.Errorf("prune: exit code %d: %s", code, out)
	}
	if names, err := p.runs().Unfinished(); err != nil || len(names) != 1 {
		t.Error(names, err)
	}
	if err := tune.Unarm(state); err != nil {
		t.Fatal(err)
	}
	if out, code := run("undo"); code != 0 || !strings.Contains(out, "nothing to undo") {
		t.Errorf("undo: exit code %d: %s", code, out)
	}
	if out, code := run("runs", "prune", "--cut-off", "--yes"); code != 0 {
		t.Errorf("prune: exit code %d: %s", code, out)
	}
	if names, err := p.runs().Unfinished(); err != nil || len(names) > 0 {
		t.Error(names, err)
	}
}
