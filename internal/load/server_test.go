package load

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"software.sslmate.com/src/go-pkcs12"

	"fettle.dev/fettle/internal/load/exchange"
	"fettle.dev/fettle/internal/load/fleet"
	"fettle.dev/fettle/internal/load/identity"
	"fettle.dev/fettle/internal/load/rate"
	"fettle.dev/fettle/internal/load/target"
	"fettle.dev/fettle/internal/testroot"
)

// loaded loads a server and wants a result.
func loaded(ctx context.Context, t *testing.T, p Plan, common target.Common, urls ...string) *Result {
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

func prepared(ctx context.Context, t *testing.T, p Plan, common target.Common, urls ...string) (*Prepared, error) {
	t.Helper()
	var list []target.Asked
	for _, u := range urls {
		list = append(list, target.Asked{Weight: 1, Method: "GET", URL: u})
	}
	common.Close = p.Close
	var err error
	if p.Set, err = target.Make(ctx, list, common, &target.Allowed{}, net.DefaultResolver); err != nil {
		t.Fatal(err)
	}
	if p.Connections == 0 {
		p.Connections = 100
	}
	p.Streams, p.Timeout = max(1, p.Streams), time.Minute
	return Prepare(ctx, p)
}

func perSecondFor(n float64, length time.Duration) Plan {
	return Plan{For: length, Stages: []rate.Stage{{From: n, To: n, For: length}}}
}

// TestKnownServiceTimes: of a server that notes what each request took, the percentiles of
// the service time are not below its own, and not above them by more than the way there
// and back once in some tries: a busy machine only adds.
func TestKnownServiceTimes(t *testing.T) {
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
	near := false
	for try := 0; try < 20 && !near; try++ {
		took, n = nil, 0
		x := loaded(t.Context(), t, perSecondFor(100, 3*time.Second), target.Common{}, server.URL)
		if x.Whole.Starts != 300 || x.Whole.Errors != 0 || x.Whole.Statuses["200"] != 300 || len(took) != 300 {
			t.Fatalf("%+v, %d requests came", x.Whole, len(took))
		}
		slices.Sort(took)
		near = true
		for p, got := range map[float64]float64{50: x.Whole.Service.P50S, 90: x.Whole.Service.P90S, 99: x.Whole.Service.P99S} {
			want := took[int(math.Ceil(p/100*300))-1]
			if got < want*0.999 {
				t.Errorf("p%v is %v, and the server's own %v", p, got, want)
			}
			near = near && got < want+0.010
		}
		if x.Whole.Latency.P50S < x.Whole.Service.P50S*0.999 {
			t.Errorf("the latency is below the service time: %+v", x.Whole)
		}
	}
	if !near {
		t.Error("in 20 tries the percentiles were never within 10 ms of the server's own")
	}
}

// TestInjectedStall: the server stands still for a second; a rate shows it in the 90th
// percentile, the service time over one connection does not.
func TestInjectedStall(t *testing.T) {
	var once sync.Once
	begin := time.Now()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if time.Since(begin) > time.Second {
			once.Do(func() { time.Sleep(time.Second) })
		}
	}))
	defer server.Close()
	p := perSecondFor(100, 4*time.Second)
	p.Connections = 1
	begin = time.Now()
	x := loaded(t.Context(), t, p, target.Common{}, server.URL)
	if x.Whole.Latency.P90S < 0.59 || x.Whole.Latency.MaxS < 0.999 {
		t.Errorf("the latency does not show it: %+v", x.Whole.Latency)
	}
	if x.Whole.Service.MaxS < 0.999 || x.Whole.Service.N != 400 {
		t.Errorf("%+v", x.Whole.Service)
	}
	if x.Generator.WaitedShare < 0.2 {
		t.Errorf("%.2f of the starts waited for the connection", x.Generator.WaitedShare)
	}
}

