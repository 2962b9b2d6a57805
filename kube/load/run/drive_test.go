package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/load/plan"
)

// driveServer stores objects by their path, as an API server does. answer may answer a request
// first: with a status other than 0, and whether the object is created anyway.
type driveServer struct {
	mu      sync.Mutex
	objects map[string]json.RawMessage
	posts   map[string]int
	answer  func(path string, nth int) (status int, made bool)

	under, most atomic.Int64
	takes       time.Duration
	// wide, if not 0, is the number of concurrent requests for config maps that must be reached
	// before the first one is answered.
	wide int64
	full chan struct{} // closed when they are
	once sync.Once
	// direct servers are asked without a network.
	direct bool
}

// direct calls a server without a network, so that the run uses synctest's clock.
type direct struct{ *driveServer }

func (d direct) RoundTrip(req *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	d.ServeHTTP(answer, req)
	return answer.Result(), nil
}

func (s *driveServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := s.under.Add(1)
	defer s.under.Add(-1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	if s.wide > 0 && strings.Contains(r.URL.Path, "configmaps") {
		if n == s.wide {
			s.once.Do(func() { close(s.full) })
		}
		select {
		case <-s.full:
		case <-r.Context().Done():
		}
	}
	time.Sleep(s.takes)
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	say := func(status int, text string) {
		w.WriteHeader(status)
		fmt.Fprint(w, text)
	}
	switch r.Method {
	case http.MethodGet:
		if o, ok := s.objects[r.URL.Path]; ok {
			say(200, string(o))
		} else {
			say(404, `{"reason":"NotFound","message":"not found"}`)
		}
	case http.MethodPost:
		var o struct{ Metadata map[string]any }
		_ = json.Unmarshal(body, &o)
		path := fmt.Sprint(r.URL.Path, "/", o.Metadata["name"])
		s.posts[path]++
		status, made := 0, true
		if s.answer != nil {
			if status, made = s.answer(path, s.posts[path]); status == 0 {
				made = true
			}
		}
		if _, there := s.objects[path]; there && status == 0 {
			say(409, `{"reason":"AlreadyExists","message":"already exists"}`)
			return
		}
		if made {
			o.Metadata["uid"] = fmt.Sprintf("uid-%d", len(s.objects))
			text, _ := json.Marshal(o)
			s.objects[path] = []byte(strings.ReplaceAll(string(text), `"Metadata"`, `"metadata"`))
		}
		if status != 0 {
			w.Header().Set("Retry-After", "0")
			say(status, `{"message":"of the test"}`)
			return
		}
		say(201, string(s.objects[path]))
	}
}

// run carries out a load of the given number of config maps with a server.
func run(t *testing.T, s *driveServer, count int, change func(*Run, *plan.Load)) (*DriveOutcome, *State, error) {
	t.Helper()
	s.objects, s.posts = map[string]json.RawMessage{}, map[string]int{}
	if s.answer == nil {
		s.answer = func(string, int) (int, bool) { return 0, true }
	}
	base, transport := &url.URL{Scheme: "http", Host: "direct"}, http.RoundTripper(direct{s})
	if !s.direct {
		h := httptest.NewServer(s)
		defer h.Close()
		var err error
		if base, err = url.Parse(h.URL); err != nil {
			t.Fatal(err)
		}
		real := &http.Transport{MaxIdleConnsPerHost: 5000}
		defer real.CloseIdleConnections()
		transport = real
	}
	l := &plan.Load{Stages: []plan.Stage{{At: "f:1", Prefix: "n", Iterations: 1, PerNamespace: 1, IfExists: plan.Fail, Groups: []plan.Group{{
		At: "f:2", File: "t", Count: count, Template: json.RawMessage(`{"kind":"Template","apiVersion":"v1","parameters":[{"name":"IDENTIFIER"}],"objects":[{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"m${IDENTIFIER}"}}]}`),
	}}}}}
	r := &Run{Server: cluster.New(base, transport)}
	r.Patience = 2 * time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if change != nil {
		change(r, l)
	}
	var err error
	if r.Plan, err = plan.Compile(t.Context(), l, "run-1", nil); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if r.State == nil {
		r.State = &State{Objects: make([]Object, r.Plan.Len())}
	}
	if r.Journal, err = Create(dir, Header{Objects: r.Plan.Len()}); err != nil {
		t.Fatal(err)
	}
	out, err := r.Do(ctx)
	if closed := r.Journal.Close(); closed != nil {
		t.Fatal(closed)
	}
	state, read := Read(dir)
	if read != nil {
		t.Fatal(read)
	}
	return out, state, err
}

// TestTroubles tests that requests that the server rejects, cannot handle yet, or loses the answer
// to are repeated, and that each object is created once.
func TestTroubles(t *testing.T) {
	s := &driveServer{answer: func(path string, nth int) (int, bool) {
		switch {
		case nth > 1 || strings.HasSuffix(path, "/n0"):
			return 0, true
		case strings.HasSuffix(path, "1"):
			return 429, false
		case strings.HasSuffix(path, "2"):
			return 503, true // made, and the answer is lost
		case strings.HasSuffix(path, "3"):
			return 500, false
		}
		return 0, true
	}}
	out, state, err := run(t, s, 100, nil)
	if err != nil {
		t.Fatal(err)
	}
	if out.Created != 101 || out.Adopted != 10 || out.Found != 0 || out.Throttled != 10 || out.Retried != 30 || out.Failed != 0 {
		t.Errorf("%+v", out)
	}
	if state.Count(Created) != 101 || state.Phase != Ended || state.Reserved != 101 {
		t.Errorf("%d in the journal, phase %s, reserved %d", state.Count(Created), state.Phase, state.Reserved)
	}
}

// TestFound tests that objects of an earlier process are found, and not created again.
func TestFound(t *testing.T) {
	for _, reserved := range []int{0, 51, 101} {
		var asked, found atomic.Int64
		out, _, err := run(t, &driveServer{answer: func(string, int) (int, bool) { return 409, true }}, 100, func(r *Run, _ *plan.Load) {
			r.State = &State{Objects: make([]Object, 101), Reserved: reserved}
			r.On = func(a Answer) {
				if !a.Asked.IsZero() && !a.Asked.After(a.Sent) {
					asked.Add(1)
				}
				if a.Found {
					found.Add(1)
				}
			}
		})
		if err != nil || out.Created != 101 || out.Adopted != 101 || out.Found != reserved || asked.Load() != 101 || found.Load() != int64(reserved) {
			t.Errorf("%d reserved: %+v, %d asked, %d found: %v", reserved, out, asked.Load(), found.Load(), err)
		}
		if rate := out.Rate(); rate > 0 != (reserved < 100) {
			t.Errorf("%d reserved: %v objects a second", reserved, rate)
		}
	}
}

// TestFailures tests that failures are counted by reason, that too many failures end the run, and
// that a failed namespace ends it at once.
func TestFailures(t *testing.T) {
	out, state, err := run(t, &driveServer{answer: func(path string, _ int) (int, bool) {
		if strings.HasSuffix(path, "/m7") {
			return 422, false
		}
		return 0, true
	}}, 100, nil)
	if err != nil || out.Failed != 1 || out.Errors["the API server answers 422: of the test"] != 1 || state.Objects[8].Was != Failed {
		t.Errorf("%v %+v", err, out)
	}
	if !state.Objects[8].Refused {
		t.Error("what was refused may have been made")
	}
	// What was refused behind an answer that was lost may have been made.
	_, state, err = run(t, &driveServer{answer: func(path string, nth int) (int, bool) {
		switch {
		case strings.HasSuffix(path, "/m7") && nth == 1:
			return 503, false
		case strings.HasSuffix(path, "/m7"):
			return 403, false
		case strings.HasSuffix(path, "/m8") && nth == 1:
			return 429, false
		case strings.HasSuffix(path, "/m8"):
			return 403, false
		}
		return 0, true
	}}, 100, nil)
	if err != nil || state.Objects[8].Was != Failed || state.Objects[8].Refused || !state.Objects[9].Refused {
		t.Errorf("%v %+v %+v", err, state.Objects[8], state.Objects[9])
	}
	out, _, err = run(t, &driveServer{answer: func(path string, _ int) (int, bool) {
		if strings.Contains(path, "configmaps") {
			return 403, false
		}
		return 0, true
	}}, 2000, nil)
	if !errors.Is(err, ErrTooMany) || out.Failed > 300 {
		t.Errorf("%v %+v", err, out)
	}
	s := &driveServer{answer: func(path string, _ int) (int, bool) {
		if strings.HasSuffix(path, "/n0") {
			return 403, false
		}
		return 0, true
	}}
	if _, _, err = run(t, s, 100, nil); err == nil || !strings.Contains(err.Error(), "f:1: Namespace n0") || len(s.posts) != 1 {
		t.Errorf("%v, %d objects asked for", err, len(s.posts))
	}
}

// TestWide tests that 2,000 requests are in progress, never more, and that nothing stalls.
func TestWide(t *testing.T) {
	const wide = 2000
	s := &driveServer{takes: 200 * time.Millisecond, wide: wide, full: make(chan struct{})}
	began := time.Now()
	out, _, err := run(t, s, 6000, func(r *Run, _ *plan.Load) { r.InFlight = wide })
	if err != nil || out.Created != 6001 {
		t.Fatalf("%v %+v", err, out)
	}
	if most := s.most.Load(); most != wide {
		t.Errorf("%d requests were under way", most)
	}
	t.Logf("%s for 6000 objects of 200 ms, %d under way", time.Since(began), s.most.Load())
}

// TestRate tests that the rate is kept, however long single answers take.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &driveServer{takes: 20 * time.Millisecond, direct: true}
		out, _, err := run(t, s, 1000, func(r *Run, _ *plan.Load) { r.Rate = 500 })
		if err != nil {
			t.Fatal(err)
		}
		if rate := out.Rate(); math.Abs(rate-500) > 5 || out.Late > 0 {
			t.Errorf("%.1f/s, want 500 within 1 %%, and %d late", rate, out.Late)
		}
	})
}

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		first := c.due(2 * time.Millisecond)
		for i := range 1000 {
			if at := c.due(2 * time.Millisecond); at.Sub(first) != time.Duration(i+1)*2*time.Millisecond {
				t.Fatalf("start %d is due after %s", i+1, at.Sub(first))
			}
		}
		c.next = time.Now().Add(-behind)
		if at := c.due(time.Millisecond); time.Since(at) != behind {
			t.Errorf("what was missed is not made up for from %s on", at)
		}
		c.next = time.Now().Add(-2 * behind)
		if at := c.due(time.Millisecond); time.Since(at) != 0 {
			t.Errorf("what was missed long ago is made up for from %s on", at)
		}
	})
}

