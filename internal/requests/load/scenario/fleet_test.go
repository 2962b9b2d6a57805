package scenario

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fettle.dev/fettle/internal/requests/load/fleet"
)

// pipes is a session of a worker in this process.
type pipes struct {
	io.Writer
	out  *bufio.Reader
	kill func()
	done chan struct{}
}

func (p *pipes) Line() ([]byte, error) {
	line, err := p.out.ReadBytes('\n')
	return line, err
}
func (p *pipes) Kill() { p.kill() }
func (p *pipes) Close() {
	p.kill()
	<-p.done
}

// workers returns a fleet whose workers run in this process, and what kills each.
func workers(t *testing.T, n int, j *Job) (f *fleet.Fleet, kill []func()) {
	t.Helper()
	var places []fleet.Place
	for i := range n {
		in, stdin := io.Pipe()
		out, stdout := io.Pipe()
		p := &pipes{Writer: stdin, out: bufio.NewReader(out), done: make(chan struct{}), kill: func() { _ = stdin.Close(); _ = out.Close() }}
		places = append(places, fleet.Place{Name: fmt.Sprint("w", i), Open: func(context.Context, int) (fleet.Session, error) {
			go func() {
				defer close(p.done)
				_ = fleet.Serve(context.Background(), in, stdout, &Worker{Able: func(*Plan, int) error { return nil }}, 0)
				_ = stdout.Close()
			}()
			return p, nil
		}})
		kill = append(kill, p.kill)
	}
	shared := *j
	shared.Step = n
	f, err := fleet.Start(t.Context(), places, &shared, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f, kill
}

// register is a server that creates and removes objects.
type register struct {
	mu      sync.Mutex
	objects map[string]string // name by id
	setups  int
	// created is called for each new object, before the answer.
	created func(name string)
}

func (g *register) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	id := strings.TrimPrefix(r.URL.Path, "/objects/")
	switch r.Method {
	case http.MethodGet:
		g.setups++
		fmt.Fprint(w, `{"key": "k-1"}`)
	case http.MethodPost:
		if r.URL.Query().Get("key") != "k-1" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		name, _ := io.ReadAll(r.Body)
		id := fmt.Sprint(len(g.objects) + 1)
		g.objects[id] = string(name)
		if g.created != nil {
			g.created(string(name))
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id": %q}`, id)
	case http.MethodDelete:
		if g.objects[id] == "" {
			w.WriteHeader(http.StatusNotFound)
		}
		delete(g.objects, id)
	}
}

const registerText = `load: {hosts: %d}
setup: [{name: key, http: {url: "${web}/key"}, take: {key: {jsonpath: $.key}}}]
steps:
  - name: register
    http: {url: "${web}/objects?key=${key}", body: "${name}"}
    take: {id: {jsonpath: $.id}}
    creates: {name: "${name}", id: "${id}", remove: "${web}/objects/${id}"}
`

// registerRun runs the scenario by three workers, whose objects are in a journal.
func registerRun(t *testing.T, g *register, hosts int, before func(p *Plan, kill []func())) (x *Result, again func(also func(*Plan, *Journal, *Objects, *fleet.Fleet)) *Undone) {
	t.Helper()
	s := httptest.NewServer(g)
	t.Cleanup(s.Close)
	job, p := jobOf(t, s.URL, fmt.Sprintf(registerText, hosts))
	dir := filepath.Join(t.TempDir(), "scenarios")
	var err error
	if p.Journal, err = Create(dir, Head{Options: p.Options}); err != nil {
		t.Fatal(err)
	}
	f, kill := workers(t, 3, job)
	if before != nil {
		before(p, kill)
	}
	if x, err = RunFleet(t.Context(), p, f, nil); err != nil {
		t.Fatal(err)
	}
	if err := p.Journal.Close(); err != nil {
		t.Fatal(err)
	}
	return x, func(also func(*Plan, *Journal, *Objects, *fleet.Fleet)) *Undone {
		j, objects, err := Open(dir, p.Run)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		f, _ := workers(t, 1, job)
		if also != nil {
			also(p, j, objects, f)
		}
		undone, err := UndoFleet(t.Context(), p, f, j, objects, func(int, int) {})
		if err != nil {
			t.Fatal(err)
		}
		return undone
	}
}

// TestFleetRecords: the objects that several workers create are in one journal with their ids,
// each host is run by one of them, the setup runs once, and a worker removes the objects.
func TestFleetRecords(t *testing.T) {
	g := &register{objects: map[string]string{}}
	x, undo := registerRun(t, g, 50, nil)
	if x.Whole.Runs != 50 || x.Whole.Errors != 0 || x.Created.Intended != 50 || x.Created.Known != 50 || g.setups != 1 || x.Steps[0].Runs != 1 || x.Whole.Requests != 51 || len(x.Generator.Clients) != 3 {
		t.Fatalf("%+v, %+v, %d setups, %+v", x.Whole, x.Created, g.setups, x.Steps[0])
	}
	var want []string
	for n := range 50 {
		want = append(want, fmt.Sprintf("p-%06d", n+1))
	}
	if names := slices.Sorted(maps.Values(g.objects)); !slices.Equal(names, want) {
		t.Errorf("the server has %q", names)
	}
	u := undo(func(p *Plan, j *Journal, objects *Objects, f *fleet.Fleet) {
		nothing := *objects
		nothing.all = nil
		if u, err := UndoFleet(t.Context(), p, f, j, &nothing, func(int, int) {}); err != nil || u.Removed != 0 || len(g.objects) != 50 {
			t.Errorf("of no objects: %+v, %v; the server has %d", u, err, len(g.objects))
		}
		numbers := map[int64]bool{}
		for _, o := range objects.all {
			numbers[o.N] = true
			if g.objects[o.ID] != o.Name || o.Name == "" {
				t.Errorf("%+v, the server has %q", o, g.objects[o.ID])
			}
		}
		if len(numbers) != 50 {
			t.Errorf("%d numbers of objects", len(numbers))
		}
	})
	if u.Removed != 50 || len(u.Objects) != 0 || len(g.objects) != 0 {
		t.Errorf("%+v; the server has %d", u, len(g.objects))
	}
	if u = undo(nil); u.Removed != 0 || len(u.Objects) != 0 {
		t.Errorf("a second undo: %+v", u)
	}
}

// TestFleetLost: of a worker that is lost, the objects whose id arrived are removed, and that which
// was created without an answer is named.
func TestFleetLost(t *testing.T) {
	g := &register{objects: map[string]string{}}
	x, undo := registerRun(t, g, 30, func(_ *Plan, kill []func()) {
		g.created = func(name string) {
			if name == "p-000008" { // of the second
				kill[1]()
			}
		}
	})
	if c := x.Generator.Clients; x.Word != Partial || c[1].Lost == "" || c[0].Lost != "" || c[2].Lost != "" || x.Created.Intended == x.Created.Known {
		t.Fatalf("%s, %+v, %+v", x.Text, c, x.Created)
	}
	u := undo(nil)
	named := map[string]bool{}
	for _, o := range u.Objects {
		named[o.Name] = o.State == StateUnknown
	}
	if u.Removed != int(x.Created.Known) || !named["p-000008"] {
		t.Errorf("%+v", u)
	}
	for _, name := range g.objects {
		if !named[name] {
			t.Errorf("%s is left, but not named", name)
		}
	}
}

// TestFleetNotRecorded: without the journal of the coordinator no worker creates anything.
func TestFleetNotRecorded(t *testing.T) {
	g := &register{objects: map[string]string{}}
	var posts atomic.Int64
	g.created = func(string) { posts.Add(1) }
	s := httptest.NewServer(g)
	defer s.Close()
	job, p := jobOf(t, s.URL, fmt.Sprintf(registerText, 9))
	var err error
	if p.Journal, err = Create(filepath.Join(t.TempDir(), "scenarios"), Head{Options: p.Options}); err != nil {
		t.Fatal(err)
	}
	if err := p.Journal.file.Close(); err != nil {
		t.Fatal(err)
	}
	f, _ := workers(t, 3, job)
	x, err := RunFleet(t.Context(), p, f, nil)
	if err != nil || posts.Load() != 0 || x.Steps[1].Causes[notSaved].N != 9 {
		t.Errorf("%v: %d requests, %+v", err, posts.Load(), x)
	}
}
