package puppet

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/product"
	"fettle.dev/fettle/internal/testkit/root"
)

func TestNginx(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	f := newFront(t, "nginx")
	machine.Write(t, "/", map[string]string{NginxFile: f.text})
	if said := product.Command(t, "nginx", "-t"); strings.Contains(said, "warn") || !strings.Contains(said, "test is successful") {
		t.Error(said)
	}
	product.Command(t, "nginx")
	t.Cleanup(func() { product.Command(t, "nginx", "-s", "stop") })
	f.probe(func() { product.Command(t, "nginx", "-s", "reload") })
	f.logged("/var/log/nginx/puppet.log", " HIT", " MISS", "CN=agent.test")
}

func TestApache(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	f := newFront(t, "apache")
	machine.Write(t, "/", map[string]string{ApacheSite: f.text})
	product.Command(t, "a2enmod", "-q", "ssl", "headers", "proxy_http", "cache_disk")
	product.Command(t, "a2ensite", "-q", "puppet")
	if said := product.Command(t, "apache2ctl", "-t"); !strings.Contains(said, "Syntax OK") {
		t.Error(said)
	}
	product.Command(t, "apache2ctl", "start")
	t.Cleanup(func() { product.Command(t, "apache2ctl", "stop") })
	f.probe(func() { product.Command(t, "apache2ctl", "graceful") })
	f.logged("/var/log/apache2/puppet.log", " agent.test ", "cache hit", "cache miss")
}

// front is a front end with a server behind it that answers as Puppet Server does: in
// chunks, with Vary, and with nothing that says for how long.
type front struct {
	*testing.T
	text        string
	authority   *authority
	agent, gone tls.Certificate
	behind      *http.Server
	mutex       sync.Mutex
	asked       []*http.Request
}

func newFront(t *testing.T, name string) *front {
	t.Helper()
	a := newAuthority(t)
	f := &front{T: t, authority: a, agent: a.node("agent.test"), gone: a.node("gone.test")}
	a.node("localhost")
	s := debian()
	s.Certificate, s.Key, s.CA, s.CRL = a.dir+"/localhost.pem", a.dir+"/localhost.key", a.dir+"/ca.pem", a.dir+"/crl.pem"
	r, err := asked(t, plugins(), s, "front-end", name, "cache-seconds", "86400")
	if err != nil {
		t.Fatal(err)
	}
	f.text = r.Artefact(map[string]string{"nginx": NginxFile, "apache": ApacheSite}[name]).Content
	l, err := net.Listen("tcp", "127.0.0.1:8139")
	if err != nil {
		t.Fatal(err)
	}
	f.behind = &http.Server{Handler: http.HandlerFunc(f.answer), ReadHeaderTimeout: time.Minute}
	go func() { _ = f.behind.Serve(l) }()
	t.Cleanup(func() { f.behind.Close() })
	return f
}

// answer is that of the server behind: another one each time.
func (f *front) answer(w http.ResponseWriter, r *http.Request) {
	f.mutex.Lock()
	f.asked = append(f.asked, r.Clone(r.Context()))
	n := len(f.asked)
	f.mutex.Unlock()
	w.Header().Set("Vary", "Accept-Encoding, User-Agent")
	w.Header().Set("X-Puppet-Version", "7.23.0")
	w.Header().Set("Content-Type", "application/json")
	if strings.Contains(r.URL.Path, "missing") {
		w.WriteHeader(http.StatusNotFound)
	}
	fmt.Fprintf(w, "answer %d", n)
	_ = http.NewResponseController(w).Flush()
	fmt.Fprintf(w, " to %s %s", r.Method, r.URL.RequestURI())
}

// count is how many requests have come to the server behind.
func (f *front) count() int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return len(f.asked)
}

// came is the last of them.
func (f *front) came() *http.Request {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.asked[len(f.asked)-1]
}

