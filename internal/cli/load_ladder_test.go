package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/requests/load/ladder"
	"fettle.dev/fettle/internal/requests/load/scenario"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/internal/ui"
)

// TestLadderNamesLimit searches the highest number of hosts of Debian's httpd with eight processes,
// whose answers take 0.3 seconds. Three rounds of eight hosts fit into the threshold, four do
// not. The limit is MaxRequestWorkers (H13).
func TestLadderNamesLimit(t *testing.T) {
	t.Parallel()
	if !testkitroot.Inside(t, testkitroot.Options{Servers: true}) {
		return
	}
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	call := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
	}
	write("/usr/lib/cgi-bin/slow", "#!/bin/sh\nsleep 0.3\nprintf 'Content-Type: text/plain\\n\\nok\\n'\n", 0o755)
	write("/etc/apache2/mods-available/mpm_prefork.conf", "StartServers 8\nMinSpareServers 8\nServerLimit 8\nMaxRequestWorkers 8\n", 0o644)
	call("a2dismod", "-q", "mpm_event")
	call("a2enmod", "-q", "mpm_prefork", "cgi")
	call("apache2ctl", "start")
	t.Cleanup(func() { call("apache2ctl", "stop") })
	await(t, "httpd", func() bool {
		return exec.Command("curl", "-sf", "-o", "/dev/null", "http://127.0.0.1/cgi-bin/slow").Run() == nil
	})
	file := filepath.Join(dir, "slow.yaml")
	write(file, `scenario: slow
servers: {web: "http://127.0.0.1"}
load: {hosts: 1}
steps:
  - name: ask
    http: {url: "${web}/cgi-bin/slow"}
thresholds:
  - host max < 1150ms
`, 0o644)
	out, err := fettleCommand(t, "--state-dir", filepath.Join(dir, "state"), "load", "scenario", file, "--ladder", "4..200", "--max-runs", "40", "--observe", "local", "-o", "json").Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var run struct {
		Body scenario.Result `json:"body"`
	}
	if err := json.Unmarshal(out, &run); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	l := run.Body.Ladder
	if l == nil || l.Answer != ladder.Found || l.Edge == nil || l.Edge.Low > 24 || l.Edge.High < 16 {
		t.Fatalf("%+v", l)
	}
	t.Log(run.Body.Text)
	if len(l.Limits) == 0 || l.Limits[0].ID != "H13" || l.Limits[0].Fix == "" {
		t.Errorf("limits %+v: %s", l.Limits, l.NoLimit)
	}
}

// TestLadderRemovesObjects searches on a server that has room for twelve objects. Each run must
// find it empty, and the search must leave it empty.
func TestLadderRemovesObjects(t *testing.T) {
	testkitroot.Real(t, "60 runs, each with an undo")
	t.Parallel()
	server := newObjectServer(t)
	full := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && len(server.left()) >= 12 {
			w.WriteHeader(http.StatusInsufficientStorage)
			return
		}
		server.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(full.Close)
	file := filepath.Join(t.TempDir(), "creating.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, creating, full.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := scenarioVerb(t, filepath.Join(t.TempDir(), "state"), file, "--ladder", "2..100", "-o", "json")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var run struct {
		Body scenario.Result `json:"body"`
	}
	if err := json.Unmarshal(out, &run); err != nil {
		t.Fatal(err)
	}
	// Requests at the same time may find room for one more.
	if l := run.Body.Ladder; l.Answer != ladder.Found || l.Highest < 11 || l.Edge.Low > 13 || l.Edge.High < 12 {
		t.Errorf("%+v", l)
	}
	if left := server.left(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestLadderRefuses has calls that must not send anything.
func TestLadderRefuses(t *testing.T) {
	t.Parallel()
	rate := filepath.Join(t.TempDir(), "rate.yaml")
	if err := os.WriteFile(rate, []byte("scenario: rate\nservers: {web: \"http://127.0.0.1:1\"}\nload: {rate: 1/s, for: 10s}\nsteps: [{name: ask, http: {url: \"${web}/\"}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{rate, "--ladder", "2..100"},
		{"example", "--ladder", "100..2"},
		{"example", "--ladder", "0..2"},
		{"example", "--ladder", "many"},
		{"example", "--server", "web=http://127.0.0.1:1", "--ladder", "2..100", "--most-hosts", "50"},
		{"example", "--max-runs", "9"},
		{"example", "--observe", "local"},
		{"example", "--ladder", "2..100", "--hosts", "5"},
	} {
		cmd := scenarioVerb(t, filepath.Join(t.TempDir(), "state"), args...)
		want := ui.Usage
		if slices.Contains(args, "--most-hosts") {
			want = ui.Refused
		}
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != want {
			t.Errorf("%v: exit %d: %s", args, cmd.ProcessState.ExitCode(), out)
		}
	}
}

// TestLadderProposes has a limit whose fix is a setting: the proposal is an experiment with the
// scenario, on a test system of the server's name.
func TestLadderProposes(t *testing.T) {
	t.Parallel()
	c := &climb{file: "registration"}
	f := rule.Finding{ID: "U03", Title: "Puma has workers", Failed: "Puma has one worker", State: rule.Warned, Instance: "foreman", Fix: &rule.Repair{Changes: []rule.Entry{{Name: "puma:foreman/workers", Value: "4"}}}}
	got := c.limit(f, 300, "sat.example")
	want := []string{"prove", "--test-system", "sat.example", "--set", "puma:foreman/workers=4", "--", "fettle", "load", "scenario", "registration", "--hosts", "300"}
	if got.ID != "U03" || got.Text != "Puma has one worker (foreman)" || !slices.Equal(got.Prove, want) {
		t.Errorf("%+v", got)
	}
	if got := c.limit(f, 300, ""); got.Prove[2] != "NAME" {
		t.Errorf("%+v", got)
	}
}

// TestLadderInterrupted ends a search with Ctrl-C while a run creates objects. Objects whose state
// was not read any more are kept, because others may have changed them; their number is told.
func TestLadderInterrupted(t *testing.T) {
	t.Parallel()
	server := newObjectServer(t)
	file := filepath.Join(t.TempDir(), "creating.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, creating, server.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := scenarioVerb(t, filepath.Join(t.TempDir(), "state"), file, "--ladder", "4..1000")
	server.at = func(point string, n int) {
		if point == "answered" && n == 10 { // in the second run
			_ = cmd.Process.Signal(os.Interrupt)
		}
	}
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit %d: %s", code, out)
	}
	told := 0
	if m := regexp.MustCompile(`([0-9]+) objects? of\s+run`).FindStringSubmatch(string(out)); m != nil {
		told, _ = strconv.Atoi(m[1])
	}
	if left := server.left(); len(left) > told {
		t.Errorf("left behind: %v: %s", left, out)
	}
}

// TestLadderWithoutServer has no server, which is not a limit of one.
func TestLadderWithoutServer(t *testing.T) {
	t.Parallel()
	cmd := scenarioVerb(t, filepath.Join(t.TempDir(), "state"), "example", "--server", "web=http://127.0.0.1:1", "--ladder", "2..100")
	if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("exit %d: %s", cmd.ProcessState.ExitCode(), out)
	}
}
