package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"fettle.dev/fettle/internal/requests/load/ladder"
	"fettle.dev/fettle/internal/requests/load/scenario"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
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
