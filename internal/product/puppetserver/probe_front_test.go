package puppetserver

import (
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/product"
)

// front is a front end with a cache, and what may be wrong with one.
type front struct {
	behind *product.StandIn

	passesOn     bool // headers of clients, where they have sent some
	answersAll   bool // from its cache, without a certificate
	withoutQuery bool // the cache takes the path alone
	tells        string

	mu   sync.Mutex
	kept map[string]*httptest.ResponseRecorder
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	verify, dn := "NONE", ""
	if len(r.TLS.PeerCertificates) > 0 {
		verify, dn = "SUCCESS", "CN="+r.TLS.PeerCertificates[0].Subject.CommonName
	}
	if !f.passesOn || r.Header.Get("X-Client-DN") == "" {
		r.Header.Set("X-Client-Verify", verify)
		r.Header.Set("X-Client-DN", dn)
	}
	key, cached := r.URL.RequestURI(), strings.HasPrefix(r.URL.Path, "/puppet/v3/file_metadata/")
	if f.withoutQuery {
		key = r.URL.Path
	}
	if cached && verify != "SUCCESS" && !f.answersAll {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	answer := f.kept[key]
	if answer == nil {
		answer = httptest.NewRecorder()
		f.behind.ServeHTTP(answer, r)
		if cached && answer.Code == http.StatusOK {
			f.kept[key] = answer
		}
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	if cached {
		w.Header().Set("Vary", "Accept-Encoding")
		if f.tells != "" {
			w.Header().Set("Cache-Control", f.tells)
			w.Header().Set("Age", "7")
		}
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(answer.Code)
		z := gzip.NewWriter(w)
		z.Write(answer.Body.Bytes())
		z.Close()
		return
	}
	w.WriteHeader(answer.Code)
	w.Write(answer.Body.Bytes())
}

// serve serves by TLS, and asks for certificates in a way.
func serve(t *testing.T, dir string, h http.Handler, how tls.ClientAuthType) Site {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "certs/localhost.pem"), filepath.Join(dir, "private_keys/localhost.pem"))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: how, ClientCAs: authority(t, dir)}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return siteOf(t, s)
}

func siteOf(t *testing.T, s *httptest.Server) Site {
	t.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return Site{u, []netip.AddrPort{netip.MustParseAddrPort(u.Host)}}
}

func authority(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "certs/ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return pool
}

// plan is one of agent1, with all of whom it asks shut.
func plan(t *testing.T, dir string, front Site) Plan {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "certs/agent1.test.pem"), filepath.Join(dir, "private_keys/agent1.test.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return Plan{
		Front: front, TLS: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: authority(t, dir), MinVersion: tls.VersionTLS12}, Node: "agent1.test",
		Environments: []string{"production", "testing"}, UserAgent: "Puppet/7.23.0", Mark: "0123", Timeout: time.Minute,
	}
}

// shut is what a server says that has no hole.
var shut = map[string]any{
	ForeignCatalog: denied, AnonymousCatalog: denied, ForgedAlone: denied, ForgedBeside: denied, CachedMetadata: denied, AnonymousMetadata: denied,
	CachedAnswer: current, CachedEnvironments: apart, CacheLifetime: 300.0, CachedAge: 7.0,
}
