package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"fettle.dev/fettle/internal/requests/load/scenario"
	"fettle.dev/fettle/internal/ui"
)

// hostRegister is a server that creates hosts, by name, and removes them by id.
type hostRegister struct {
	mu     sync.Mutex
	names  map[string]string // by id
	tokens int               // requests for the token
	wrong  int               // requests without the secret
	// created is called for each new host, before the answer.
	created func(name string)
}

func (g *hostRegister) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer geheim" {
		g.wrong++
	}
	id := filepath.Base(r.URL.Path)
	switch r.Method {
	case http.MethodGet:
		g.tokens++
		fmt.Fprint(w, `{"token": "t1"}`)
	case http.MethodPost:
		name, _ := io.ReadAll(r.Body)
		id = fmt.Sprint(len(g.names) + 1)
		g.names[id] = string(name)
		if g.created != nil {
			g.created(string(name))
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id": %q}`, id)
	case http.MethodDelete:
		if g.names[id] == "" {
			w.WriteHeader(http.StatusNotFound)
		}
		delete(g.names, id)
	}
}

const registerScenario = `scenario: register
changes: true
servers: {web: http://web.invalid}
load: {hosts: 20}
data: {secret: {env: FETTLE_TEST_SECRET}}
setup:
  - {name: token, http: {url: "${web}/token", header: {Authorization: "Bearer ${secret}"}}, take: {token: {jsonpath: $.token}}}
steps:
  - name: register
    http: {method: POST, url: "${web}/hosts?token=${token}", header: {Authorization: "Bearer ${secret}"}, body: "${name}"}
    expect: {status: 201}
    take: {id: {jsonpath: $.id}}
    creates: {name: "${name}", id: "${id}", remove: "${web}/hosts/${id}"}
thresholds: [host errors < 1%]
`

// scenarioRig is the stand-in with a server and a file.
type scenarioRig struct {
	*podAPI
	*hostRegister
	host, file, state string
}

