package load

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/load/fleet"
)

// TestWorker tests that a job is enough to load a server whose name this machine cannot resolve.
func TestWorker(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.Host, "web1.test:") || r.Header.Get("X-One") != "1" {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	defer server.Close()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	job := &Job{Asked: []engine.Asked{{Weight: 1, Method: "GET", URL: "http://web1.test:" + u.Port() + "/"}}, Common: engine.Common{Header: []engine.Field{{Name: "X-One", Value: "1"}}},
		Connections: 5, Streams: 1, Timeout: time.Minute}
	prepare := func(w *Worker) (*fleet.Ready, error) {
		text, err := json.Marshal(job)
		if err != nil {
			t.Fatal(err)
		}
		return w.Prepare(t.Context(), text)
	}
	w := &Worker{Able: func(*Plan) error { return nil }}
	share := fleet.Share{Stages: []engine.Stage{{From: 50, To: 50, For: time.Second}}, For: time.Second, Connections: 3, Seed: 1}
	if _, err := w.Run(t.Context(), share, fleet.Coordinator{Now: func(fleet.Now) {}}); err == nil || !strings.Contains(err.Error(), "before the job") {
		t.Error(err)
	}
	if _, err := prepare(w); err == nil || !strings.Contains(err.Error(), "web1.test: no address for this server in the job") {
		t.Error(err)
	}
	// What may be loaded is asked again.
	job.Names = map[string][]netip.Addr{"web1.test": {netip.MustParseAddr("192.0.2.1")}}
	if _, err := prepare(w); err == nil || !strings.Contains(err.Error(), "not allowed") {
		t.Error(err)
	}
	job.Names["web1.test"][0] = netip.MustParseAddr("127.0.0.1")
	ready, err := prepare(w)
	if err != nil || len(ready.Probes) != 1 || ready.Probes[0].Address != "127.0.0.1:"+u.Port() {
		t.Fatalf("%+v %v", ready, err)
	}
	// A worker that has the job in a file needs only the addresses.
	names, connections := job.Names, job.Connections
	job.Names, job.Connections = nil, 0
	stored, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	job.Names, job.Connections = names, connections
	rest, err := json.Marshal(job.Resolved())
	if err != nil || strings.Contains(string(rest), "X-One") {
		t.Fatalf("%s %v", rest, err)
	}
	second := &Worker{Able: w.Able, Stored: stored}
	if ready, err := second.Prepare(t.Context(), rest); err != nil || len(ready.Probes) != 1 || second.prepared.plan.Connections != 5 {
		t.Fatalf("%+v %v", ready, err)
	}
	if part, err := second.Run(t.Context(), share, fleet.Coordinator{Now: func(fleet.Now) {}}); err != nil || part.Meter.Slices[0].Statuses[200] != 50 {
		t.Errorf("%+v %v", part, err)
	}
	for range 2 { // as often as it is asked
		part, err := w.Run(t.Context(), share, fleet.Coordinator{Now: func(fleet.Now) {}})
		if err != nil || part.Connections > 3 || part.Opened < 1 || part.Until != time.Second || part.Meter.Requests[0].Starts != 50 || part.Meter.Slices[0].Statuses[200] != 50 {
			t.Errorf("%+v %v", part, err)
		}
	}
}

// TestShares tests that the shares of all clients add up to the requested load.
func TestShares(t *testing.T) {
	p := &Plan{Connections: 7, For: 9 * time.Second, Stages: []engine.Stage{{From: 100, To: 100, For: 9 * time.Second}, {From: 100, To: 400, For: time.Second}}}
	connections := 0
	var starts []time.Duration // of all
	for i := range 3 {
		s := p.share(i, 3, 40)
		connections += s.Connections
		if s.Connections < 2 || s.Seed != uint64(40+i) {
			t.Errorf("%+v", s)
		}
		starts = append(starts, startsOf(t, p, s)...)
	}
	slices.Sort(starts)
	if alone := startsOf(t, p, fleet.Share{}); connections != 7 || len(alone) != 1150 || !slices.Equal(starts, alone) {
		t.Errorf("%d connections, and %d starts where one alone makes %d", connections, len(starts), len(alone))
	}
}

