package load

import (
	"context"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/load/fleet"
)

// loaded loads a server and requires a result.
func loaded(ctx context.Context, t *testing.T, p Plan, common engine.Common, urls ...string) *Result {
	t.Helper()
	r, err := prepared(ctx, t, p, common, urls...)
	if err != nil {
		t.Fatal(err)
	}
	x, err := (&Rig{Prepared: r}).Run(ctx, 1, func(time.Duration, time.Duration, fleet.Now) {})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func prepared(ctx context.Context, t *testing.T, p Plan, common engine.Common, urls ...string) (*Prepared, error) {
	t.Helper()
	var list []engine.Asked
	for _, u := range urls {
		list = append(list, engine.Asked{Weight: 1, Method: "GET", URL: u})
	}
	common.Close = p.Close
	var err error
	if p.Set, err = engine.Make(ctx, list, common, &engine.Allowed{}, net.DefaultResolver); err != nil {
		t.Fatal(err)
	}
	if p.Connections == 0 {
		p.Connections = 100
	}
	p.Streams, p.Timeout = max(1, p.Streams), time.Minute
	return Prepare(ctx, p)
}

func perSecondFor(n float64, length time.Duration) Plan {
	return Plan{For: length, Stages: []engine.Stage{{From: n, To: n, For: length}}}
}

// TestKnownServiceTimes compares the percentiles of the service time with the times that the server
// records for its requests: they are not lower. A busy machine can only increase them.
func TestKnownServiceTimes(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var took []float64
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		begin := time.Now()
		mu.Lock()
		d := 5 * time.Millisecond
		if n++; n%20 == 0 {
			d = 80 * time.Millisecond
		}
		mu.Unlock()
		time.Sleep(d)
		mu.Lock()
		took = append(took, time.Since(begin).Seconds())
		mu.Unlock()
		_, _ = io.WriteString(w, "done")
	}))
	defer server.Close()
	x := loaded(t.Context(), t, perSecondFor(200, time.Second), engine.Common{}, server.URL)
	if x.Whole.Starts != 200 || x.Whole.Errors != 0 || x.Whole.Statuses["200"] != 200 || len(took) != 200 {
		t.Fatalf("%+v, %d requests came", x.Whole, len(took))
	}
	slices.Sort(took)
	for p, got := range map[float64]float64{50: x.Whole.Service.P50S, 90: x.Whole.Service.P90S, 99: x.Whole.Service.P99S} {
		if want := took[int(math.Ceil(p/100*200))-1]; got < want*0.999 {
			t.Errorf("p%v is %v, and the server's own %v", p, got, want)
		}
	}
	if x.Whole.Latency.P50S < x.Whole.Service.P50S*0.999 {
		t.Errorf("the latency is below the service time: %+v", x.Whole)
	}
}

// TestInjectedStall tests a server that stalls for half a second: at a fixed rate the 90th
// percentile shows the stall, the service time over one connection does not.
func TestInjectedStall(t *testing.T) {
	t.Parallel()
	const stall = 500 * time.Millisecond
	var once sync.Once
	begin := time.Now()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if time.Since(begin) > stall {
			once.Do(func() { time.Sleep(stall) })
		}
	}))
	defer server.Close()
	p := perSecondFor(200, 4*stall)
	p.Connections = 1
	x := loaded(t.Context(), t, p, engine.Common{}, server.URL)
	if x.Whole.Latency.P90S < 0.29 || x.Whole.Latency.MaxS < 0.499 {
		t.Errorf("the latency does not show it: %+v", x.Whole.Latency)
	}
	if x.Whole.Service.MaxS < 0.499 || x.Whole.Service.N != 400 {
		t.Errorf("%+v", x.Whole.Service)
	}
	if x.Generator.WaitedShare < 0.2 {
		t.Errorf("%.2f of the starts waited for the connection", x.Generator.WaitedShare)
	}
}

// TestInterrupted tests that an interrupted load keeps its complete measurements.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n, mu := 0, sync.Mutex{}
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if n++; n == 150 {
			cancel()
		}
	}))
	defer server.Close()
	p := perSecondFor(100, time.Hour)
	p.Connections = 5 // so that few are under way, however far it has fallen behind
	x := loaded(ctx, t, p, engine.Common{}, server.URL)
	if x.Cut == nil || x.Whole.Starts < 150 || x.Whole.Statuses["200"] < 140 || !strings.HasPrefix(x.Text, "interrupted after ") {
		t.Errorf("%q %+v", x.Text, x.Whole)
	}
}

