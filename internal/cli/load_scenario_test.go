package cli

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/cliutil/loadcli"
	"fettle.dev/fettle/internal/requests/load/scenario"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// objectServer is a server with objects that are created, shown and removed by id.
type objectServer struct {
	*httptest.Server
	mu      sync.Mutex
	objects map[string]*serverObject
	last    int
	removed []string
	// at is called at points of a request, without the lock.
	at func(point string, n int)
}

type serverObject struct {
	ID      int    `json:"id"`
	Name    string `json:"name"`
	Version int    `json:"updated_at"`
}

func newObjectServer(t *testing.T) *objectServer {
	t.Helper()
	s := &objectServer{objects: map[string]*serverObject{}, at: func(string, int) {}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /hosts", func(w http.ResponseWriter, r *http.Request) {
		var o serverObject
		if r.Header.Get("Authorization") != "Bearer secret" || json.NewDecoder(r.Body).Decode(&o) != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		s.mu.Lock()
		s.last++
		o.ID = s.last
		s.mu.Unlock()
		s.at("before", o.ID)
		s.mu.Lock()
		s.objects[fmt.Sprint(o.ID)] = &o
		s.mu.Unlock()
		s.at("created", o.ID)
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(o)
		s.at("answered", o.ID)
	})
	mux.HandleFunc("/hosts/{id}", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		o := s.objects[r.PathValue("id")]
		switch {
		case r.Header.Get("Authorization") != "Bearer secret":
			w.WriteHeader(http.StatusUnauthorized)
		case o == nil:
			w.WriteHeader(http.StatusNotFound)
		case r.Method == "DELETE":
			delete(s.objects, r.PathValue("id"))
			s.removed = append(s.removed, o.Name)
		case r.Method == "PUT":
			o.Version++
		default:
			if r.Method == "GET" {
				go s.at("shown", o.ID)
			}
			_ = json.NewEncoder(w).Encode(o)
		}
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// left returns the names of the objects.
func (s *objectServer) left() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.objects {
		out = append(out, o.Name)
	}
	return out
}

// creating is a scenario that creates an object a host, and changes it afterwards.
const creating = `scenario: creating
changes: true
servers: {web: %q}
load: {hosts: 20}
data: {token: {env: SCENARIO_TOKEN}}
steps:
  - name: register
    http:
      url: ${web}/hosts
      header: {Content-Type: application/json, Authorization: "Bearer ${token}"}
      body: '{"name": "${name}"}'
    expect: {status: 201}
    take: {id: {jsonpath: $.id}}
    creates:
      name: ${name}
      id: ${id}
      show: ${web}/hosts/${id}
      unchanged: {jsonpath: $.updated_at}
      remove: ${web}/hosts/${id}
  - name: facts
    http: {method: PUT, url: "${web}/hosts/${id}", header: {Authorization: "Bearer ${token}"}}
`

// loadScenarioCommandOf returns the verb with a token in the environment.
func scenarioVerb(t *testing.T, state string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(filepath.Join(binDir(t), "fettle"), append([]string{"--state-dir", state, "load", "scenario"}, args...)...)
	c.Env = append(os.Environ(), "SCENARIO_TOKEN=secret")
	return c
}

// undoScenario undoes the last run.
func undoScenario(t *testing.T, state string) (*scenario.Undone, int) {
	t.Helper()
	c := scenarioVerb(t, state, "undo", "-o", "json")
	var talk strings.Builder
	c.Stderr = &talk
	text, _ := c.Output()
	code := c.ProcessState.ExitCode()
	if code == 1 && strings.Contains(talk.String()+string(text), "no run has objects") {
		return &scenario.Undone{}, 0
	}
	var u scenario.Undone
	if err := json.Unmarshal(text, &u); err != nil || code != 0 && code != 7 {
		t.Fatalf("exit %d, %v: %s%s", code, err, text, talk.String())
	}
	return &u, code
}