// startsOf returns the start times of a share.
func startsOf(t *testing.T, p *Plan, s fleet.Share) (at []time.Duration) {
	t.Helper()
	again := *p
	again.Set, again.of = &engine.Set{}, s
	plan, _, err := again.schedule()
	if err != nil {
		t.Fatal(err)
	}
	for i := range plan.Schedule.Count() {
		at = append(at, plan.Schedule.At(i))
	}
	return at
}

// TestFewerStartsThanClients tests that two starts are two, however many clients there are, and
// that clients without a start are not waited for.
func TestFewerStartsThanClients(t *testing.T) {
	p := &Plan{Connections: 3, For: 2 * time.Second, WarmUp: time.Second, Stages: []engine.Stage{{From: 1, To: 1, For: 2 * time.Second}}, Set: &engine.Set{}}
	all := 0
	for i := range 5 {
		s := p.share(i, 5, 1)
		n := len(startsOf(t, p, s))
		all += n
		if p.idle(s) != (i >= 3) || p.idle(s) != (n == 0) {
			t.Errorf("client %d has %d starts", i, n)
		}
	}
	if all != 3 { // one of them warms up
		t.Errorf("%d starts", all)
	}
	told := 0
	s := &sum{last: make([]fleet.Now, 2), told: []bool{false, true}, idle: []bool{false, true}, tell: func(fleet.Now) { told++ }}
	for range 3 {
		s.add(0, fleet.Now{})
	}
	if told != 3 {
		t.Errorf("%d times", told)
	}
}

// TestClientsAreJudgedOneByOne tests that one client at its limit is detected even if the mean of
// all clients is low.
func TestClientsAreJudgedOneByOne(t *testing.T) {
	p := at(500, 20*time.Second)
	p.Set = &engine.Set{Asked: []engine.Asked{{Weight: 1, Method: "GET", URL: "http://localhost/"}}, Requests: []*engine.Request{{}}}
	p.Connections, p.Timeout = 100, time.Minute
	clients, said := []*fleet.Client{}, []*fleet.Part{}
	for i := range 10 {
		m, _, err := p.meterOf()
		if err != nil {
			t.Fatal(err)
		}
		for n := range 1000 {
			x := answer(20 * ms)
			x.Begin = time.Duration(n) * 20 * ms
			x.Sent, x.End = x.Begin, x.Begin+x.End
			if i == 7 && n%20 == 0 { // a twentieth of its starts, half a percent of all
				x.Sent += 10 * ms
			}
			m.Add([]engine.Sample{x})
		}
		part, err := m.Part()
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, &fleet.Client{Name: string(rune('a' + i))})
		said = append(said, &fleet.Part{Meter: part, Counts: fleet.Counts{Until: 20 * time.Second, Connections: 5, Processors: 2, CPU: time.Second}})
	}
	whole, parts, err := p.together(clients, said, make([]*fleet.Lost, len(said)))
	if err != nil {
		t.Fatal(err)
	}
	x, err := (&Prepared{plan: p}).result(whole, parts, nil, p.Length())
	if err != nil {
		t.Fatal(err)
	}
	g := x.Generator
	if x.Word != Limited || !strings.HasPrefix(g.Texts[0], "h: 5 % of the requests were sent more than 1 ms late") || g.LateShare > lateShare || x.Whole.Starts != 10_000 || x.Connections != 50 || g.Processors != 20 || len(g.Clients) != 10 {
		t.Errorf("%s %q %+v", x.Word, x.Text, g)
	}
}

