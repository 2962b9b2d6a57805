package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/load/plan"
)

// keeper is an API server that stores config maps, and records the requests.
type keeper struct {
	mu    sync.Mutex
	maps  map[string]string // uid by path
	asked []string
	// after is the number of patches and deletions that are made until stop is called, before they
	// are answered.
	after int
	stop  func()
	fail  int // so many requests are answered with 503 first
}

func (k *keeper) RoundTrip(req *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	k.serve(answer, req)
	return answer.Result(), nil
}

func (k *keeper) serve(w http.ResponseWriter, r *http.Request) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	say := func(status int, text string) {
		w.WriteHeader(status)
		fmt.Fprint(w, text)
	}
	object := func(path string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q,"uid":%q,"generation":3}}`, path[strings.LastIndexByte(path, '/')+1:], k.maps[path])
	}
	path, name := r.URL.Path, r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	act := func() {
		k.asked = append(k.asked, r.Method+" "+name)
		if k.after--; k.after == 0 && k.stop != nil {
			k.stop()
		}
	}
	switch {
	case r.Method == http.MethodPost:
		var o struct{ Metadata struct{ Name string } }
		_ = json.Unmarshal(body, &o)
		path += "/" + o.Metadata.Name
		k.maps[path] = "uid-" + o.Metadata.Name
		say(201, object(path))
	case r.URL.RawQuery != "":
		var items []string
		for path := range k.maps {
			if strings.Contains(path, "/configmaps/") && (strings.Contains(path, "/foreign") == strings.Contains(r.URL.RawQuery, "%21%3D")) {
				items = append(items, object(path))
			}
		}
		slices.Sort(items)
		say(200, `{"items":[`+strings.Join(items, ",")+`]}`)
	case k.fail > 0:
		k.fail--
		say(503, `{"message":"of the test"}`)
	case k.maps[path] == "":
		say(404, `{"reason":"NotFound","message":"not found"}`)
	case r.Method == http.MethodPatch:
		if !strings.Contains(string(body), `"`+k.maps[path]+`"`) {
			say(409, `{"message":"the uid differs"}`)
			return
		}
		act()
		say(200, object(path))
	case r.Method == http.MethodDelete:
		if !strings.Contains(string(body), `"`+k.maps[path]+`"`) {
			say(409, `{"message":"the uid differs"}`)
			return
		}
		delete(k.maps, path)
		act()
		say(200, "{}")
	default:
		say(200, object(path))
	}
}

// actingLoad creates five config maps, patches each twice, reads them, and deletes them.
func actingLoad() *plan.Load {
	of := map[string]string{"kube-burner.io/job": "a"}
	action := func(do string) plan.Action {
		return plan.Action{At: do + ":2", Do: do, APIVersion: "v1", Kind: "ConfigMap", Labels: of}
	}
	patch := action(plan.Patch)
	patch.PatchType, patch.Text, patch.File = "application/merge-patch+json", "data: {a: '{{.Iteration}}'}\n", "p"
	gone := action(plan.Remove)
	gone.Gone = time.Minute
	stage := func(name string, iterations int, a plan.Action) plan.Stage {
		return plan.Stage{At: name + ":1", Name: name, Burner: true, Iterations: iterations, PerNamespace: 1, Actions: []plan.Action{a}}
	}
	return &plan.Load{Stages: []plan.Stage{
		{At: "a:1", Name: "a", Burner: true, Prefix: "n", Single: true, Iterations: 1, PerNamespace: 1, IfExists: plan.Reuse, Groups: []plan.Group{{At: "a:2", Name: "a", Count: 5, File: "t", Text: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m{{.Replica}}}\n"}}},
		stage("p", 2, patch), stage("r", 1, action(plan.Get)), stage("d", 1, gone),
	}}
}

// once carries out the rest of a stored load until it is stopped.
func once(t *testing.T, k *keeper, dir string) (*DriveOutcome, *State, error) {
	t.Helper()
	r := &Run{}
	r.InFlight = 1
	p, err := plan.Compile(t.Context(), actingLoad(), "run-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Plan, r.Server = p, cluster.New(&url.URL{Scheme: "http", Host: "k"}, k)
	if r.State, err = Read(dir); err != nil {
		if r.Journal, err = Create(dir, Header{Objects: p.Len()}); err != nil {
			t.Fatal(err)
		}
		r.State = &State{Objects: make([]Object, p.Len())}
	} else if r.Journal, r.State, err = Open(dir); err != nil {
		t.Fatal(err)
	}
	stop, stopped := errors.New("stopped"), false
	k.stop = func() { stopped = true }
	r.Pause = func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		if stopped {
			return stop
		}
		return nil
	}
	out, err := r.Do(t.Context())
	if closed := r.Journal.Close(); closed != nil {
		t.Fatal(closed)
	}
	if errors.Is(err, stop) {
		err = nil
	}
	state, read := Read(dir)
	if read != nil {
		t.Fatal(read)
	}
	return out, state, err
}

// TestActions tests that objects are patched, read and deleted once each, only with their UID,
// wherever a run is stopped and resumed. Objects of others with the same labels stay.
func TestActions(t *testing.T) {
	for after := range 17 {
		synctest.Test(t, func(t *testing.T) {
			k := &keeper{maps: map[string]string{"/api/v1/namespaces/n/configmaps/foreign": "uid-foreign"}, after: after, fail: after % 3}
			dir := t.TempDir()
			var acted int
			var others []string
			var state *State
			for round := 0; round == 0 || state.Phase != Ended; round++ {
				if round > 3 {
					t.Fatalf("after %d: it does not end", after)
				}
				var out *DriveOutcome
				var err error
				if out, state, err = once(t, k, dir); err != nil {
					t.Fatalf("after %d, round %d: %v", after, round, err)
				}
				acted += out.Acted[plan.Patch] + out.Acted[plan.Remove]
				others = append(others, out.Others...)
				if out.ActFailed != 0 || out.Skipped != 0 {
					t.Errorf("after %d: %+v", after, out)
				}
			}
			n := map[string]int{}
			for _, a := range k.asked {
				n[a]++
			}
			if len(n) != 10 || acted != 15 || len(k.asked) != 15 || n["PATCH m1"] != 2 || n["DELETE m5"] != 1 {
				t.Errorf("after %d: %d done, asked %q", after, acted, k.asked)
			}
			if k.maps["/api/v1/namespaces/n/configmaps/foreign"] == "" || len(k.maps) != 2 {
				t.Errorf("after %d: left: %v", after, k.maps)
			}
			if state.Count(Gone) != 5 || state.Count(Created) != 1 || len(state.Acted) != 20 {
				t.Errorf("after %d: journal: %d gone, %d created, %d acted", after, state.Count(Gone), state.Count(Created), len(state.Acted))
			}
			if len(others) < 3 || !strings.Contains(others[0], "such as foreign") {
				t.Errorf("after %d: of others: %q", after, others)
			}
		})
	}
}

// TestReplaced tests that an object whose name another object has taken is not changed.
func TestReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{maps: map[string]string{}, after: 1}
		dir := t.TempDir()
		if _, _, err := once(t, k, dir); err != nil {
			t.Fatal(err)
		}
		k.maps["/api/v1/namespaces/n/configmaps/m3"] = "uid-of-another"
		out, state, err := once(t, k, dir)
		if err == nil || !strings.Contains(err.Error(), "still present after 1m0s: configmaps, such as m3") {
			t.Errorf("%v", err)
		}
		if out.ActFailed != 2 || k.maps["/api/v1/namespaces/n/configmaps/m3"] != "uid-of-another" || state.Count(Gone) != 5 {
			t.Errorf("%+v %v", out, k.maps)
		}
	})
}
