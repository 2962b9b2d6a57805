package scenario

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/requests/load/engine"
)

// noNames resolves localhost only.
type noNames struct{}

func (noNames) LookupNetIP(_ context.Context, _, name string) ([]netip.Addr, error) {
	switch name {
	case "localhost":
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	case "far.example":
		return []netip.Addr{netip.MustParseAddr("192.0.2.7")}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

// planOf returns the plan of a scenario on a server.
func planOf(t *testing.T, web, text string) *Plan {
	t.Helper()
	_, p := jobOf(t, web, text)
	return p
}

// jobOf returns the job of a scenario on a server, and its plan.
func jobOf(t *testing.T, web, text string) (*Job, *Plan) {
	t.Helper()
	j := &Job{File: "t.yaml", Text: []byte("scenario: t\nservers: {web: '" + web + "'}\n" + text), Files: map[string][]byte{}, Env: map[string]string{"SET": "x"}}
	for name, text := range files {
		j.Files[name] = []byte(text)
	}
	s, err := j.Parse()
	if err != nil {
		t.Fatal(err)
	}
	j.Options = Options{Load: s.Load, Seed: 7, Run: "run1", Prefix: "p-", Organization: "Org", Timeout: 10 * time.Second}
	p, err := j.Plan(t.Context(), noNames{})
	if err != nil {
		t.Fatal(err)
	}
	return j, p
}

// runOf runs a scenario on a handler.
func runOf(t *testing.T, h http.Handler, text string) *Result {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	x, err := Run(t.Context(), planOf(t, s.URL, text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// clean reports an error unless all steps succeeded so many times.
func clean(t *testing.T, x *Result, runs ...int64) {
	t.Helper()
	for i, s := range x.Steps {
		if s.Runs != runs[i] || s.Errors != 0 || s.Latency.N != runs[i] {
			t.Errorf("step %s: %d runs, want %d: %+v", s.Name, s.Runs, runs[i], s.Causes)
		}
	}
	if x.Whole.Errors != 0 {
		t.Errorf("hosts: %+v", x.Whole.Causes)
	}
}

func gzipped(text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.Bytes()
}

// TestHTTPSteps: bodies, headers, forms, uploads, cookies, redirects and values reach a server of
// net/http as they were meant.
func TestHTTPSteps(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	note := func(what string) {
		mu.Lock()
		seen[what]++
		mu.Unlock()
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /json", func(w http.ResponseWriter, r *http.Request) {
		var m map[string]string
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil || r.Header.Get("X-Run") != "run1" || r.UserAgent() != "fettle" {
			t.Errorf("%v: %v", err, r.Header)
		}
		note("name " + m["name"] + " " + m["quoted"])
		http.SetCookie(w, &http.Cookie{Name: "session", Value: m["name"], Path: "/private"})
		w.Header().Set("X-Token", "abc-"+m["name"])
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id": 9007199254740993, "list": ["a b/1", "c"], "ok": true, "name": %q}`, m["name"])
	})
	mux.HandleFunc("GET /private", func(w http.ResponseWriter, r *http.Request) {
		c, err := r.Cookie("session")
		if err != nil {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		note("cookie " + c.Value + " " + r.URL.Query().Get("id"))
	})
	mux.HandleFunc("POST /form", func(w http.ResponseWriter, r *http.Request) {
		note("form " + r.FormValue("a") + " " + r.FormValue("b c"))
		http.Redirect(w, r, "/form?done=1", http.StatusSeeOther)
	})
	mux.HandleFunc("GET /form", func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > 0 {
			t.Errorf("a GET with %d bytes", r.ContentLength)
		}
		note("seen " + r.URL.RawQuery)
		_, _ = w.Write(gzipped("<m xmlns:x='u'><p href='1.rpm'/><p href='2.rpm'/></m>"))
	})
	mux.HandleFunc("PUT /upload", func(_ http.ResponseWriter, r *http.Request) {
		f, h, err := r.FormFile("f")
		if err != nil {
			t.Error(err)
			return
		}
		text, _ := io.ReadAll(f)
		note(fmt.Sprintf("upload %s %q", h.Filename, text))
	})
	mux.HandleFunc("POST /raw", func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		note(fmt.Sprintf("raw %q", text))
	})
	mux.HandleFunc("GET /each/{rest...}", func(_ http.ResponseWriter, r *http.Request) { note("each " + r.URL.EscapedPath()) })
	x := runOf(t, mux, `
load: {hosts: 3, repeat: 2}
data: {quoted: 'a"b'}
steps:
  - name: json
    http:
      url: ${web}/json
      header: {Content-Type: application/json, X-Run: "${run}"}
      body: '{"name": "${name}", "quoted": "${quoted}"}'
    expect: {status: 201, body: {jsonpath: $.name, is: "${name}"}}
    take: {id: {jsonpath: $.id}, list: {jsonpath: "$.list[*]", all: true}, token: {header: x-token, regexp: "(abc)-"}, ok: {jsonpath: $.ok}}
  - {name: private, http: {url: "${web}/private?id=${id}-${token}-${ok}"}}
  - name: form
    http: {url: "${web}/form", follow: 1, form: {a: "${quoted}", b c: "x=&y"}}
    take: {hrefs: {xpath: "//p/@href", all: true, unpack: gzip}, n: {xpath: count(//p), unpack: gzip}}
  - {name: upload, http: {method: PUT, url: "${web}/upload", upload: {field: f, file: body.bin}}}
  - {name: raw, http: {url: "${web}/raw", body_file: body.bin}}
  - {name: each, for_each: {p: "${list}"}, http: {url: "${web}/each/${p}"}}
  - {name: hrefs, for_each: {p: "${hrefs}"}, http: {url: "${web}/each/${n}/${p}"}}
`)
	clean(t, x, 6, 6, 6, 6, 6, 12, 12)
	want := map[string]int{"form a\"b x=&y": 6, "seen done=1": 6, "upload body.bin \"\\x00\\x01body\"": 6, "raw \"\\x00\\x01body\"": 6, "each /each/a%20b/1": 6, "each /each/c": 6, "each /each/2/1.rpm": 6, "each /each/2/2.rpm": 6}
	for i := 1; i <= 3; i++ {
		name := fmt.Sprintf("p-%06d", i)
		want["name "+name+" a\"b"], want["cookie "+name+" 9007199254740993-abc-true"] = 2, 2
	}
	for what, n := range want {
		if seen[what] != n {
			t.Errorf("%q: %d times, want %d", what, seen[what], n)
		}
	}
	if len(seen) != len(want) {
		t.Errorf("%v", seen)
	}
	if s := x.Steps[2]; s.Requests != 12 || s.Statuses["303"] != 6 || s.Statuses["200"] != 6 {
		t.Errorf("%+v", s)
	}
}

// TestCredentialsStay: a redirect to another server carries no credentials, and one to a server
// that is not allowed is not followed. The same holds for a server taken from an answer.
func TestCredentialsStay(t *testing.T) {
	var got atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got.Add(1)
		if len(r.Header["Authorization"])+len(r.Header["Cookie"]) > 0 || r.Header.Get("X-Kept") == "" {
			t.Errorf("%v", r.Header)
		}
	}))
	defer other.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("/to", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "c", Value: "1"})
		http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusFound)
	})
	mux.HandleFunc("/base", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "base=http://far.example:8080;") })
	port := other.URL[strings.LastIndexByte(other.URL, ':'):]
	x := runOf(t, mux, `
data: {other: 'http://localhost`+port+`/', far: 'http://far.example:8080/'}
steps:
  - {name: cross, http: {url: "${web}/to?to=${other}", follow: 2, header: {Authorization: secret, X-Kept: "1"}}}
  - {name: far, on_error: continue, http: {url: "${web}/to?to=${far}", follow: 2}}
  - {name: base, http: {url: "${web}/base"}, take: {base: {regexp: "base=(.*);"}}}
  - {name: taken, on_error: continue, http: {url: "${base}/x"}}
  - {name: again, http: {url: "${base}/x"}}
  - {name: never, http: {url: "${web}/base"}}
`)
	if got.Load() != 1 || x.Steps[0].Errors != 0 {
		t.Errorf("%d requests: %+v", got.Load(), x.Steps[0])
	}
	for _, i := range []int{1, 3, 4} {
		if s := x.Steps[i]; s.Causes[notAllowed].N != 1 || !strings.Contains(s.Causes[notAllowed].Example, "not allowed") {
			t.Errorf("%s: %+v", s.Name, s.Causes)
		}
	}
	if x.Steps[5].Runs != 0 || x.Word != Silent || x.Whole.Errors != 1 {
		t.Errorf("%s: %+v", x.Word, x.Steps[5])
	}
	if !slices.Contains(x.Servers, Target{Origin: "http://far.example:8080", Refused: true}) {
		t.Errorf("%+v", x.Servers)
	}
}