// TestScenarioKilled kills a run at each point of creating objects. Each object of the server is
// then removed by its recorded id, or named as one whose id is not known. Nothing else is
// removed, and what others changed is kept.
func TestScenarioKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newObjectServer(t)
	file := filepath.Join(dir, "creating.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, creating, s.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	type point struct {
		at    string
		n     int // of the objects; or milliseconds
		other bool
	}
	var points []point
	for _, n := range []int{1, 2, 7, 20} {
		for _, at := range []string{"before", "created", "answered", "shown"} {
			points = append(points, point{at, n, n == 7})
		}
	}
	for ms := 0; ms < 60; ms += 6 {
		points = append(points, point{"time", ms, false})
	}
	known, unknown := 0, 0
	for i, p := range points {
		state := filepath.Join(dir, fmt.Sprint("state", i))
		foreign := &serverObject{ID: 1_000_000 + i, Name: "of another"}
		s.mu.Lock()
		clear(s.objects)
		s.objects[fmt.Sprint(foreign.ID)], s.removed, s.last = foreign, nil, 0
		s.mu.Unlock()
		c := scenarioVerb(t, state, file)
		kill := sync.OnceFunc(func() { _ = c.Process.Kill() })
		started := make(chan struct{})
		s.at = func(at string, n int) {
			<-started
			if at == p.at && n == p.n {
				kill()
			} else if p.at == "time" {
				time.AfterFunc(time.Duration(p.n)*time.Millisecond, kill)
			}
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		close(started)
		_ = c.Wait()
		s.at = func(string, int) {}
		changed := ""
		if p.other {
			s.mu.Lock()
			for _, o := range s.objects {
				if o != foreign {
					o.Version += 10
					changed = o.Name
					break
				}
			}
			s.mu.Unlock()
		}
		u, code := undoScenario(t, state)
		kept := map[string]scenario.State{}
		for _, o := range u.Objects {
			kept[o.Name] = o.State
		}
		there := s.left()
		for _, name := range there {
			switch state := kept[name]; {
			case name == foreign.Name:
			case state == scenario.StateUnknown:
				unknown++
			case state == scenario.StateChanged:
			default:
				t.Errorf("%v: %s remains, and undo says %q of it (exit %d)", p, name, state, code)
			}
		}
		if changed != "" && kept[changed] != scenario.StateChanged && kept[changed] != scenario.StateUnknown {
			t.Errorf("%v: %s was changed by another, and undo says %q", p, changed, kept[changed])
		}
		if s.objects[fmt.Sprint(foreign.ID)] == nil {
			t.Errorf("%v: an object of another was removed", p)
		}
		for _, name := range s.removed {
			if !strings.HasPrefix(name, "fettle-") || name == changed {
				t.Errorf("%v: %s was removed", p, name)
			}
		}
		known += len(s.removed)
		if len(u.Objects) > 0 && u.Left() > 0 && code != 7 {
			t.Errorf("%v: objects are left, and the exit code is %d", p, code)
		}
	}
	t.Logf("%d kills: %d objects removed by id, %d named without an id", len(points), known, unknown)
	if known == 0 || unknown == 0 {
		t.Errorf("the kills hit nothing: %d removed, %d unknown", known, unknown)
	}
}

