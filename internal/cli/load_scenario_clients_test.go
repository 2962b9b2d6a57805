package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"fettle.dev/fettle/internal/requests/load/scenario"
)

// TestScenarioClients runs the hosts by several workers. The server must see each host once, and
// the result must count what the server counts.
func TestScenarioClients(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.URL.Path]++
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	file := filepath.Join(dir, "ask.yaml")
	text := `scenario: ask
servers: {web: %q}
load: {hosts: 101}
steps:
  - {name: ask, http: {url: "${web}/%s${name}"}}
  - {name: again, think: %s, http: {url: "${web}/%s${name}"}}
`
	write := func(think string) {
		t.Helper()
		if err := os.WriteFile(file, fmt.Appendf(nil, text, server.URL, "aa", think, "bb"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	worker := filepath.Join(binDir(t), "fettle") + " load worker"
	run := func(code int, args ...string) *scenario.Result {
		t.Helper()
		cmd := scenarioVerb(t, filepath.Join(dir, "state"), append([]string{file, "-o", "json"}, args...)...)
		out, _ := cmd.Output()
		var r struct {
			Body *scenario.Result `json:"body"`
		}
		if err := json.Unmarshal(out, &r); err != nil || cmd.ProcessState.ExitCode() != code || r.Body == nil {
			t.Fatalf("exit %d, want %d: %v: %s", cmd.ProcessState.ExitCode(), code, err, out)
		}
		return r.Body
	}
	write("10ms")
	x := run(0, "--client-command", worker, "--client-command", worker, "--client-command", worker)
	if x.Whole.Runs != 101 || x.Whole.Errors != 0 || x.Whole.Requests != 202 || len(x.Generator.Clients) != 3 || x.Whole.Latency.N != 101 {
		t.Errorf("%+v, clients %+v", x.Whole, x.Generator.Clients)
	}
	for _, c := range x.Generator.Clients {
		if c.Lost != "" || c.Ended != c.Passes || c.Passes < 33 || c.Passes > 34 {
			t.Errorf("client %+v", c)
		}
	}
	mu.Lock()
	for path, n := range seen {
		if n != 1 {
			t.Errorf("%s was requested %d times", path, n)
		}
	}
	if len(seen) != 202 {
		t.Errorf("%d paths, want 202", len(seen))
	}
	mu.Unlock()

	write("5s")
	x = run(1, "--client-command", worker, "--client-command", "timeout -s KILL 1.5 "+worker)
	if c := x.Generator.Clients; x.Word != scenario.Partial || len(c) != 2 || c[0].Lost != "" || c[1].Lost == "" {
		t.Errorf("%s, clients %+v", x.Word, c)
	}
}

// TestScenarioClientsRefused has scenarios whose hosts need one process. Nothing may be sent.
func TestScenarioClientsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, steps := range map[string]string{
		"once":    `[{name: ask, once: true, http: {url: "${web}/"}}]`,
		"command": `[{name: ask, command: ["true"]}]`,
	} {
		file := filepath.Join(dir, name+".yaml")
		if err := os.WriteFile(file, []byte("scenario: refused\nservers: {web: \"http://127.0.0.1:1\"}\nload: {hosts: 3}\nsteps: "+steps+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := scenarioVerb(t, filepath.Join(dir, "state"), file, "--client-command", "false")
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 2 {
			t.Errorf("%s: exit %d: %s", name, cmd.ProcessState.ExitCode(), out)
		}
	}
}
