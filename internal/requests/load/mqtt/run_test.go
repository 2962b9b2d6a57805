package mqtt

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/testkit/root"
)

// planOf is a plan for a number of hosts and a broker, with short times and waits.
func planOf(t *testing.T, b *broker, hosts int) Plan {
	t.Helper()
	u, err := url.Parse("mqtt://" + b.address)
	if err != nil {
		t.Fatal(err)
	}
	p := Plan{Broker: u, Sockets: []netip.AddrPort{netip.MustParseAddrPort(b.address)}, ConnectRate: 1000, JobRate: 1000, Timeout: 30 * time.Second, Wait: 30 * time.Second, Settings: []Settings{Defaults}}
	for i := range hosts {
		p.Hosts = append(p.Hosts, Host{Name: fmt.Sprintf("host%d", i)})
	}
	return p
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

// TestAllAreNotified tests that each host connects once and is notified of its own job.
func TestAllAreNotified(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	go b.start()
	p := planOf(t, b, 300)
	for _, text := range []string{"errors < 1%", "p99 < 1h", "rate > 1/h"} {
		g, err := engine.ParseThreshold(text)
		if err != nil {
			t.Fatal(err)
		}
		p.Gates = append(p.Gates, g)
	}
	x := ran(t.Context(), t, p)
	o := x.Rounds[0]
	if x.Word != Sustained && x.Word != Limited || x.Connect.Connected != 300 || x.Connect.Latency.N != 300 || o.Notified != 300 || o.Published != 300 || o.SentAgain != 0 || o.Undelivered != 0 || o.Latency.N != 300 || o.NotifiedRate <= 0 {
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

// TestBrokerIsFull tests a full broker, which closes further connections. The proxy needs a
// connection for each notification, so no host is notified.
func TestBrokerIsFull(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.most = 100
	go b.start()
	p := planOf(t, b, 250)
	p.Wait = 2 * time.Second
	g, err := engine.ParseThreshold("errors < 50%")
	if err != nil {
		t.Fatal(err)
	}
	p.Gates = append(p.Gates, g)
	x := ran(t.Context(), t, p)
	c, o := x.Connect, x.Rounds[0]
	if x.Word != NotSustained || c.Connected != 100 || c.Refused != 150 || c.FirstRefused == nil || *c.FirstRefused > 100 || c.Failures[closedOff].N != 150 || !strings.Contains(x.Text, "100 of 250 hosts were connected") {
		t.Errorf("%s %s: %+v", x.Word, x.Text, c)
	}
	if o.Notified != 0 || o.Undelivered != 250 || o.NotConnected != 150 || o.Published != 0 || o.NotPublished == 0 || o.PublishFailures[closedOff].N != o.NotPublished || len(x.Failed()) != 1 {
		t.Errorf("%+v %+v", o, x.Gates)
	}
	if want := fmt.Sprintf("250 of 250 jobs were not delivered (the proxy, which retries one job before the next, failed to publish in %d attempts: ", o.NotPublished); !strings.Contains(x.Text, want) {
		t.Errorf("%q is not in %s", want, x.Text)
	}
	// With one place more the proxy gets in, one connection at a time.
	if !root.Eventually(time.Minute, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.most = 101
		return len(b.clients) == 0
	}) {
		t.Fatal("those of the first run do not leave")
	}
	x = ran(t.Context(), t, planOf(t, b, 100))
	if o := x.Rounds[0]; o.Notified != 100 {
		t.Errorf("%s: %+v", x.Text, o)
	}
}

// TestLost tests that a connection that the broker closes is counted, and that its host is not
// notified.
func TestLost(t *testing.T) {
	root.Real(t, "waits ten seconds for messages that do not come")
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
	p.JobRate, p.Wait = 10, 10*time.Second
	x := ran(t.Context(), t, p)
	o := x.Rounds[0]
	// host3 is gone before its job comes, and host5's message is lost.
	if x.Connect.Lost != 1 || o.Notified != 18 || o.Undelivered != 2 || o.Published != 20 || o.Latency.N != 20 || o.Latency.MaxS < 1 || x.Word != NotSustained {
		t.Errorf("%s: %+v %+v", x.Text, x.Connect, o)
	}
}

// TestPull tests that each host fetches its job once, and posts its output and its result.
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

// TestPullTLS tests jobs over TLS with a broker without TLS.
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

// TestLimit tests that as many jobs are in progress as the proxy allows, and no more.
func TestLimit(t *testing.T) {
	t.Parallel()
	const limit = 4
	under, most, mu := 0, 0, sync.Mutex{}
	started, full := map[string]bool{}, make(chan struct{})
	j := newJobs(t, func(path string) int {
		id, ends := strings.CutSuffix(strings.TrimPrefix(path, "POST "), "/update") // the only report is that of the end
		if ends {
			<-full // the first jobs end once as many are under way as may be
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case !ends:
			started[strings.TrimPrefix(path, "GET ")] = true
			if under++; under == limit && most < limit {
				close(full)
			}
			most = max(most, under)
		case started[id]:
			started[id] = false
			under--
		}
		return http.StatusOK
	})
	b := newBroker(t)
	go b.start()
	p := planOf(t, b, 10)
	p.Pull = j.pull(t, 100*time.Millisecond, 100*time.Millisecond)
	p.Settings = []Settings{{TTL: time.Minute, Resend: time.Hour, Limit: limit}, {TTL: time.Minute, Resend: time.Hour, Limit: 1}}
	x := ran(t.Context(), t, p)
	if len(x.Rounds) != 2 || most != limit {
		t.Fatalf("%d rounds, %d jobs were under way", len(x.Rounds), most)
	}
	for i, o := range x.Rounds {
		if o.Pull.Finished != 10 || o.Pull.MostUnderWay != p.Settings[i].Limit {
			t.Errorf("%s: %+v", o.Settings, o.Pull)
		}
	}
	if x.Rounds[1].DurationS < 1 { // a busy machine only adds
		t.Errorf("10 jobs of 0.1 s took %.1f s one at a time", x.Rounds[1].DurationS)
	}
}

// TestInterrupted tests that an interrupted load returns its results so far, and leaves nothing
// running.
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
		return n > 20
	}
	go b.start()
	p := planOf(t, b, 200)
	p.JobRate = 200
	x := ran(ctx, t, p)
	if x.Cut == nil || x.Cut.Planned != 200 || x.Cut.Done > 20 || !strings.HasPrefix(x.Text, "interrupted after ") || x.Connect.Connected != 200 {
		t.Errorf("%s: %+v %+v", x.Text, x.Cut, x.Connect)
	}
}

// TestNobody tests that an impossible setup is reported before anything is measured.
func TestNobody(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{address: l.Addr().String()}
	l.Close()
	p := planOf(t, b, 1)
	if _, err := Prepare(t.Context(), p); err == nil || !strings.Contains(err.Error(), ": connection refused") {
		t.Error(err)
	}
	full := newBroker(t)
	full.most = 0
	go full.start()
	q := planOf(t, full, 1)
	q.Pull = &Pull{Base: &engine.Request{URL: &url.URL{Scheme: "http", Host: b.address}}, Sockets: p.Sockets}
	if _, err := Prepare(t.Context(), q); err == nil || !strings.Contains(err.Error(), "cannot connect to "+b.address) {
		t.Error(err)
	}
}
