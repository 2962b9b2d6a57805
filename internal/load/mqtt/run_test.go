package mqtt

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"fettle.dev/fettle/internal/load/exchange"
	"fettle.dev/fettle/internal/load/mqtt/dispatch"
	"fettle.dev/fettle/internal/load/target"
	"fettle.dev/fettle/internal/load/threshold"
)

// planOf is a plan for so many hosts at a broker; all is quick, and nothing is waited for
// longer than it takes.
func planOf(t *testing.T, b *broker, hosts int) Plan {
	t.Helper()
	u, err := url.Parse("mqtt://" + b.address)
	if err != nil {
		t.Fatal(err)
	}
	p := Plan{Broker: u, Sockets: []netip.AddrPort{netip.MustParseAddrPort(b.address)}, ConnectRate: 1000, JobRate: 1000, Timeout: 30 * time.Second, Wait: 30 * time.Second, Settings: []dispatch.Settings{dispatch.Defaults}}
	for i := range hosts {
		p.Hosts = append(p.Hosts, Host{Name: fmt.Sprintf("host%d", i)})
	}
	return p
}

// jobs is where jobs are fetched and reported of.
type jobs struct {
	*httptest.Server
	// answer gives the status of a request; path is GET or POST and what follows the base.
	answer func(path string) int

	mu      sync.Mutex
	fetched map[string]int
	reports map[string][]update
}

func newJobs(t *testing.T, answer func(path string) int) *jobs {
	t.Helper()
	return startJobs(t, answer, (*httptest.Server).Start)
}

func startJobs(t *testing.T, answer func(path string) int, start func(*httptest.Server)) *jobs {
	t.Helper()
	j := &jobs{answer: answer, fetched: map[string]int{}, reports: map[string][]update{}}
	j.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, below := strings.CutPrefix(r.URL.Path, "/ssh/jobs/")
		text, err := io.ReadAll(r.Body)
		if !below || err != nil {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		status := http.StatusOK
		if j.answer != nil {
			status = j.answer(r.Method + " " + path)
		}
		if status == http.StatusOK {
			j.mu.Lock()
			defer j.mu.Unlock()
			if id, is := strings.CutSuffix(path, "/update"); is && r.Method == "POST" {
				var x report
				if err := json.Unmarshal(text, &x); err != nil || r.Header.Get("Content-Type") != "application/json" || x.Version != "1" {
					t.Errorf("%s: %v %s", path, err, text)
				}
				j.reports[id] = append(j.reports[id], x.Updates...)
			} else {
				j.fetched[path]++
			}
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "#!/bin/sh\n")
	}))
	start(j.Server)
	t.Cleanup(j.Close)
	return j
}

// pull is how hosts use it.
func (j *jobs) pull(t *testing.T, every, jobTime time.Duration) *Pull {
	t.Helper()
	set, err := target.Make(t.Context(), []target.Asked{{Weight: 1, Method: "GET", URL: j.URL + "/ssh/jobs"}}, target.Common{}, &target.Allowed{}, net.DefaultResolver)
	if err != nil {
		t.Fatal(err)
	}
	return &Pull{Base: set.Requests[0], Sockets: set.Origins[0].Sockets, Name: set.Origins[0].Name, Every: every, JobTime: jobTime}
}