// TestDriveBrake tests that the brake's error ends the run, and that started objects are in the
// journal.
func TestDriveBrake(t *testing.T) {
	s := &driveServer{}
	n := 0
	stop := errors.New("the cluster suffers")
	out, state, err := run(t, s, 1000, func(r *Run, _ *plan.Load) {
		r.Pause = func() error {
			if n++; n > 100 {
				return stop
			}
			return nil
		}
	})
	if !errors.Is(err, stop) || out.Created != 100 || state.Count(Created) != 100 || state.Phase != Running {
		t.Errorf("%v %+v %s", err, out, state.Phase)
	}
}

// TestTwoServers tests that the synchronization of the whole load listens while those of single
// pods come and go, and that each counts its own requests.
func TestTwoServers(t *testing.T) {
	ports := []int{root.Port(t), root.Port(t)}
	sync := func(port int) *plan.SyncPoint {
		return &plan.SyncPoint{At: "f:3", Server: true, Address: "127.0.0.1", Port: port, Timeout: 2 * time.Minute}
	}
	var answered atomic.Int64
	s := &driveServer{answer: func(path string, _ int) (int, bool) {
		if strings.Contains(path, "/pods/") {
			go func() { // what is in the pod
				for _, port := range ports {
					for _, page := range []string{"start", "stop"} {
						resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/%s", port, page))
						if err != nil {
							return
						}
						resp.Body.Close()
						answered.Add(1)
					}
				}
			}()
		}
		return 0, true
	}}
	const pods, spaces = 3, 2
	out, _, err := run(t, s, 0, func(_ *Run, l *plan.Load) {
		l.Stages[0].Iterations = spaces
		l.Stages[0].Groups = []plan.Group{{At: "f:2", Count: pods, Name: "a", Pod: json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{},"spec":{}}`), Sync: sync(ports[0])}}
		l.Sync = sync(ports[1])
	})
	if err != nil || out.Created != spaces+spaces*pods {
		t.Fatalf("%v %+v", err, out)
	}
	// The last answers are on their way when the servers close.
	for end := time.Now().Add(time.Minute); answered.Load() < 4*spaces*pods && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if n := answered.Load(); n != 4*spaces*pods {
		t.Errorf("%d answers, want %d", n, 4*spaces*pods)
	}
}
