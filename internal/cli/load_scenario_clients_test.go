package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

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

// TestScenarioClientsRecord kills one of eight workers, or their caller, while they create objects.
// Each object of the server is then removed by its recorded id, or named as one whose id is not
// known, and no worker goes on.
func TestScenarioClientsRecord(t *testing.T) {
	t.Parallel()
	for name, killsCaller := range map[string]bool{"worker": false, "caller": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			state := filepath.Join(dir, "state")
			s := newObjectServer(t)
			file := filepath.Join(dir, "creating.yaml")
			if err := os.WriteFile(file, fmt.Appendf(nil, creating, s.URL), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{file, "--hosts", "80", "--repeat", "3", "-o", "json"}
			for i := range 8 {
				args = append(args, "--client-command", fmt.Sprintf("echo $$ >%s/pid%d; exec %s load worker", dir, i, filepath.Join(binDir(t), "fettle")))
			}
			pid := func(i int) (n int) {
				text, err := os.ReadFile(filepath.Join(dir, fmt.Sprint("pid", i)))
				if _, scanned := fmt.Sscan(string(text), &n); err != nil || scanned != nil {
					t.Errorf("worker %d: %v %v", i, err, scanned)
				}
				return n
			}
			c := scenarioVerb(t, state, args...)
			started := make(chan struct{})
			s.at = func(at string, _ int) {
				<-started
				passes := 0
				for _, name := range s.left() {
					if name == "fettle-000012" { // the second host of the fourth worker
						passes++
					}
				}
				if at != "created" || passes < 3 {
					return
				}
				if killsCaller {
					_ = c.Process.Kill()
				} else {
					_ = syscall.Kill(pid(3), syscall.SIGKILL)
				}
			}
			var out bytes.Buffer
			c.Stdout = &out
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			close(started)
			_ = c.Wait()
			for i := range 8 {
				for end := time.Now().Add(time.Minute); syscall.Kill(pid(i), 0) == nil; time.Sleep(20 * time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("worker %d still runs", i)
					}
				}
			}
			if !killsCaller {
				var r struct{ Body *scenario.Result }
				if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Body.Word != scenario.Partial || r.Body.Generator.Clients[3].Lost == "" || c.ProcessState.ExitCode() != 1 {
					t.Errorf("exit %d, %v: %s", c.ProcessState.ExitCode(), err, out.String())
				}
			}
			created := len(s.left())
			u, code := undoScenario(t, state)
			named := map[string]bool{}
			for _, o := range u.Objects {
				named[o.Name] = true
			}
			if left := len(s.left()); code != 7 || u.Removed == 0 || !named["fettle-000012"] || u.Removed+left != created || left > len(u.Objects) {
				t.Errorf("exit %d, %d removed, %d named: the server had %d, and has %d", code, u.Removed, len(u.Objects), created, left)
			}
			for _, left := range s.left() {
				if !named[left] {
					t.Errorf("%s is left, but not named", left)
				}
			}
		})
	}
}