// TestHostileServer tests that invalid answers of a server are counted by kind.
func TestHostileServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = c.Read(make([]byte, 4096))
				switch n % 3 {
				case 0:
					_, _ = io.WriteString(c, "\x1b]0;owned\x07\r\n\r\n")
				case 1:
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
				default:
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n"+strings.Repeat("X: y\r\n", 20_000)+"\r\n")
				}
			}()
		}
	}()
	x := loaded(t.Context(), t, perSecondFor(60, time.Second), engine.Common{}, "http://"+l.Addr().String()+"/")
	f := x.Whole.Failures
	if x.Word != Silent || f[string(engine.Protocol)].N+f[string(engine.Closed)].N != 60 || f[string(engine.Closed)].N < 20 || strings.Contains(f[string(engine.Protocol)].Example, "\x1b") {
		t.Errorf("%s %+v", x.Word, f)
	}
}

// TestHTTP2 tests that streams share connections, and that a server without HTTP/2 is refused
// before the load.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	url, dir, _ := secured(t, true)
	config, err := engine.Load(engine.Files{PuppetSSLDir: dir, CertName: "agent1"}, os.ReadFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	x := loaded(t.Context(), t, Plan{For: time.Second, Connections: 2, Streams: 5, HTTP2: true, TLS: config}, engine.Common{}, url)
	if x.Whole.Statuses["200"] == 0 || x.Whole.Errors != 0 || x.Generator.Opened != 2 || x.Protocol != "HTTP/2" {
		t.Errorf("%+v, %d connections", x.Whole, x.Generator.Opened)
	}
	x = loaded(t.Context(), t, Plan{For: time.Second, Stages: []engine.Stage{{From: 50, To: 50, For: time.Second}}, Connections: 3, Streams: 5, HTTP2: true, TLS: config}, engine.Common{}, url)
	if x.Whole.Statuses["200"] != 50 || x.Generator.Opened > 3 {
		t.Errorf("%+v, %d connections", x.Whole, x.Generator.Opened)
	}
	url, dir, _ = secured(t, false)
	if config, err = engine.Load(engine.Files{PuppetSSLDir: dir, CertName: "agent1"}, os.ReadFile, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := prepared(t.Context(), t, Plan{For: time.Second, HTTP2: true, TLS: config}, engine.Common{}, url); err == nil || !strings.Contains(err.Error(), "HTTP/2") {
		t.Errorf("a server of HTTP/1.1: %v", err)
	}
}

// TestHTTP2OfOlderServer tests that without TLS a server with only HTTP/1 is detected by its first
// answer, and that the error says so.
func TestHTTP2OfOlderServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	p := perSecondFor(20, time.Second)
	p.HTTP2 = true
	x := loaded(t.Context(), t, p, engine.Common{}, server.URL)
	if f := x.Whole.Failures["protocol"]; x.Word != Silent || f.N < 15 || !strings.Contains(x.Text, "the server answers in HTTP/1, not HTTP/2") {
		t.Errorf("%s: %+v", x.Text, x.Whole.Failures)
	}
}

// TestConnectTo tests that the connection goes to --connect-to, while the URL names the intended
// server.
func TestConnectTo(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	hosts := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		hosts[r.Host+r.URL.Path]++
	}))
	defer server.Close()
	x := loaded(t.Context(), t, perSecondFor(20, time.Second), engine.Common{ConnectTo: server.Listener.Addr().String()}, "http://web1.invalid/a", "http://web2.invalid/b")
	if hosts["web1.invalid/a"]+hosts["web2.invalid/b"] != 20 || len(hosts) != 2 || x.Requests[0].Starts+x.Requests[1].Starts != 20 || len(x.Servers) != 2 {
		t.Errorf("%v %+v", hosts, x.Requests)
	}
}

func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	if _, err := prepared(t.Context(), t, perSecondFor(1, time.Second), engine.Common{}, "http://"+address+"/"); err == nil || !strings.Contains(err.Error(), "cannot connect to "+address+": connection refused") {
		t.Error(err)
	}
}