func ran(ctx context.Context, t *testing.T, p Plan) *Result {
	t.Helper()
	r, err := Prepare(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	x, err := r.Run(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := json.Marshal(x); err != nil {
		t.Error(err)
	}
	return x
}

// TestAllAreNotified: each host is let in once and hears of its own job.
func TestAllAreNotified(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	go b.start()
	p := planOf(t, b, 300)
	for _, text := range []string{"errors < 1%", "p99 < 1h", "rate > 1/h"} {
		g, err := threshold.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		p.Gates = append(p.Gates, g)
	}
	x := ran(t.Context(), t, p)
	o := x.Rounds[0]
	if x.Word != Held && x.Word != Limited || x.Connect.Connected != 300 || x.Connect.Latency.N != 300 || o.Notified != 300 || o.Published != 300 || o.SentAgain != 0 || o.Undelivered != 0 || o.Latency.N != 300 || o.NotifiedRate <= 0 {
		t.Errorf("%s %s: %+v %+v", x.Word, x.Text, x.Connect, o)
	}
	for _, g := range x.Gates {
		if !g.Met {
			t.Errorf("%+v", g)
		}
	}
	if len(x.Gates) != 3 || len(x.Series) != 4 || len(x.Curves) != 2 || x.Generator.Foreign != 0 || x.Connect.Lost != 0 {
		t.Errorf("%+v %d series, %d curves, %+v", x.Gates, len(x.Series), len(x.Curves), x.Generator)
	}
	for i := range 300 {
		if n := b.names[fmt.Sprintf("host%d", i)]; n != 1 {
			t.Errorf("host%d was let in %d times", i, n)
		}
	}
}

// TestBrokerIsFull: who comes when no place is left is closed off; and because the proxy
// needs a place for each notification, nobody hears of a job.
func TestBrokerIsFull(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.most = 100
	go b.start()
	p := planOf(t, b, 250)
	p.Wait = 2 * time.Second
	g, err := threshold.Parse("errors < 50%")
	if err != nil {
		t.Fatal(err)
	}
	p.Gates = append(p.Gates, g)
	x := ran(t.Context(), t, p)
	c, o := x.Connect, x.Rounds[0]
	if x.Word != NotHeld || c.Connected != 100 || c.Refused != 150 || c.FirstRefused == nil || *c.FirstRefused > 100 || c.Failures[closedOff].N != 150 || !strings.Contains(x.Text, "100 of 250 hosts were connected") {
		t.Errorf("%s %s: %+v", x.Word, x.Text, c)
	}
	if o.Notified != 0 || o.Undelivered != 250 || o.NotConnected != 150 || o.Published != 0 || o.NotPublished == 0 || o.PublishFailures[closedOff].N != o.NotPublished || len(x.Failed()) != 1 {
		t.Errorf("%+v %+v", o, x.Gates)
	}
	// With one place more the proxy gets in, one connection at a time.
	b.mu.Lock()
	b.most = 101
	b.mu.Unlock()
	x = ran(t.Context(), t, planOf(t, b, 100))
	if o := x.Rounds[0]; o.Notified != 100 {
		t.Errorf("%s: %+v", x.Text, o)
	}
}

// TestLost: a connection that the broker ends is counted, and its host hears nothing.
func TestLost(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	var once sync.Once
	b.deaf = func(topic string) bool {
		if topic == jobTopic("host0") {
			once.Do(func() { b.to[jobTopic("host3")].Close() })
		}
		return topic == jobTopic("host5")
	}
	go b.start()
	p := planOf(t, b, 20)
	p.JobRate, p.Wait = 10, 2*time.Second
	x := ran(t.Context(), t, p)
	o := x.Rounds[0]
	// host3 is gone before its job comes, and host5's message is lost.
	if x.Connect.Lost != 1 || o.Notified != 18 || o.Undelivered != 2 || o.Published != 20 || o.Latency.N != 20 || o.Latency.MaxS < 1 || x.Word != NotHeld {
		t.Errorf("%s: %+v %+v", x.Text, x.Connect, o)
	}
}

// TestPull: each host fetches its job once, and posts its output and its end.
func TestPull(t *testing.T) {
	t.Parallel()
	b, j := newBroker(t), newJobs(t, nil)
	go b.start()
	p := planOf(t, b, 50)
	p.Pull = j.pull(t, 200*time.Millisecond, 500*time.Millisecond)
	x := ran(t.Context(), t, p)
	o := x.Rounds[0]
	if o.Pull == nil || o.Pull.Fetched != 50 || o.Pull.Finished != 50 || o.Pull.Failed != 0 || o.Pull.Reports != 150 || o.Undelivered != 0 || o.Pull.Report.N != 150 || o.Pull.PickUp.N != 50 || o.Pull.StartedTwice != 0 {
		t.Fatalf("%s: %+v %+v", x.Text, o, o.Pull)
	}
	if len(j.fetched) != 50 || len(j.reports) != 50 {
		t.Errorf("%d jobs were fetched, %d reported of", len(j.fetched), len(j.reports))
	}
	for id, updates := range j.reports {
		if j.fetched[id] != 1 || len(updates) != 3 || updates[0].Type != "output" || updates[1].Type != "output" || updates[2].Type != "exit" || updates[2].ExitCode == nil {
			t.Errorf("%s: %d times, %+v", id, j.fetched[id], updates)
		}
	}
}

// TestPullTLS: where jobs are fetched over TLS the broker need not speak it.
func TestPullTLS(t *testing.T) {
	t.Parallel()
	b, j := newBroker(t), startJobs(t, nil, (*httptest.Server).StartTLS)
	go b.start()
	p := planOf(t, b, 10)
	p.Pull = j.pull(t, 100*time.Millisecond, 100*time.Millisecond)
	pool := x509.NewCertPool()
	pool.AddCert(j.Certificate())
	shared := &tls.Config{RootCAs: pool}
	for i := range p.Hosts {
		p.Hosts[i].TLS = shared
	}
	x := ran(t.Context(), t, p)
	if q := x.Rounds[0].Pull; q.Fetched != 10 || q.Finished != 10 || x.Broker.TLS != "" {
		t.Errorf("%s: %+v", x.Text, q)
	}
}

// TestLimit: no more jobs are under way than the proxy allows.
func TestLimit(t *testing.T) {
	t.Parallel()
	under, most, mu := 0, 0, sync.Mutex{}
	started := map[string]bool{}
	j := newJobs(t, func(path string) int {
		mu.Lock()
		defer mu.Unlock()
		if id, is := strings.CutSuffix(strings.TrimPrefix(path, "POST "), "/update"); is {
			if started[id] { // the only report is that of the end
				started[id] = false
				under--
			}
		} else {
			started[strings.TrimPrefix(path, "GET ")] = true
			under++
			most = max(most, under)
		}
		return http.StatusOK
	})
	b := newBroker(t)
	go b.start()
	p := planOf(t, b, 30)
	p.Pull = j.pull(t, 100*time.Millisecond, 100*time.Millisecond)
	p.Settings = []dispatch.Settings{{TTL: time.Minute, Resend: time.Hour, Limit: 4}, {TTL: time.Minute, Resend: time.Hour, Limit: 1}}
	x := ran(t.Context(), t, p)
	if len(x.Rounds) != 2 || most > 4 || most < 2 {
		t.Fatalf("%d rounds, %d jobs were under way", len(x.Rounds), most)
	}
	for i, o := range x.Rounds {
		if o.Pull.Finished != 30 || o.Pull.MostUnderWay != p.Settings[i].Limit {
			t.Errorf("%s: %+v", o.Settings, o.Pull)
		}
	}
	if x.Rounds[0].DurationS >= x.Rounds[1].DurationS || x.Rounds[1].DurationS < 3 {
		t.Errorf("30 jobs of 0.1 s took %.1f s four at a time, and %.1f s one at a time", x.Rounds[0].DurationS, x.Rounds[1].DurationS)
	}
}

// TestRefusedJobs: what the server does not take is lost as it is on a real host, which
// tries nothing again.
func TestRefusedJobs(t *testing.T) {
	t.Parallel()
	number := func(path string) string { return path[strings.LastIndex(path, "-")+1:][:12] }
	posts, mu := map[string]int{}, sync.Mutex{}
	j := newJobs(t, func(path string) int {
		mu.Lock()
		defer mu.Unlock()
		n := number(path)
		if strings.HasPrefix(path, "POST ") {
			posts[n]++
		}
		switch {
		case n == "000000000001" && strings.HasPrefix(path, "GET "):
			return http.StatusServiceUnavailable
		case n == "000000000002" && posts[n] == 1: // its output
			return http.StatusServiceUnavailable
		case n == "000000000003" && posts[n] == 2: // its end
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	b := newBroker(t)
	go b.start()
	p := planOf(t, b, 6)
	p.Pull, p.Wait = j.pull(t, 100*time.Millisecond, 200*time.Millisecond), 2*time.Second
	x := ran(t.Context(), t, p)
	o := x.Rounds[0]
	q := o.Pull
	if o.Notified != 6 || q.Fetched != 5 || o.Undelivered != 1 || q.Finished != 4 || q.Unresponsive != 1 || q.OutputLost != 1 || q.Failed != 2 || q.FetchFailures["status-503"].N != 1 || q.ReportFailures["status-503"].N != 2 {
		t.Errorf("%s: %+v %+v", x.Text, o, q)
	}
	for _, want := range []string{"1 of 6 jobs were not delivered (fetching failed: status-503 1 times, as 503 Service Unavailable)", "1 jobs hang", "1 jobs lack output"} {
		if !strings.Contains(x.Text, want) {
			t.Errorf("%q is not in %s", want, x.Text)
		}
	}
}

// TestSentAgain: a host whose message was lost hears of its job after two TTL and the
// resend interval.
func TestSentAgain(t *testing.T) {
	t.Parallel()
	b, j := newBroker(t), newJobs(t, nil)
	lost := false
	b.deaf = func(topic string) bool {
		first := topic == jobTopic("host1") && !lost
		lost = lost || first
		return first
	}
	go b.start()
	p := planOf(t, b, 3)
	p.Pull = j.pull(t, 100*time.Millisecond, 100*time.Millisecond)
	p.Settings = []dispatch.Settings{{TTL: 2 * time.Second, Resend: time.Second}}
	x := ran(t.Context(), t, p)
	o := x.Rounds[0]
	// A machine that is too busy for the others within four seconds sends to them again.
	if o.Notified != 3 || o.Published != 3+o.SentAgain || o.SentAgain < 1 || o.Pull.Finished != 3 || o.Pull.PickUp.MaxS < 4.9 {
		t.Errorf("%s: %+v %+v", x.Text, o, o.Pull)
	}
}

// TestStartedTwice: a host that is slower than two TTL and fetches before the resend has
// its job twice.
func TestStartedTwice(t *testing.T) {
	t.Parallel()
	slow := make(chan struct{})
	var once sync.Once
	first := true
	mu := sync.Mutex{}
	j := newJobs(t, func(path string) int {
		mu.Lock()
		wait := first && strings.HasPrefix(path, "GET ")
		if wait {
			first = false
		}
		mu.Unlock()
		if wait {
			<-slow
		}
		return http.StatusOK
	})
	b := newBroker(t)
	// Three seconds after the notification the job was given up, and now it is fetched.
	b.deaf = func(string) bool {
		time.AfterFunc(3*time.Second, func() { once.Do(func() { close(slow) }) })
		return false
	}
	go b.start()
	p := planOf(t, b, 1)
	p.Pull = j.pull(t, 100*time.Millisecond, 6*time.Second)
	p.Settings = []dispatch.Settings{{TTL: time.Second, Resend: 3 * time.Second}}
	x := ran(t.Context(), t, p)
	if q := x.Rounds[0].Pull; q.StartedTwice != 1 || q.Finished != 1 || x.Rounds[0].SentAgain < 1 {
		t.Errorf("%s: %+v", x.Text, q)
	}
}

// TestInterrupted: what was done until then is the result, and nothing goes on.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b := newBroker(t)
	n := 0
	b.deaf = func(string) bool {
		if n++; n == 20 {
			cancel()
		}
		return false
	}
	go b.start()
	p := planOf(t, b, 200)
	p.JobRate = 50
	x := ran(ctx, t, p)
	if x.Cut == nil || x.Cut.Planned != 200 || x.Cut.Done < 10 || x.Cut.Done > 100 || !strings.HasPrefix(x.Text, "interrupted after ") || x.Connect.Connected != 200 {
		t.Errorf("%s: %+v %+v", x.Text, x.Cut, x.Connect)
	}
}

// TestNobody: what cannot work is said before anything is measured.
func TestNobody(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{address: l.Addr().String()}
	l.Close()
	p := planOf(t, b, 1)
	if _, err := Prepare(t.Context(), p); err == nil || !strings.Contains(err.Error(), "cannot be connected to (connection-refused)") {
		t.Error(err)
	}
	full := newBroker(t)
	go full.start()
	full.most = 0
	q := planOf(t, full, 1)
	q.Pull = &Pull{Base: &exchange.Request{URL: &url.URL{Scheme: "http", Host: b.address}}, Sockets: p.Sockets}
	if _, err := Prepare(t.Context(), q); err == nil || !strings.Contains(err.Error(), b.address+" cannot be connected to") {
		t.Error(err)
	}
}