// TestInterrupted: what was measured until then is whole.
func TestInterrupted(t *testing.T) {
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
	x := loaded(ctx, t, perSecondFor(100, time.Hour), target.Common{}, server.URL)
	if x.Cut == nil || x.Whole.Starts < 150 || x.Whole.Statuses["200"] < 140 || !strings.HasPrefix(x.Text, "interrupted after ") {
		t.Errorf("%q %+v", x.Text, x.Whole)
	}
}

// TestHostileServer: a server that says nonsense is counted as one, by kind.
func TestHostileServer(t *testing.T) {
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
	x := loaded(t.Context(), t, perSecondFor(60, time.Second), target.Common{}, "http://"+l.Addr().String()+"/")
	f := x.Whole.Failures
	if x.Word != Silent || f[string(exchange.Protocol)].N+f[string(exchange.Closed)].N != 60 || f[string(exchange.Closed)].N < 20 || strings.Contains(f[string(exchange.Protocol)].Example, "\x1b") {
		t.Errorf("%s %+v", x.Word, f)
	}
}

// pair is a certificate with its key, of an authority or its own.
type pair struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func issue(t *testing.T, name string, by *pair) *pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	parent, signer := c, key
	if by == nil {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
	} else {
		parent, signer = by.cert, by.key
		c.DNSNames, c.IPAddresses = []string{name}, []net.IP{net.IPv4(127, 0, 0, 1)}
		c.KeyUsage, c.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return &pair{c, key}
}

// write puts the certificate and the key into files.
func (p *pair) write(t *testing.T, cert, key string) {
	t.Helper()
	private, err := x509.MarshalPKCS8PrivateKey(p.key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: p.cert.Raw}, key: {Type: "PRIVATE KEY", Bytes: private}} {
		if name == "" {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// secured is a server that wants a certificate of its authority.
func secured(t *testing.T, h2 bool) (url, dir string, authority *pair) {
	t.Helper()
	authority = issue(t, "authority", nil)
	own := issue(t, "localhost", authority)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Proto", r.Proto)
		_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	pool := x509.NewCertPool()
	pool.AddCert(authority.cert)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{own.cert.Raw}, PrivateKey: own.key}}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	server.EnableHTTP2 = h2
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	dir = t.TempDir()
	authority.write(t, filepath.Join(dir, "certs/ca.pem"), "")
	issue(t, "agent1", authority).write(t, filepath.Join(dir, "certs/agent1.pem"), filepath.Join(dir, "private_keys/agent1.pem"))
	return server.URL, dir, authority
}