// TestScenarioUndo: a whole run is undone to the last object although its own steps changed
// them; the second time nothing is left.
func TestScenarioUndo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newObjectServer(t)
	file, state := filepath.Join(dir, "creating.yaml"), filepath.Join(dir, "state")
	if err := os.WriteFile(file, fmt.Appendf(nil, creating, s.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := scenarioVerb(t, state, file).CombinedOutput(); err != nil || !strings.Contains(string(out), "may create up to 20 objects") {
		t.Fatalf("%v: %s", err, out)
	}
	if n := len(s.left()); n != 20 {
		t.Fatalf("%d objects", n)
	}
	journals, err := filepath.Glob(filepath.Join(state, "scenarios", "*"))
	if err != nil || len(journals) != 1 {
		t.Fatal(journals, err)
	}
	text, err := os.ReadFile(journals[0])
	if err != nil || strings.Contains(string(text), "secret") {
		t.Errorf("%v: the journal holds the token", err)
	}
	if u, code := undoScenario(t, state); u.Removed != 20 || code != 0 || len(s.left()) != 0 {
		t.Errorf("exit %d: %+v, %d objects remain", code, u, len(s.left()))
	}
	out, err := scenarioVerb(t, state, "undo").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no run has objects to remove") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestScenarioMemory: 10,000 hosts with a connection each and a request in flight need at most
// 256 MiB, also over TLS with a certificate each. The peak is the kernel's (VmHWM), with the
// program itself.
func TestScenarioMemory(t *testing.T) {
	testkitroot.Real(t, "connects 10,000 hosts")
	const hosts, most = 10_000, 256 << 20
	limit := unix.Rlimit{}
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Max < hosts+2000 {
		testkitroot.Missing(t, "12,000 open files")
	}
	limit.Cur = limit.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ca := newAuthority(t)
	cert := ca.issue(dir, "localhost")
	file := filepath.Join(dir, "hold.yaml")
	if err := os.WriteFile(file, []byte(`scenario: hold
servers: {web: }
data: {uuid: {uuid: true}, pause: {int: 1..100}, mac: {hex: 12}}
steps:
  - {name: connect, think: 0s..10s, http: {url: "${web}/first/${name}"}, take: {id: {jsonpath: $.id}}}
  - {name: all, once: true, http: {url: "${web}/all"}}
  - {name: hold, http: {url: "${web}/hold/${id}/${uuid}/${mac}"}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	certs := t.TempDir()
	for n := range hosts {
		ca.issue(certs, fmt.Sprintf("host-%05d", n))
	}
	for _, secure := range []bool{false, true} {
		s := newHoldingServer(hosts)
		args := []string{file, "--hosts", fmt.Sprint(hosts), "--timeout", "5m", "-o", "json"}
		if secure {
			both, err := tls.LoadX509KeyPair(cert, cert)
			if err != nil {
				t.Fatal(err)
			}
			s.TLS = &tls.Config{Certificates: []tls.Certificate{both}, ClientAuth: tls.RequireAnyClientCert}
			s.StartTLS()
			args = append(args, "--host-certs", certs, "--cacert", ca.file)
		} else {
			s.Start()
		}
		c := scenarioVerb(t, filepath.Join(dir, "state"), append(args, "--server", "web="+s.URL)...)
		var out, talk strings.Builder
		c.Stdout, c.Stderr = &out, &talk
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		peak := make(chan int64, 1)
		go func() {
			<-s.full // all are in flight
			peak <- vmHWM(c.Process.Pid)
			close(s.release)
		}()
		err := c.Wait()
		s.Close()
		var r struct{ Body scenario.Result }
		if jsonErr := json.Unmarshal([]byte(out.String()), &r); err != nil || jsonErr != nil || r.Body.Whole.Runs != hosts || r.Body.Whole.Errors != 0 || r.Body.Generator.Opened < hosts {
			t.Fatalf("secure %t: %v %v: %s%s", secure, err, jsonErr, out.String(), talk.String())
		}
		got := <-peak
		t.Logf("secure %t: %d MiB for %d hosts, %d bytes a host", secure, got>>20, hosts, got/hosts)
		if got > most {
			t.Errorf("secure %t: %d MiB, and %d hosts may need %d MiB", secure, got>>20, hosts, most>>20)
		}
	}
}

// holdingServer holds the requests to /hold until there are as many as wanted.
type holdingServer struct {
	*httptest.Server
	full, release chan struct{}
}

func newHoldingServer(hosts int64) *holdingServer {
	s := &holdingServer{full: make(chan struct{}), release: make(chan struct{})}
	var held atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/first/{name}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"id": %q, "more": %q}`, r.PathValue("name"), strings.Repeat("x", 2000))
	})
	mux.HandleFunc("/all", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/hold/", func(http.ResponseWriter, *http.Request) {
		if held.Add(1) == hosts {
			close(s.full)
		}
		<-s.release
	})
	s.Server = httptest.NewUnstartedServer(mux)
	return s
}

// vmHWM returns the peak of a process's memory in bytes.
func vmHWM(pid int) (bytes int64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &bytes); n == 1 {
			return bytes << 10
		}
	}
	return 1 << 62
}