// TestFailures: each kind of failure is counted by step and cause, and ends the host.
func TestFailures(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"a": "1", "line": "x\r\ny"}`) })
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		c, _, _ := w.(http.Hijacker).Hijack()
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
		c.Close()
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	for cause, step := range map[string]string{
		wrongStatus:          `http: {url: "${web}/none"}`,
		wrongBody:            `http: {url: "${web}/ok"}, expect: {body: {jsonpath: $.a, is: "2"}}`,
		notTaken:             `http: {url: "${web}/ok"}, take: {x: {jsonpath: $.nosuch}}`,
		"closed-early":       `http: {url: "${web}/cut"}`,
		"timeout":            `http: {url: "${web}/slow"}`,
		"connection-refused": `http: {url: "http://127.0.0.1:1/"}`,
		malformed:            `http: {url: "${web}/ok", header: {X: "${line}"}}`,
		notMet:               `wait: {url: "${web}/ok", until: {jsonpath: $.a, is: "2"}, every: 10ms, within: 100ms}`,
		notExited:            `command: [sh, -c, "exit 3"]`,
		string(engine.Other): `command: [/no/such/program]`,
	} {
		p := planOf(t, s.URL, "steps:\n  - {name: first, http: {url: \"${web}/ok\"}, take: {line: {jsonpath: $.line}}}\n  - {name: second, "+step+"}\n  - {name: third, http: {url: \"${web}/ok\"}}\n")
		p.Options.Load.Hosts, p.Timeout = 2, 300*time.Millisecond
		p.Exec = host.Live().Exec
		x, err := Run(t.Context(), p, nil)
		if err != nil {
			t.Fatal(err)
		}
		if f := x.Steps[1]; f.Causes[cause].N != 2 || f.Errors != 2 || x.Steps[0].Errors != 0 || x.Steps[2].Runs != 0 || x.Whole.Errors != 2 || x.Whole.Causes[cause].N != 2 {
			t.Errorf("%s: %+v", cause, f)
		}
		if waits := cause == "timeout" || cause == notMet; (x.Steps[1].Latency.N == 2) != waits {
			t.Errorf("%s: %d latencies", cause, x.Steps[1].Latency.N)
		}
	}
}

// TestWaitsForState polls until a state, and fails at a bad one.
func TestWaitsForState(t *testing.T) {
	var polls atomic.Int64
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := polls.Add(1)
		state := "running"
		if n%4 == 0 {
			state = strings.TrimPrefix(r.URL.Path, "/")
		}
		fmt.Fprintf(w, `{"state": %q, "result": {"n": %d}}`, state, n)
	})
	x := runOf(t, h, `
