package proofs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
)

// routerCell is one way to use the router.
type routerCell struct {
	Mode   string `json:"mode"`   // none, edge, passthrough or re-encrypt
	Close  bool   `json:"close"`  // each request has a connection of its own
	Resume bool   `json:"resume"` // clients take up TLS sessions
	Bytes  int    `json:"bytes"`  // of the page
}

func (c routerCell) String() string {
	words := []string{c.Mode, "keep-alive"}
	if c.Close {
		words[1] = "close"
	}
	switch {
	case c.Mode == "none":
	case c.Resume:
		words = append(words, "resumed")
	default:
		words = append(words, "not resumed")
	}
	return strings.Join(append(words, fmt.Sprintf("%d kB", c.Bytes/1024)), ", ")
}

// encrypted says that clients speak TLS, and ended that the router ends it.
func (c routerCell) encrypted() bool { return c.Mode != "none" }
func (c routerCell) ended() bool     { return c.Mode == "edge" || c.Mode == "re-encrypt" }

// routerSample is what was measured of a cell in one round. But for what is said of the
// whole, all is of the time after the warm-up.
type routerSample struct {
	Round int `json:"round"`
	routerCell
	WindowS float64 `json:"window_s"`
	// Requests are those that the back ends have had.
	Requests int64 `json:"requests"`
	// Processor time: of each program, of everything else on the machine, and what the
	// hypervisor took.
	HAProxyCPUS   float64 `json:"haproxy_cpu_s"`
	NginxCPUS     float64 `json:"nginx_cpu_s"`
	GeneratorCPUS float64 `json:"generator_cpu_s"`
	OthersCPUS    float64 `json:"others_cpu_s"`
	StolenS       float64 `json:"stolen_s"`
	// Opened are connections of clients, Handshakes those of TLS on them, and BackOpened
	// connections that the back ends were given.
	Opened     int64 `json:"connections_opened"`
	Handshakes int64 `json:"handshakes"`
	Resumed    int64 `json:"handshakes_resumed"`
	BackOpened int64 `json:"back_end_connections_opened"`
	// BackHandshakes are those of HAProxy with the back ends, over the whole time.
	BackHandshakes int64 `json:"back_end_handshakes_whole,omitempty"`
	BackResumed    int64 `json:"back_end_handshakes_resumed_whole,omitempty"`
	// AnswerBytes are those of an answer, its header included, over the whole time.
	AnswerBytes float64 `json:"answer_bytes"`
	TLS         string  `json:"tls,omitempty"`
	Cipher      string  `json:"cipher,omitempty"`
}

// routerFound is a sample with what it is checked by, all of it over the whole time.
type routerFound struct {
	routerSample
	// Errors are answers that were wrong or did not come, in words.
	Errors string
	// Sent and In are the requests of each route and the bytes of their answers, by
	// number, from 1 on.
	Sent, In [routes + 1]int64
	// Least and Most are how many requests there can have been after the warm-up, by the
	// answers that clients had.
	Least, Most int64
	// NginxRequests are those of the back ends, and BackDialed connections to them.
	NginxRequests, BackDialed int64
	// Dialed are connections of clients, Shaken the handshakes on them, Taken those that
	// took up a session; Reopened are connections that were closed while they were idle.
	Dialed, Shaken, Taken, Reopened int64
	HAProxy                         map[string]counters
}

// routerBench is nginx, and what it takes to measure a router before it.
type routerBench struct {
	*testing.T
	roots  *x509.CertPool
	nginx  *server
	counts *http.Client
}

// newRouterBench writes the files and starts nginx, inside of the root.
func newRouterBench(t *testing.T) *routerBench {
	t.Helper()
	b := &routerBench{T: t, roots: certificates(t), counts: &http.Client{Timeout: 10 * time.Second}}
	for _, size := range []int{page1k, page8k} {
		put(t, "/srv/pages/"+pageName(size), []byte(strings.Repeat("<p>a page</p>\n", size)[:size]))
	}
	for mode := range backPrefix {
		for name, text := range haproxyFiles(mode) {
			put(t, name, []byte(text))
		}
	}
	put(t, routerDir+"/nginx.conf", []byte(nginxFile()))
	if err := os.MkdirAll(routerRun, 0o755); err != nil {
		t.Fatal(err)
	}
	b.nginx = serve(t, "tcp", nginxCounts, "nginx", "-c", routerDir+"/nginx.conf")
	t.Cleanup(b.nginx.stop)
	return b
}