func newScenarioRig(t *testing.T) *scenarioRig {
	t.Setenv("FETTLE_TEST_SECRET", "geheim")
	r := &scenarioRig{podAPI: newPodAPI(t), hostRegister: &hostRegister{names: map[string]string{}}, file: filepath.Join(t.TempDir(), "register.yaml"), state: t.TempDir()}
	s := httptest.NewServer(r.hostRegister)
	t.Cleanup(s.Close)
	r.host = strings.TrimPrefix(s.URL, "http://")
	if err := os.WriteFile(r.file, []byte(registerScenario), 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

// run runs load scenario against the stand-in.
func (r *scenarioRig) run(args ...string) (code int, x *scenario.Result, out, said string) {
	r.t.Helper()
	code, out, said = run(r.t, append([]string{"load", "scenario", r.file, "--server", r.URL, "--namespace", "shop", "--image", "fettle:1", "--output", "json", "--state-dir", r.state, "--scenario-server", "web=http://" + r.host, "--allow", r.host}, args...)...)
	var doc struct{ Body *scenario.Result }
	_ = json.Unmarshal([]byte(out), &doc)
	return code, doc.Body, out, said
}

// undo runs load scenario undo, and wants an exit code.
func (r *scenarioRig) undo(t *testing.T, want int) (u scenario.Undone, said string) {
	t.Helper()
	code, out, said := run(t, "load", "scenario", "undo", "--server", r.URL, "--namespace", "shop", "--image", "fettle:1", "--output", "json", "--state-dir", r.state)
	if err := json.Unmarshal([]byte(out), &u); err != nil || code != want {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, said)
	}
	valid(t, "scenario-undo", []byte(out))
	return u, said
}

// bounds are the options that a scenario needs that changes a server.
var bounds = []string{"--organization", "Org", "--prefix", "lt-", "--most-hosts", "100"}

// TestLoadScenario: each host is run by one generator, the setup runs once, what is created is
// recorded and removed from a pod, secrets are in the Secret only, and nothing is left.
func TestLoadScenario(t *testing.T) {
	r := newScenarioRig(t)
	code, x, out, said := r.run(append(bounds, "--generators", "3")...)
	if code != ui.Done || x == nil {
		t.Fatalf("exit code %d: %s%s", code, out, said)
	}
	valid(t, "run", []byte(out))
	names := map[string]bool{}
	for _, name := range r.names {
		names[name] = strings.HasPrefix(name, "lt-0000")
	}
	if len(names) != 20 || len(r.names) != 20 || r.tokens != 1 || r.wrong != 0 {
		t.Errorf("%v, %d tokens, %d without the secret", r.names, r.tokens, r.wrong)
	}
	if x.Whole.Runs != 20 || x.Whole.Requests != 21 || x.Created.Known != 20 || len(x.Generator.Clients) != 3 || x.Generator.Clients[0].ClockErrorS <= 0 {
		t.Errorf("%+v %+v", x.Whole, x.Generator)
	}
	if left := r.left(); left != nil || !strings.Contains(said, "kubectl fettle load scenario undo "+x.RunID+" --namespace shop --image fettle:1 --state-dir ") {
		t.Errorf("left: %v; %s", left, said)
	}
	if strings.Contains(out+said, "geheim") {
		t.Error("a secret is printed")
	}
	r.heard.Range(func(pod, text any) bool {
		if strings.Contains(text.(string), "geheim") {
			t.Errorf("%s was sent the secret on its stream", pod)
		}
		return true
	})
	u, said := r.undo(t, ui.Done)
	if u.Removed != 20 || len(r.names) != 0 || r.wrong != 0 || r.left() != nil {
		t.Errorf("%+v, the server has %v: %s", u, r.names, said)
	}
	if code, _, said := run(t, "load", "scenario", "undo", "--server", r.URL, "--image", "fettle:1", "--state-dir", r.state); code != ui.Failed || !strings.Contains(said, "no run has objects to remove") {
		t.Errorf("exit code %d: %s", code, said)
	}
}

// TestLoadScenarioLost: what a lost generator created is removed if its id arrived, and named if
// not.
func TestLoadScenarioLost(t *testing.T) {
	r := newScenarioRig(t)
	var gone sync.Once
	lost := make(chan struct{})
	r.created = func(name string) {
		if name == "lt-000005" { // of the second generator
			gone.Do(func() { close(lost) })
		}
	}
	r.lose = func(pod, line string) bool {
		select {
		case <-lost:
			return strings.HasSuffix(pod, "-1-x") && strings.HasPrefix(line, `{"record"`)
		default:
			return false
		}
	}
	code, x, out, said := r.run(append(bounds, "--generators", "3")...)
	if code != ui.Failed || x == nil || x.Word != scenario.Partial || x.Generator.Clients[1].Lost == "" || x.Created.Known == x.Created.Intended {
		t.Fatalf("exit code %d: %s%s", code, out, said)
	}
	r.lose = nil
	u, said := r.undo(t, ui.Partial)
	var named []string
	for _, o := range u.Objects {
		named = append(named, o.Name)
	}
	if u.Removed != int(x.Created.Known) || !slices.Contains(named, "lt-000005") || r.podAPI.left() != nil {
		t.Errorf("%+v: %s", u, said)
	}
	for _, name := range r.names {
		if !slices.Contains(named, name) {
			t.Errorf("%s is left, but not named", name)
		}
	}
}

// TestLoadScenarioCertificates: certificates of hosts that take more than a Secret are in several,
// of which the job is put together.
func TestLoadScenarioCertificates(t *testing.T) {
	dir := t.TempDir()
	for n := range 300 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("lt-%03d.pem", n)), []byte(strings.Repeat("x", 4000)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := newScenarioRig(t)
	if code, _, out, said := r.run(append(bounds, "--host-certs", dir, "--hosts", "300", "--most-hosts", "300", "--generators", "2", "--dry-run")...); code != ui.Done || strings.Count(out, `"kind": "Secret"`) != 2 || strings.Contains(out, "geheim") || !strings.Contains(out, `"/etc/fettle-load/job.json.1"`) {
		t.Errorf("exit code %d: %s%s", code, out, said)
	}
	if code, x, out, said := r.run(append(bounds, "--host-certs", dir, "--hosts", "300", "--most-hosts", "300", "--generators", "2")...); code != ui.Done || x == nil || x.Whole.Runs != 300 || len(r.names) != 300 || !strings.Contains(said, "its 2 Secrets") {
		t.Errorf("exit code %d: %s%s", code, out, said)
	}
}

// TestLoadScenarioRefused: what is refused before anything is created.
func TestLoadScenarioRefused(t *testing.T) {
	r := newScenarioRig(t)
	write := func(name, steps string) string {
		name = filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(name, []byte("scenario: t\nservers: {web: http://web.shop.svc}\nload: {hosts: 4}\nsteps: "+steps+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	get := `[{name: a, http: {url: "${web}/"}}]`
	const allowed = "--allow=web.shop.svc:80"
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{write("other.yaml", get)}, ui.Refused, "web.shop.svc:80 is not allowed; load only your own servers"},
		{[]string{write("self.yaml", get), "--scenario-server", "web=http://localhost"}, ui.Refused, "localhost:80 is a loopback address: each generator would load its own pod"},
		{[]string{write("command.yaml", "[{name: a, command: [date]}]"), allowed}, ui.Refused, "t runs commands (date), which is impossible in pods"},
		{[]string{write("once.yaml", `[{name: a, once: true, http: {url: "${web}/"}}]`), allowed, "--generators", "2"}, ui.Usage, "all hosts wait for each other, which is impossible with several generators"},
		{[]string{write("few.yaml", get), allowed, "--generators", "5"}, ui.Usage, "4 hosts: too few for 5 generators"},
		{[]string{write("post.yaml", `[{name: a, http: {url: "${web}/", body: x}}]`), allowed}, ui.Refused, "say in which organization, with which prefix, and for how many hosts at most"},
		{[]string{write("server.yaml", get), allowed, "--scenario-server", "wep=http://localhost"}, ui.Usage, `server wep: the scenario has no server of this name (did you mean "web"?)`},
		{[]string{filepath.Join(t.TempDir(), "none.yaml"), allowed}, ui.Usage, "none.yaml"},
		{[]string{"downlaod", allowed}, ui.Usage, `did you mean "download"?`},
	} {
		code, out, said := run(t, append([]string{"load", "scenario", "--server", r.URL, "--namespace", "shop", "--image", "fettle:1", "--state-dir", r.state}, c.args...)...)
		if code != c.code || !strings.Contains(said, c.want) || r.wrote("POST jobs") != 0 {
			t.Errorf("%q: exit code %d, want %d %q\n%s%s", c.args, code, c.code, c.want, out, said)
		}
	}
}