steps:
  - {name: good, wait: {url: "${web}/stopped", until: {jsonpath: $.state, in: [stopped, paused]}, fail: {jsonpath: $.state, is: failed}, every: 5ms}, take: {n: {jsonpath: $.result.n}}}
  - {name: bad, wait: {url: "${web}/failed", until: {jsonpath: $.state, in: [stopped]}, fail: {jsonpath: $.state, is: failed}, every: 5ms}}
`)
	if s := x.Steps[0]; s.Errors != 0 || s.Requests != 4 || s.Latency.MinS < 0.015 {
		t.Errorf("%+v", s)
	}
	if s := x.Steps[1]; s.Causes[notMet].N != 1 || !strings.Contains(s.Causes[notMet].Example, "failed") || s.Requests != 4 {
		t.Errorf("%+v", s)
	}
}

// TestOnce: one host runs the step when all others have arrived or failed, and all get its
// value.
func TestOnce(t *testing.T) {
	for _, fails := range []bool{false, true} {
		var before, once, after atomic.Int64
		mux := http.NewServeMux()
		mux.HandleFunc("/before/{n}", func(w http.ResponseWriter, r *http.Request) {
			before.Add(1)
			if r.PathValue("n") == "3" {
				w.WriteHeader(http.StatusTeapot)
			}
		})
		mux.HandleFunc("/once", func(w http.ResponseWriter, _ *http.Request) {
			if once.Add(1); before.Load() != 8 || after.Load() != 0 {
				t.Errorf("%d before, %d after", before.Load(), after.Load())
			}
			if fails {
				w.WriteHeader(http.StatusInternalServerError)
			}
			fmt.Fprint(w, "job=17;")
		})
		mux.HandleFunc("/after/17", func(http.ResponseWriter, *http.Request) { after.Add(1) })
		x := runOf(t, mux, `