// as asks as a client with some certificates, with a connection of its own.
func (f *front) as(certificates []tls.Certificate, method, path string, headers ...string) (status int, body string, err error) {
	t := &http.Transport{DisableKeepAlives: true, DisableCompression: true, TLSClientConfig: &tls.Config{RootCAs: f.authority.pool(), Certificates: certificates, MinVersion: tls.VersionTLS12}}
	defer t.CloseIdleConnections()
	r, err := http.NewRequestWithContext(f.Context(), method, "https://localhost:8140"+path, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "Puppet/7.23.0 Ruby/3.1.2-p20")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := (&http.Client{Transport: t, Timeout: time.Minute}).Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

// get asks as the agent, and wants an answer.
func (f *front) get(path string, headers ...string) string {
	f.Helper()
	status, body, err := f.as([]tls.Certificate{f.agent}, http.MethodGet, path, headers...)
	if err != nil || status != http.StatusOK {
		f.Errorf("%s: %d %q, %v", path, status, body, err)
	}
	return body
}

// probe asks for all that may go wrong. reload has the front end read its files anew.
func (f *front) probe(reload func()) {
	f.Helper()
	product.Eventually(f, "the front end answers", func() bool {
		status, _, err := f.as([]tls.Certificate{f.agent}, http.MethodGet, "/puppet/v3/node/agent.test")
		return err == nil && status == http.StatusOK
	})
	const file = "/puppet/v3/file_metadata/modules/ntp/ntp.conf?links=manage&checksum_type=sha256&environment="
	first := f.get(file + "production")
	kept := func(what, path string, headers ...string) {
		f.Helper()
		one := f.get(path, headers...)
		before := f.count()
		if two := f.get(path, headers...); two != one || f.count() != before {
			f.Errorf("%s is not kept: %q, then %q", what, one, two)
		}
	}
	fresh := func(what, method, path string, headers ...string) {
		f.Helper()
		for range 2 {
			before := f.count()
			if _, body, err := f.as([]tls.Certificate{f.agent}, method, path, headers...); err != nil || f.count() != before+1 {
				f.Errorf("%s is kept: %q, %v", what, body, err)
			}
		}
	}
	if second := f.get(file + "production"); second != first {
		f.Errorf("what was asked for before is not kept: %q, %q", first, second)
	}
	if got := f.came(); got.Header.Get("Accept-Encoding") != "" {
		f.Errorf("what is kept may be compressed: %q", got.Header)
	}
	// Neither another version of Puppet nor compression makes another entry; another
	// environment, checksum or form does.
	before := f.count()
	if got := f.get(file+"production", "User-Agent", "Puppet/8.1.0 Ruby/3.2", "Accept-Encoding", "gzip"); got != first || f.count() != before {
		f.Errorf("another agent's answer is %q, want %q", got, first)
	}
	for _, other := range []string{file + "testing", strings.Replace(file, "sha256", "md5", 1) + "production"} {
		if got := f.get(other); got == first || !strings.Contains(got, other) {
			f.Errorf("%s is answered by %q", other, got)
		}
	}
	if got := f.get(file+"production", "Accept", "application/x-msgpack"); got == first {
		f.Errorf("another form has the same answer %q", got)
	}
	kept("the list of plugins", "/puppet/v3/file_metadatas/plugins?environment=production&recurse=true")
	kept("a directory", "/puppet/v3/file_metadatas/modules/ntp/conf.d?environment=production")
	kept("a version of a file", "/puppet/v3/static_file_content/modules/ntp/files/ntp.conf?code_id=abc&environment=production")
	fresh("a node", http.MethodGet, "/puppet/v3/node/agent.test?environment=production")
	fresh("a catalog", http.MethodPost, "/puppet/v3/catalog/agent.test?environment=production")
	fresh("a report", http.MethodPut, "/puppet/v3/report/agent.test?environment=production")
	fresh("another mount", http.MethodGet, "/puppet/v3/file_metadata/private/secret?environment=production")
	fresh("a file", http.MethodGet, "/puppet/v3/file_content/modules/ntp/ntp.conf?environment=production")
	fresh("what is not there", http.MethodGet, "/puppet/v3/file_metadata/modules/ntp/missing?environment=production")
	fresh("metadata that is posted", http.MethodPost, "/puppet/v3/file_metadata/modules/ntp/posted?environment=production")

	// Without a certificate nothing that is kept is given out, whatever the headers say.
	forged := []string{"X-Client-Verify", "SUCCESS", "X-Client-DN", "CN=agent.test", "X-Client-Cert", "forged"}
	for _, path := range []string{file + "production", "/puppet/v3/file_metadatas/plugins?environment=production&recurse=true", "/puppet/v3/static_file_content/modules/ntp/files/ntp.conf?code_id=abc&environment=production"} {
		for _, headers := range [][]string{nil, forged} {
			before := f.count()
			if status, body, err := f.as(nil, http.MethodGet, path, headers...); err != nil || status != http.StatusForbidden || f.count() != before {
				f.Errorf("without a certificate %s is answered %d %q, %v", path, status, body, err)
			}
		}
	}
	// And who the client is does not depend on what it says.
	if status, _, err := f.as(nil, http.MethodPost, "/puppet/v3/catalog/agent.test", forged...); err != nil || status != http.StatusOK {
		f.Errorf("%d, %v", status, err)
	}
	if h := f.came().Header; h.Get("X-Client-Verify") != "NONE" || h.Get("X-Client-DN") != "" || h.Get("X-Client-Cert") != "" {
		f.Errorf("the headers of a client without a certificate come as %q", h)
	}
	for _, path := range []string{"/puppet/v3/catalog/agent.test", "/puppet/v3/file_metadata/modules/ntp/new?environment=production"} {
		f.get(path, forged...)
		h := f.came().Header
		text, err := url.PathUnescape(h.Get("X-Client-Cert"))
		if h.Get("X-Client-Verify") != "SUCCESS" || h.Get("X-Client-DN") != "CN=agent.test" || len(h.Values("X-Client-DN")) != 1 || err != nil {
			f.Errorf("%s: the headers come as %q", path, h)
		}
		block, _ := pem.Decode([]byte(text))
		if block == nil {
			f.Errorf("%s: no certificate comes: %q", path, text)
		} else if c, err := x509.ParseCertificate(block.Bytes); err != nil || !c.Equal(f.agent.Leaf) {
			f.Errorf("%s: another certificate comes: %v", path, err)
		}
	}

	// Neither a certificate of another authority counts, nor one that was revoked.
	stranger := newAuthority(f.T).node("agent.test")
	if status, body, err := f.as([]tls.Certificate{stranger}, http.MethodGet, file+"production"); err == nil && status == http.StatusOK {
		f.Errorf("a stranger gets %q", body)
	}
	if status, _, err := f.as([]tls.Certificate{f.gone}, http.MethodGet, file+"production"); err != nil || status != http.StatusOK {
		f.Errorf("%d, %v", status, err)
	}
	f.authority.revoke(f.gone)
	reload()
	product.Eventually(f, "a certificate that was revoked is refused", func() bool {
		status, _, err := f.as([]tls.Certificate{f.gone}, http.MethodGet, file+"production")
		return err != nil || status != http.StatusOK
	})
	if got := f.get(file + "production"); got != first {
		f.Errorf("after the reload %q, want %q", got, first)
	}
	// Emptied, the cache asks again.
	s := debian()
	s.Apache = "2.4.71"
	purge, err := asked(f.T, plugins(), s, "front-end", map[bool]string{true: "nginx", false: "apache"}[strings.Contains(f.text, "proxy_cache_path")])
	if err != nil {
		f.Fatal(err)
	}
	machine.Write(f, "/", map[string]string{PurgeScript: purge.Artefact(PurgeScript).Content})
	product.Command(f, "/"+PurgeScript)
	if got := f.get(file + "production"); got == first {
		f.Errorf("after it was emptied the cache has %q", got)
	}
}

// logged wants words in the front end's log.
func (f *front) logged(name string, want ...string) {
	f.Helper()
	product.Eventually(f, fmt.Sprintf("%s has %q", name, want), func() bool {
		text := product.Read(f, name)
		for _, w := range want {
			if !strings.Contains(text, w) {
				return false
			}
		}
		return true
	})
}