func pageName(size int) string { return fmt.Sprintf("%dk", size/1024) }

// addresses resolves the hosts of the routes.
type addresses struct{}

func (addresses) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	for n := 1; n <= routes; n++ {
		if host == routeHost(n) {
			return []netip.Addr{routerAddress(n)}, nil
		}
	}
	return nil, fmt.Errorf("%s is no host of a route", host)
}

// client asks for the page of one route over one connection at a time, which the engine
// gives to one goroutine.
type client struct {
	*engine.HTTP1Client
	request  *engine.Request
	sent, in int64
	answered *atomic.Int64 // of all clients
}

// Exchange sends the client's own request, whatever the number.
func (c *client) Exchange(_ int, until time.Time) engine.Answer {
	answer := c.HTTP1Client.Exchange(c.request, until)
	c.sent++
	c.in += answer.In
	c.answered.Add(1)
	return answer
}

// clients makes one for each route.
func (b *routerBench) clients(c routerCell, config *tls.Config, counts *engine.Counts, answered *atomic.Int64) []*client {
	b.Helper()
	scheme := "http"
	if c.encrypted() {
		scheme = "https"
	}
	var list []engine.Asked
	for n := 1; n <= routes; n++ {
		list = append(list, engine.Asked{Weight: 1, Method: "GET", URL: scheme + "://" + routeHost(n) + "/" + pageName(c.Bytes)})
	}
	set, err := engine.Make(b.Context(), list, engine.Common{Close: c.Close}, &engine.Allowed{}, addresses{})
	if err != nil {
		b.Fatal(err)
	}
	var all []*client
	for _, r := range set.Requests {
		origin := set.Origins[r.Origin]
		d := &engine.Dialer{To: origin.Sockets[0], Counts: counts, Context: b.Context()}
		if origin.TLS {
			d.TLS = config.Clone()
			d.TLS.ServerName = origin.Name
			if c.Resume {
				d.TLS.ClientSessionCache = tls.NewLRUClientSessionCache(1)
			} else {
				d.TLS.SessionTicketsDisabled = true
			}
		}
		all = append(all, &client{HTTP1Client: &engine.HTTP1Client{Dialer: d, OneEach: c.Close}, request: r, answered: answered})
	}
	return all
}

// reading is what all counters that cost HAProxy nothing say at a moment.
type reading struct {
	at                                time.Time
	haproxy, nginx, own, busy, stolen time.Duration
	connections, requests             int64 // of nginx
	opened, handshakes, resumed       int64
	before, after                     int64 // answers, when nginx was asked and when it had answered
}

func (b *routerBench) read(haproxy *server, counts *engine.Counts, answered *atomic.Int64) (r reading) {
	b.Helper()
	r.before = answered.Load()
	r.connections, r.requests = nginxSaw(b.T, b.counts)
	r.after = answered.Load()
	r.at = time.Now()
	r.opened, r.handshakes, r.resumed = counts.Opened.Load(), counts.Handshakes.Load(), counts.Resumed.Load()
	r.haproxy, r.nginx, r.own = cpu(b.T, haproxy.Process.Pid), cpu(b.T, b.nginx.Process.Pid), cpu(b.T, os.Getpid())
	r.busy, r.stolen = busy(b.T)
	return r
}