load: {hosts: 8}
steps:
  - {name: before, think: 0s..50ms, http: {url: "${web}/before/${host}"}}
  - {name: once, once: true, http: {url: "${web}/once"}, take: {job: {regexp: "job=(.*);"}}}
  - {name: after, http: {url: "${web}/after/${job}"}}
`)
		want := int64(7)
		if fails {
			want = 0
		}
		if once.Load() != 1 || after.Load() != want || x.Steps[1].Runs != 1 || x.Whole.Errors != 8-want {
			t.Errorf("fails %t: %d once, %d after: %+v", fails, once.Load(), after.Load(), x.Whole)
		}
	}
}

// TestSetup: setup runs once, and its values reach all hosts.
func TestSetup(t *testing.T) {
	var logins atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/login", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Token", fmt.Sprint("t", logins.Add(1)))
	})
	mux.HandleFunc("/t1/{name}", func(http.ResponseWriter, *http.Request) {})
	const text = `
load: {hosts: 5}
setup: [{name: login, http: {url: "${web}/%s"}, take: {token: {header: X-Token}}}]
steps: [{name: use, http: {url: "${web}/${token}/${name}"}}]
`
	clean(t, runOf(t, mux, fmt.Sprintf(text, "login")), 1, 5)
	s := httptest.NewServer(mux)
	defer s.Close()
	if _, err := Run(t.Context(), planOf(t, s.URL, fmt.Sprintf(text, "nosuch")), nil); err == nil || !strings.Contains(err.Error(), `setup: step "login" failed: status 404`) {
		t.Errorf("%v", err)
	}
}

// TestIntendedStart: in the open model a stalled server delays each host that was due, and the
// latency counts from when it was due.
func TestIntendedStart(t *testing.T) {
	var served atomic.Int64
	gate := make(chan struct{})
	h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if served.Add(1) <= 20 {
			<-gate
		}
	})
	time.AfterFunc(400*time.Millisecond, func() { close(gate) })
	x := runOf(t, h, "load: {rate: 100/s, for: 300ms}\nsteps: [{name: a, http: {url: \"${web}/\"}}]\n")
	if x.Hosts != 30 || x.Steps[0].Runs != 30 || x.Model != "open" {
		t.Fatalf("%d hosts, %+v", x.Hosts, x.Steps[0])
	}
	// Host n was due at n * 10 ms and waited until 400 ms: the median of all is above 200 ms.
	if l := x.Steps[0].Latency; l.P50S < 0.15 || l.MaxS < 0.38 {
		t.Errorf("%+v", l)
	}
}

// TestPartsAddUp: the hosts of two processes make the same requests as those of one, and the sum
// of their parts, sent as JSON, is exact.
func TestPartsAddUp(t *testing.T) {
	seen := [2]sync.Map{}
	at := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen[at].Store(r.URL.Path, true)
		if strings.HasSuffix(r.URL.Path, "7") {
			w.WriteHeader(http.StatusNotFound)
		}
		w.Header().Set("Fettle-Stand-In", "toy")
	}))
	defer s.Close()
	const text = "load: {hosts: 11, repeat: 3}\ndata: {u: {uuid: true}}\nsteps: [{name: a, http: {url: \"${web}/${u}\"}}, {name: b, http: {url: \"${web}/${name}\"}}]\nthresholds: [b errors < 50%]\n"
	whole, err := Run(t.Context(), planOf(t, s.URL, text), nil)
	if err != nil {
		t.Fatal(err)
	}
	at = 1
	var parts []*Part
	for first := range 2 {
		p := planOf(t, s.URL, text)
		p.first, p.step = first, 2
		part, err := Drive(t.Context(), p, nil)
		if err != nil {
			t.Fatal(err)
		}
		wire, err := json.Marshal(part)
		if err != nil {
			t.Fatal(err)
		}
		var read Part
		if err := json.Unmarshal(wire, &read); err != nil {
			t.Fatal(err)
		}
		parts = append(parts, &read)
	}
	sum, err := Judge(planOf(t, s.URL, text), parts)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole.Steps {
		a, b := whole.Steps[i], sum.Steps[i]
		if a.Runs != b.Runs || a.Errors != b.Errors || a.Latency.N != b.Latency.N || a.Causes[wrongStatus].N != b.Causes[wrongStatus].N || a.Statuses["404"] != b.Statuses["404"] || a.BytesIn != b.BytesIn {
			t.Errorf("%+v, in parts %+v", a, b)
		}
	}
	if whole.Whole.Runs != 33 || sum.Whole.Runs != 33 || sum.Generator.Opened != whole.Generator.Opened || sum.StandIn != "toy" || len(sum.Gates) != 1 {
		t.Errorf("%+v %+v", sum.Whole, sum.Generator)
	}
	seen[0].Range(func(path, _ any) bool {
		if _, ok := seen[1].Load(path); !ok {
			t.Errorf("%s was not requested in parts", path)
		}
		return true
	})
}

// TestNotShared: what needs one process is refused for several.
func TestNotShared(t *testing.T) {
	for text, says := range map[string]string{
		"steps: [{name: a, once: true, http: {url: '${web}'}}]":                                                                        "t.yaml:3:9: step \"a\": with \"once\" all hosts wait",
		"steps: [{name: a, command: [date]}]":                                                                                          "t.yaml:3:9: step \"a\": commands run only on this machine",
		"setup: [{name: b, http: {url: '${web}'}}]\nsteps: [{name: a, http: {url: '${web}'}}]":                                         "",
		"steps: [{name: a, http: {url: '${web}'}, take: {i: {jsonpath: $.i}}, creates: {name: x, id: '${i}', remove: '${web}/${i}'}}]": "",
		"steps: [{name: a, http: {url: '${web}'}}]":                                                                                    "",
	} {
		j := &Job{File: "t.yaml", Text: []byte(headText + text), Step: 2}
		if _, err := j.Plan(t.Context(), noNames{}); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}

// TestInterrupted: an interruption ends all hosts at once, wherever they are.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var in atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if in.Add(1) == 8 {
			cancel()
		}
		<-r.Context().Done()
	}))
	defer s.Close()
	p := planOf(t, s.URL, "load: {hosts: 8}\ndata: {n: {choice: [0]}}\nsteps:\n  - {name: a, think: 0s..1h, on_error: continue, http: {url: \"${web}/\"}}\n  - {name: b, http: {url: \"${web}/\"}}\n")
	p.steps[0].think = span{}
	began := time.Now()
	x, err := Run(ctx, p, nil)
	if err != nil || x.Cut == nil || x.Whole.Interrupted != 8 || x.Whole.Errors != 0 || x.Steps[1].Runs != 0 || time.Since(began) > 5*time.Second {
		t.Errorf("%v: %+v %+v", err, x.Cut, x.Whole)
	}
}

// TestNothingWithoutIntent: if the journal cannot be written, no object is created.
func TestNothingWithoutIntent(t *testing.T) {
	var posts atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		posts.Add(1)
		fmt.Fprint(w, `{"id": 1}`)
	}))
	defer s.Close()
	p := planOf(t, s.URL, `