// TestCertificates: a server that wants a client's certificate is loaded with one from PEM,
// from PKCS#12 as OpenSSL writes it, and from the ssldir of a Puppet agent.
func TestCertificates(t *testing.T) {
	url, dir, _ := secured(t, false)
	ca, cert, key, container := filepath.Join(dir, "certs/ca.pem"), filepath.Join(dir, "certs/agent1.pem"), filepath.Join(dir, "private_keys/agent1.pem"), filepath.Join(dir, "agent1.p12")
	if out, err := exec.Command("openssl", "pkcs12", "-export", "-in", cert, "-inkey", key, "-certfile", ca, "-out", container, "-passout", "pass:sesame").CombinedOutput(); err != nil {
		testroot.Missing(t, "openssl: %v: %s", err, out)
	}
	load := func(f identity.Files, secret string) (*tls.Config, error) {
		return identity.Load(f, os.ReadFile, func() (string, error) { return secret, nil })
	}
	for name, f := range map[string]identity.Files{
		"PEM":     {Cert: cert, Key: key, CA: ca},
		"PKCS#12": {PKCS12: container},
		"Puppet":  {PuppetSSLDir: dir, CertName: "agent1"},
	} {
		config, err := load(f, "sesame")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		p := perSecondFor(20, time.Second)
		p.TLS = config
		x := loaded(t.Context(), t, p, target.Common{}, url)
		if x.Whole.Statuses["200"] != 20 || x.Servers[0].TLS != "TLS 1.3" || !x.Servers[0].ClientCertificate {
			t.Errorf("%s: %+v %+v", name, x.Whole, x.Servers)
		}
	}
	private, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	wrong := filepath.Join(dir, "wrong.pem")
	if err := os.WriteFile(wrong, []byte("-----BEGIN PRIVATE KEY-----\nc2VzYW1l\n-----END PRIVATE KEY-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	locked := filepath.Join(dir, "locked.pem")
	if err := os.WriteFile(locked, []byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\nc2VzYW1l\n-----END ENCRYPTED PRIVATE KEY-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, f := range map[string]identity.Files{
		"the passphrase is wrong":    {PKCS12: container},
		"no PKCS#12 with a key":      {PKCS12: ca},
		"with " + wrong:              {Cert: cert, Key: wrong},
		"the key has a passphrase":   {Cert: cert, Key: locked},
		"no certificate in PEM":      {CA: wrong},
		"no such file":               {CA: dir + "/none"},
		"--cert and --key belong":    {Cert: cert},
		"want one of":                {Cert: cert, Key: key, PKCS12: container},
		"--puppet-ssldir and":        {PuppetSSLDir: dir},
		"is no name of a":            {PuppetSSLDir: dir, CertName: "../agent1"},
		"certs/other.pem: no such f": {PuppetSSLDir: dir, CertName: "other"},
	} {
		_, err := load(f, "another")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "another") || strings.Contains(err.Error(), "c2VzYW1l") || strings.Contains(err.Error(), string(private)) {
			t.Errorf("%+v: %v, want %q", f, err, want)
		}
	}
	if _, err := load(identity.Files{PKCS12: container}, ""); err == nil || !strings.Contains(err.Error(), "it has a passphrase, and none was given: --pass-file FILE or --pass-env NAME") {
		t.Errorf("no passphrase: %v", err)
	}
	secondURL, secondDir, _ := secured(t, true)
	second, err := load(identity.Files{CA: filepath.Join(secondDir, "certs/ca.pem")}, "")
	if err != nil {
		t.Fatal(err)
	}
	// Without a certificate, and without the authority: found before anything is sent.
	p := perSecondFor(20, time.Second)
	for name, f := range map[string]identity.Files{"no certificate": {CA: ca}, "no authority": {Cert: cert, Key: key}} {
		if p.TLS, err = load(f, ""); err != nil {
			t.Fatal(err)
		}
		if name == "no certificate" {
			// With TLS 1.3 the server refuses after the handshake, as answers go.
			for _, http2 := range []bool{false, true} {
				p, to := p, url
				if p.HTTP2 = http2; http2 {
					to, p.TLS = secondURL, second
				}
				x := loaded(t.Context(), t, p, target.Common{}, to)
				if x.Word != Silent || len(x.Whole.Failures) != 1 || x.Whole.Failures["tls"].N != 20 || !strings.Contains(x.Whole.Failures["tls"].Example, "certificate") {
					t.Errorf("%s, HTTP/2 %t: %s: %+v", name, http2, x.Text, x.Whole.Failures)
				}
			}
			continue
		}
		if _, err := prepared(t.Context(), t, p, target.Common{}, url); err == nil || !strings.Contains(err.Error(), "unknown authority") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLegacyContainer: what OpenSSL 1 and Java wrote is read as well.
func TestLegacyContainer(t *testing.T) {
	authority := issue(t, "authority", nil)
	own := issue(t, "agent1", authority)
	for name, encoder := range map[string]*pkcs12.Encoder{"modern": pkcs12.Modern, "DES": pkcs12.LegacyDES, "RC2": pkcs12.LegacyRC2} {
		data, err := encoder.Encode(own.key, own.cert, []*x509.Certificate{authority.cert}, "sesame")
		if err != nil {
			t.Fatal(err)
		}
		config, err := identity.Load(identity.Files{PKCS12: "x"}, func(string) ([]byte, error) { return data, nil }, func() (string, error) { return "sesame", nil })
		if err != nil || len(config.Certificates) != 1 || len(config.Certificates[0].Certificate) != 1 || config.RootCAs == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestResumption: with a connection for each request nearly all sessions are taken up, or
// none.
func TestResumption(t *testing.T) {
	url, dir, _ := secured(t, false)
	config, err := identity.Load(identity.Files{PuppetSSLDir: dir, CertName: "agent1"}, os.ReadFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := Plan{For: time.Second, Connections: 1, TLS: config, Close: true}
	for _, on := range []bool{true, false} {
		p.Resume = on
		x := loaded(t.Context(), t, p, target.Common{}, url)
		if x.TLS == nil || x.TLS.Handshakes < 2 || x.TLS.Resume != on || on && x.TLS.Resumed != x.TLS.Handshakes-1 || !on && x.TLS.Resumed != 0 {
			t.Errorf("resume %t: %+v", on, x.TLS)
		}
	}
}

// TestHTTP2: streams share connections; a server without HTTP/2 is refused before.
func TestHTTP2(t *testing.T) {
	url, dir, _ := secured(t, true)
	config, err := identity.Load(identity.Files{PuppetSSLDir: dir, CertName: "agent1"}, os.ReadFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	x := loaded(t.Context(), t, Plan{For: time.Second, Connections: 2, Streams: 5, HTTP2: true, TLS: config}, target.Common{}, url)
	if x.Whole.Statuses["200"] == 0 || x.Whole.Errors != 0 || x.Generator.Opened != 2 || x.Protocol != "HTTP/2" {
		t.Errorf("%+v, %d connections", x.Whole, x.Generator.Opened)
	}
	x = loaded(t.Context(), t, Plan{For: time.Second, Stages: []rate.Stage{{From: 50, To: 50, For: time.Second}}, Connections: 3, Streams: 5, HTTP2: true, TLS: config}, target.Common{}, url)
	if x.Whole.Statuses["200"] != 50 || x.Generator.Opened > 3 {
		t.Errorf("%+v, %d connections", x.Whole, x.Generator.Opened)
	}
	url, dir, _ = secured(t, false)
	if config, err = identity.Load(identity.Files{PuppetSSLDir: dir, CertName: "agent1"}, os.ReadFile, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := prepared(t.Context(), t, Plan{For: time.Second, HTTP2: true, TLS: config}, target.Common{}, url); err == nil || !strings.Contains(err.Error(), "HTTP/2") {
		t.Errorf("a server of HTTP/1.1: %v", err)
	}
}

// TestHTTP2OfOlderServer: without TLS a server that speaks HTTP/1 alone is found out by its
// first answer, and that is what is said.
func TestHTTP2OfOlderServer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	p := perSecondFor(20, time.Second)
	p.HTTP2 = true
	x := loaded(t.Context(), t, p, target.Common{}, server.URL)
	if f := x.Whole.Failures["protocol"]; x.Word != Silent || f.N < 15 || !strings.Contains(x.Text, "the server answers in HTTP/1, and not in HTTP/2") {
		t.Errorf("%s: %+v", x.Text, x.Whole.Failures)
	}
}

// TestConnectTo: the URL names the server that is meant, and the connection goes elsewhere.
func TestConnectTo(t *testing.T) {
	var mu sync.Mutex
	hosts := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		hosts[r.Host+r.URL.Path]++
	}))
	defer server.Close()
	x := loaded(t.Context(), t, perSecondFor(20, time.Second), target.Common{ConnectTo: server.Listener.Addr().String()}, "http://web1.invalid/a", "http://web2.invalid/b")
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
	if _, err := prepared(t.Context(), t, perSecondFor(1, time.Second), target.Common{}, "http://"+address+"/"); err == nil || !strings.Contains(err.Error(), address+" cannot be connected to (connection-refused)") {
		t.Error(err)
	}
}