// measure starts a router for a cell, lets as many clients as there are routes ask it, and
// counts for a window after a warm-up.
func (b *routerBench) measure(c routerCell, warmUp, window time.Duration) *routerFound {
	b.Helper()
	haproxy := serve(b.T, "unix", statsSocket, "haproxy", "-db", "-f", routerDir+"/"+c.Mode+".cfg")
	defer haproxy.stop()
	counts, f := &engine.Counts{}, &routerFound{routerSample: routerSample{routerCell: c}}
	var once sync.Once
	var answered atomic.Int64
	all := b.clients(c, &tls.Config{RootCAs: b.roots, MinVersion: tls.VersionTLS12, VerifyConnection: func(s tls.ConnectionState) error {
		once.Do(func() { f.TLS, f.Cipher = tls.VersionName(s.Version), tls.CipherSuiteName(s.CipherSuite) })
		return nil
	}}, counts, &answered)
	// Longer than any answer takes: what is given up would be measured too.
	const timeout = 20 * time.Second
	m := engine.NewMeter([]engine.Stretch{{For: warmUp + window}}, timeout, 1, func(status int) bool { return status == http.StatusOK })
	dialed, before := nginxSaw(b.T, b.counts)
	begin, ended := time.Now(), make(chan error, 1)
	go func() {
		_, err := engine.Run(b.Context(), engine.Plan{For: warmUp + window, Connections: routes, Timeout: timeout, Meter: m,
			Pick: func(uint64) int { return 0 }, Client: func(i int) engine.Driver { return all[i] }})
		ended <- err
	}()
	time.Sleep(time.Until(begin.Add(warmUp)))
	from := b.read(haproxy, counts, &answered)
	// A little before the load ends: all clients are at work until then.
	time.Sleep(time.Until(begin.Add(warmUp + window - 30*time.Millisecond)))
	to := b.read(haproxy, counts, &answered)
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	backDialed, after := nginxSaw(b.T, b.counts)
	f.HAProxy = haproxySaw(b.T)

	// Three questions for the counters came between, the last one included.
	f.NginxRequests, f.BackDialed = after-before-3, backDialed-dialed
	f.WindowS = to.at.Sub(from.at).Seconds()
	f.Requests, f.BackOpened = to.requests-from.requests-1, to.connections-from.connections
	f.HAProxyCPUS, f.NginxCPUS, f.GeneratorCPUS = (to.haproxy - from.haproxy).Seconds(), (to.nginx - from.nginx).Seconds(), (to.own - from.own).Seconds()
	f.OthersCPUS = (to.busy - from.busy).Seconds() - f.HAProxyCPUS - f.NginxCPUS - f.GeneratorCPUS
	f.StolenS = (to.stolen - from.stolen).Seconds()
	f.Opened, f.Handshakes, f.Resumed = to.opened-from.opened, to.handshakes-from.handshakes, to.resumed-from.resumed
	f.Dialed, f.Shaken, f.Taken, f.Reopened = counts.Opened.Load(), counts.Handshakes.Load(), counts.Resumed.Load(), counts.Reopened.Load()
	for i, one := range all {
		f.Sent[i+1], f.In[i+1] = one.sent, one.in
		f.AnswerBytes += float64(one.in)
	}
	// nginx has had what is answered, and at most one more of each client.
	f.Least, f.Most = to.before-from.after-routes, to.after-from.before+routes
	f.AnswerBytes /= float64(f.NginxRequests)
	for n := 1; n <= routes; n++ {
		handshakes, resumed := f.HAProxy[backPrefix[c.Mode]+":"+routeName(n)].handshakes()
		f.BackHandshakes += handshakes
		f.BackResumed += resumed
	}
	f.Errors = failures(m, warmUp+window)
	return f
}

// failures are answers that were wrong or did not come, in words.
func failures(m *engine.Meter, length time.Duration) string {
	whole := m.Sum(0, len(m.Slices(length)))
	var words []string
	for status, n := range whole.Statuses {
		if status != http.StatusOK {
			words = append(words, fmt.Sprintf("%d answers with status %d", n, status))
		}
	}
	for failure, n := range whole.Failures {
		words = append(words, fmt.Sprintf("%d times %s: %s", n, failure, m.Example(failure)))
	}
	return strings.Join(words, "; ")
}