load: {hosts: 4}
steps: [{name: a, http: {method: POST, url: "${web}/"}, take: {id: {jsonpath: $.id}}, creates: {name: "${name}", id: "${id}", remove: "${web}/${id}"}}]
`)
	dir := filepath.Join(t.TempDir(), "scenarios")
	j, err := Create(dir, Head{Options: p.Options})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(dir, "run1"); err == nil || !strings.Contains(err.Error(), "still in progress") {
		t.Errorf("opened while it is in use: %v", err)
	}
	p.Journal = j
	if err := j.file.Close(); err != nil {
		t.Fatal(err)
	}
	x, err := Run(t.Context(), p, nil)
	if err != nil || posts.Load() != 0 || x.Steps[0].Causes[notSaved].N != 4 {
		t.Errorf("%v: %d requests, %+v", err, posts.Load(), x.Steps[0].Causes)
	}
}

// TestStateOfCutHosts: the state of an object is recorded even if its host is interrupted before
// it could be read, and that of an object of setup at the end of the run.
func TestStateOfCutHosts(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var version atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/stall":
			cancel()
			<-r.Context().Done()
		case r.Method == http.MethodPost:
			version.Add(1)
			fmt.Fprintf(w, `{"id": "%s"}`, r.URL.Path[1:])
		default:
			fmt.Fprintf(w, `{"version": "%s-%d"}`, r.URL.Path[1:], version.Load())
		}
	}))
	defer s.Close()
	p := planOf(t, s.URL, `