// TestScenarioBroker: a job over Debian's mosquitto with an access list: each host subscribes with
// its own certificate and gets its own message, published after all have arrived. A host whose
// certificate is not that of its name gets nothing. Command steps run with --allow-commands only.
func TestScenarioBroker(t *testing.T) {
	t.Parallel()
	if !testkitroot.Inside(t, testkitroot.Options{Servers: true}) {
		return
	}
	dir, certs, state := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "state")
	ca := newAuthority(t)
	server := ca.issue(dir, "localhost")
	for i := range 10 {
		ca.issue(certs, fmt.Sprintf("job-%02d", i))
	}
	rules := filepath.Join(dir, "acl")
	if err := os.WriteFile(rules, []byte("pattern read yggdrasil/%u/data/in\npattern write yggdrasil/+/data/in\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := startMosquitto(t, 1024, "18850", fmt.Sprintf("listener 18850 127.0.0.1\ncafile %s\ncertfile %s\nkeyfile %s\nrequire_certificate true\nuse_identity_as_username true\nacl_file %s\n", ca.file, server, server, rules))
	defer m.stop()
	file := filepath.Join(dir, "job.yaml")
	if err := os.WriteFile(file, []byte(`scenario: job
servers: {broker: "mqtts://localhost:18850"}
data: {all: {lines: names}}
steps:
  - {name: subscribe, mqtt: {server: "${broker}", subscribe: "yggdrasil/${name}/data/in"}}
  - name: start
    once: true
    for_each: {to: "${all}"}
    mqtt: {publish: "yggdrasil/${to}/data/in", payload: '{"job": "for ${to}"}'}
  - name: notified
    mqtt: {receive: "yggdrasil/+/data/in", within: 20s}
    expect: {body: {jsonpath: $.job, is: "for ${name}"}}
    take: {job: {jsonpath: $.job}}
  - {name: run, command: [echo, "ran ${job}; not a shell"], expect: {exit: 0, body: {contains: "ran for ${name}; not"}}}
thresholds: [host errors <= 0%, notified errors <= 0%]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	names := "job-00\njob-01\njob-02\njob-03\njob-04\njob-05\njob-06\njob-07\njob-08\njob-09\n"
	if err := os.WriteFile(filepath.Join(dir, "names"), []byte(names), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{file, "--host-certs", certs, "--cacert", ca.file, "-o", "json"}
	out, err := scenarioVerb(t, state, args...).Output()
	if code := exitCode(err); code != 4 || !strings.Contains(string(out), "runs commands on this machine: echo") {
		t.Errorf("exit %d without --allow-commands: %s", code, out)
	}
	var r struct{ Body scenario.Result }
	out, err = scenarioVerb(t, state, append(args, "--allow-commands")...).Output()
	if jsonErr := json.Unmarshal(out, &r); err != nil || jsonErr != nil {
		t.Fatalf("%v, %v: %s\n%s", err, jsonErr, out, m.logged())
	}
	for i, runs := range []int64{10, 10, 10, 10} {
		if s := r.Body.Steps[i]; s.Runs != runs || s.Errors != 0 {
			t.Errorf("%s: %d runs, %+v", s.Name, s.Runs, s.Causes)
		}
	}
	// The certificate of another: the broker does not deliver.
	ca.issue(certs, "other")
	other, err := os.ReadFile(filepath.Join(certs, "other.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(certs, "job-03.pem"), other, 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), "within: 20s", "within: 2s", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err = scenarioVerb(t, state, append(args, "--allow-commands", "--hosts", "10")...).Output()
	if jsonErr := json.Unmarshal(out, &r); exitCode(err) != 3 || jsonErr != nil || r.Body.Whole.Errors != 1 {
		t.Errorf("%v, %v: %s", err, jsonErr, out)
	}
}

// exitCode returns the exit code of a program that ended with err.
func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// TestScenarioBounds: a scenario that creates objects is refused on a server that is not this
// machine without organization, prefix and number of hosts; nothing is sent or recorded.
func TestScenarioBounds(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("SCENARIO_TOKEN", "secret")
	file, state := filepath.Join(dir, "creating.yaml"), filepath.Join(dir, "state")
	if err := os.WriteFile(file, fmt.Appendf(nil, creating, "http://192.0.2.7"), 0o600); err != nil {
		t.Fatal(err)
	}
	bounds := []string{"--organization=Org", "--prefix=loadtest-", "--most-hosts=100"}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, 4, "--allow=192.0.2.7:80"},
		{bounds, 4, "--allow=192.0.2.7:80"},
		{[]string{"--allow=192.0.2.7:80"}, 4, "--organization=NAME --prefix=loadtest- --most-hosts=100"},
		{append(bounds[1:2:2], "--allow=192.0.2.7:80"), 4, "--organization=NAME --most-hosts=100"},
		{append(bounds[:3:3], "--allow=192.0.2.7:80", "--hosts=101"), 4, "--hosts=100"},
		{append(bounds[:3:3], "--allow=192.0.2.7:80", "--dry-run"), 0, "may create up to 20 objects, named with the prefix \"loadtest-\""},
	} {
		var out, said bytes.Buffer
		if code := Main("test", append([]string{"--state-dir", state, "load", "scenario", file}, c.args...), &out, &said); code != c.code || !strings.Contains(said.String(), c.says) {
			t.Errorf("%q: exit %d, want %d and %q: %s", c.args, code, c.code, c.says, said.String())
		}
	}
	if _, err := os.Stat(filepath.Join(state, loadcli.ScenarioDir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a journal was made: %v", err)
	}
}
