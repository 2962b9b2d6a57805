package load

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"software.sslmate.com/src/go-pkcs12"

	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/testkit/root"
)

// pair is a certificate with its key, signed by an authority or by itself.
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

// write writes the certificate and the key to files.
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

// secured is a server that requires a certificate of its authority.
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

// TestCertificates tests a server that requires a client certificate, with one from PEM, from
// PKCS#12 as OpenSSL writes it, and from the ssldir of a Puppet agent.
func TestCertificates(t *testing.T) {
	t.Parallel()
	url, dir, _ := secured(t, false)
	ca, cert, key, container := filepath.Join(dir, "certs/ca.pem"), filepath.Join(dir, "certs/agent1.pem"), filepath.Join(dir, "private_keys/agent1.pem"), filepath.Join(dir, "agent1.p12")
	if out, err := exec.Command("openssl", "pkcs12", "-export", "-in", cert, "-inkey", key, "-certfile", ca, "-out", container, "-passout", "pass:sesame").CombinedOutput(); err != nil {
		root.Missing(t, "openssl: %v: %s", err, out)
	}
	load := func(f engine.Files, secret string) (*tls.Config, error) {
		return engine.Load(f, os.ReadFile, func() (string, error) { return secret, nil })
	}
	for name, f := range map[string]engine.Files{
		"PEM":     {Cert: cert, Key: key, CA: ca},
		"PKCS#12": {PKCS12: container},
		"Puppet":  {PuppetSSLDir: dir, CertName: "agent1"},
	} {
		config, err := load(f, "sesame")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		p := perSecondFor(100, 200*time.Millisecond)
		p.TLS = config
		x := loaded(t.Context(), t, p, engine.Common{}, url)
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
	for want, f := range map[string]engine.Files{
		"wrong passphrase":              {PKCS12: container},
		"not a PKCS#12 file with a key": {PKCS12: ca},
		"with " + wrong:                 {Cert: cert, Key: wrong},
		"the key has a passphrase":      {Cert: cert, Key: locked},
		"contains no PEM certificate":   {CA: wrong},
		"no such file":                  {CA: dir + "/none"},
		"want both --cert and --key":    {Cert: cert},
		"want only one of":              {Cert: cert, Key: key, PKCS12: container},
		"want both --puppet-ssldir":     {PuppetSSLDir: dir},
		"is not a certificate name":     {PuppetSSLDir: dir, CertName: "../agent1"},
		"certs/other.pem: no such f":    {PuppetSSLDir: dir, CertName: "other"},
	} {
		_, err := load(f, "another")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "another") || strings.Contains(err.Error(), "c2VzYW1l") || strings.Contains(err.Error(), string(private)) {
			t.Errorf("%+v: %v, want %q", f, err, want)
		}
	}
	if _, err := load(engine.Files{PKCS12: container}, ""); err == nil || !strings.Contains(err.Error(), "has a passphrase; give it with --pass-file FILE or --pass-env NAME") {
		t.Errorf("no passphrase: %v", err)
	}
	secondURL, secondDir, _ := secured(t, true)
	second, err := load(engine.Files{CA: filepath.Join(secondDir, "certs/ca.pem")}, "")
	if err != nil {
		t.Fatal(err)
	}
	// Without a certificate, and without the authority: found before anything is sent.
	p := perSecondFor(100, 200*time.Millisecond)
	for name, f := range map[string]engine.Files{"no certificate": {CA: ca}, "no authority": {Cert: cert, Key: key}} {
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
				x := loaded(t.Context(), t, p, engine.Common{}, to)
				if x.Word != Silent || len(x.Whole.Failures) != 1 || x.Whole.Failures["tls"].N != 20 || !strings.Contains(x.Whole.Failures["tls"].Example, "certificate") {
					t.Errorf("%s, HTTP/2 %t: %s: %+v", name, http2, x.Text, x.Whole.Failures)
				}
			}
			continue
		}
		if _, err := prepared(t.Context(), t, p, engine.Common{}, url); err == nil || !strings.Contains(err.Error(), "unknown authority") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLegacyContainer tests files written by OpenSSL 1 and Java.
func TestLegacyContainer(t *testing.T) {
	authority := issue(t, "authority", nil)
	own := issue(t, "agent1", authority)
	for name, encoder := range map[string]*pkcs12.Encoder{"modern": pkcs12.Modern, "DES": pkcs12.LegacyDES, "RC2": pkcs12.LegacyRC2} {
		data, err := encoder.Encode(own.key, own.cert, []*x509.Certificate{authority.cert}, "sesame")
		if err != nil {
			t.Fatal(err)
		}
		config, err := engine.Load(engine.Files{PKCS12: "x"}, func(string) ([]byte, error) { return data, nil }, func() (string, error) { return "sesame", nil })
		if err != nil || len(config.Certificates) != 1 || len(config.Certificates[0].Certificate) != 1 || config.RootCAs == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestResumption tests that with one connection per request nearly all TLS sessions are resumed, or
// none.
func TestResumption(t *testing.T) {
	t.Parallel()
	url, dir, _ := secured(t, false)
	config, err := engine.Load(engine.Files{PuppetSSLDir: dir, CertName: "agent1"}, os.ReadFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := Plan{For: time.Second, Connections: 1, TLS: config, Close: true}
	for _, on := range []bool{true, false} {
		p.Resume = on
		x := loaded(t.Context(), t, p, engine.Common{}, url)
		if x.TLS == nil || x.TLS.Handshakes < 2 || x.TLS.Resume != on || on && x.TLS.Resumed != x.TLS.Handshakes-1 || !on && x.TLS.Resumed != 0 {
			t.Errorf("resume %t: %+v", on, x.TLS)
		}
	}
}