load: {hosts: 1}
setup: [{name: pool, http: {method: POST, url: "${web}/pool"}, take: {pool: {jsonpath: $.id}}, creates: {name: pool, id: "${pool}", show: "${web}/pool", unchanged: {jsonpath: $.version}, remove: "${web}/pool"}}]
steps:
  - {name: a, http: {method: POST, url: "${web}/host"}, take: {id: {jsonpath: $.id}}, creates: {name: "${name}", id: "${id}", show: "${web}/host", unchanged: {jsonpath: $.version}, remove: "${web}/host"}}
  - {name: b, http: {method: POST, url: "${web}/change"}}
  - {name: c, http: {url: "${web}/stall"}}
`)
	dir := filepath.Join(t.TempDir(), "scenarios")
	j, err := Create(dir, Head{Options: p.Options})
	if err != nil {
		t.Fatal(err)
	}
	p.Journal = j
	if x, err := Run(ctx, p, nil); err != nil || x.Cut == nil {
		t.Fatalf("%v: %+v", err, x)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j, objects, err := Open(dir, "run1")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for i, want := range []string{"pool-3", "host-3"} { // after the steps pool, a and b
		if o := objects.all[i]; !o.Read || o.Unchanged != want {
			t.Errorf("object %d: state %q (read: %t), want %q", i, o.Unchanged, o.Read, want)
		}
	}
}

// TestWaitToItsLimit: the last request of a wait is sent at its limit, not a period earlier.
func TestWaitToItsLimit(t *testing.T) {
	began := time.Now()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"done": %t}`, time.Since(began) > 500*time.Millisecond)
	}))
	defer s.Close()
	for within, good := range map[string]int64{"600ms": 1, "100ms": 0} {
		began = time.Now()
		p := planOf(t, s.URL, `
load: {hosts: 1}
steps: [{name: w, wait: {url: "${web}/", until: {jsonpath: $.done, is: "true"}, every: 400ms, within: `+within+`}}]
`)
		x, err := Run(t.Context(), p, nil)
		if err != nil || x.Steps[0].Runs-x.Steps[0].Errors != good {
			t.Errorf("within %s: %v: %+v", within, err, x.Steps[0].Causes)
		}
	}
}