// TestLostClient tests that the result contains the counts of the other clients until one was lost,
// that it says so, and that no threshold is judged.
func TestLostClient(t *testing.T) {
	p := at(100, 20*time.Second)
	p.Set = &engine.Set{Asked: []engine.Asked{{Weight: 1, Method: "GET", URL: "http://localhost/"}}, Requests: []*engine.Request{{}}}
	p.Connections, p.Timeout = 100, time.Minute
	gate, err := engine.ParseThreshold("p99 < 1s")
	if err != nil {
		t.Fatal(err)
	}
	p.Gates = []*engine.Gate{gate}
	m, _, err := p.meterOf()
	if err != nil {
		t.Fatal(err)
	}
	for n := range 800 { // 50 a second, for 16 seconds
		x := answer(20 * ms)
		x.Begin = time.Duration(n) * 20 * ms
		x.Sent, x.End = x.Begin, x.Begin+x.End
		m.Add([]engine.Sample{x})
	}
	counted, err := m.Part()
	if err != nil {
		t.Fatal(err)
	}
	heard := time.Date(2026, 11, 23, 8, 0, 12, 0, time.UTC)
	for name, c := range map[string]struct {
		lost   fleet.Lost
		starts int64
		done   int
		want   string
	}{
		"silent":     {fleet.Lost{At: 10100 * ms, Heard: heard, Silent: 30 * time.Second}, 500, 10, "client b: last report at 08:00:12, 10 s into the load; given up 30 s later. The figures leave out this client"},
		"ended":      {fleet.Lost{At: 10100 * ms, Heard: heard, Err: errors.New("the program ended: exit status 3")}, 500, 10, "client b: the program ended: exit status 3 (last report at 08:00:12, 10 s into the load). The figures leave out this client"},
		"at the end": {fleet.Lost{At: 21 * time.Second, Heard: heard, Silent: 30 * time.Second}, 800, 16, "client b: last report at "},
	} {
		c.lost.Client = "b"
		clients := []*fleet.Client{{Name: "a"}, {Name: "b"}}
		whole, parts, err := p.together(clients, []*fleet.Part{{Meter: counted, Counts: fleet.Counts{Until: 16 * time.Second, Connections: 5, Processors: 2}}, nil}, []*fleet.Lost{nil, &c.lost})
		if err != nil {
			t.Fatal(err)
		}
		x, err := (&Prepared{plan: p}).result(whole, parts, nil, p.Length())
		if err != nil {
			t.Fatal(err)
		}
		if x.Word != Partial || x.Whole.Starts != c.starts || x.Cut == nil || x.Cut.Done != c.done || !strings.Contains(x.Text, " answers a second, p50 20 ms") {
			t.Errorf("%s: %s %q: %+v", name, x.Word, x.Text, x.Whole)
		}
		if g := x.Generator.Clients; len(g) != 2 || g[0].Lost != "" || g[0].EndedEarly || g[1].Lost == "" || len(x.Gates) != 1 || x.Gates[0].Met || !x.Gates[0].Unknown {
			t.Errorf("%s: %+v %+v", name, g, x.Gates)
		}
		if err := x.Early(); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "end when it last reported") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSum tests that the progress of all clients is reported once each client has reported.
func TestSum(t *testing.T) {
	var told []fleet.Now
	s := &sum{last: make([]fleet.Now, 2), told: make([]bool, 2), tell: func(n fleet.Now) { told = append(told, n) }}
	s.add(0, fleet.Now{AnswerRate: 10, P99S: 1})
	s.add(0, fleet.Now{AnswerRate: 20, P99S: 2})
	s.add(1, fleet.Now{AnswerRate: 5, P99S: 3, ErrorShare: 0.5})
	s.add(1, fleet.Now{AnswerRate: 7})
	if len(told) != 1 || told[0].AnswerRate != 25 || told[0].P99S != 3 || told[0].ErrorShare != 0.5 {
		t.Errorf("%+v", told)
	}
}
