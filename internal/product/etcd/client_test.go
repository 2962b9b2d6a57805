package etcd

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/root"
)

const soon = time.Minute

// TestNew: what is not an address of a member, or no certificate, is refused before any request
// asked; a password is not repeated.
func TestNew(t *testing.T) {
	for address, want := range map[string]string{
		"https://10.0.0.1:2379": "", "http://[::1]:2379/": "", "http://a": "",
		"10.0.0.1:2379": "not a member address", "ftp://a:1": "not a member address", "https://:2379": "not a member address", "": "not a member address",
		"https://a:1/v3": "want only scheme, host and port", "https://a:1?x": "want only scheme, host and port", "https://a:1#x": "want only scheme, host and port", "https://u:secret@a:1": "want only scheme, host and port",
	} {
		c, err := New(address, Access{}, nil)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%q: %v, want %q", address, err, want)
		}
		if err == nil && c.URL != strings.TrimSuffix(address, "/") {
			t.Errorf("%q is %s", address, c.URL)
		}
	}
	for want, a := range map[string]Access{"want both a client certificate and its key": {Key: []byte("x")}, "no certificate in PEM": {CA: []byte("x")}, "the certificate: ": {Cert: []byte("x"), Key: []byte("y")}} {
		if _, err := New("https://a:1", a, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if _, err := New("http://a:1", a, nil); err != nil {
			t.Errorf("by http: %v", err)
		}
	}
}

// TestAnswers: an answer is whole or an error, and one that is no success says so in the
// gateway's words.
func TestAnswers(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large":
			_, _ = w.Write(make([]byte, maxAnswer+1))
		case "/most":
			_, _ = w.Write(make([]byte, maxAnswer))
		case "/asked":
			if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
				w.WriteHeader(http.StatusBadRequest)
			}
		case "/refused":
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"error":"etcdserver: no leader","message":"etcdserver: no leader","code":14}`))
		case "/sent":
			http.Redirect(w, r, "/most", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	defer s.Close()
	c, err := New(s.URL, Access{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if text, err := c.Get(t.Context(), "/most", soon); err != nil || len(text) != maxAnswer {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if _, err := c.Call(t.Context(), "/asked", struct{}{}, soon); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]string{
		"/large":   "the answer of " + s.URL + "/large is larger than 16 MiB",
		"/refused": s.URL + "/refused answers 503 Service Unavailable: etcdserver: no leader",
		"/gone":    s.URL + "/gone answers 404 Not Found: etcd's JSON gateway is off (--enable-grpc-gateway), or etcd is older than 3.4",
		"/sent":    "cannot query " + s.URL + ": the server redirects, so it is not an etcd member; check the address",
	} {
		text, err := c.Call(t.Context(), path, struct{}{}, soon)
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if status := (*StatusError)(nil); errors.As(err, &status) != (len(text) > 0) {
			t.Errorf("%s: %q", path, text)
		}
	}
	if text, err := c.Get(t.Context(), "/refused", soon); err == nil || err.Error() != s.URL+"/refused answers 503 Service Unavailable" || !strings.Contains(string(text), "no leader") {
		t.Errorf("%v %s", err, text)
	}
}

// TestUnreached: each reason for which there is no answer is told apart, with what to do.
func TestUnreached(t *testing.T) {
	serve := func(how func(*httptest.Server), h http.Handler) *httptest.Server {
		s := httptest.NewUnstartedServer(h)
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		how(s)
		t.Cleanup(s.Close)
		return s
	}
	start, startTLS := (*httptest.Server).Start, (*httptest.Server).StartTLS
	hang := make(chan struct{})
	defer close(hang)
	late := serve(start, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-hang:
		}
	}))
	plain, unknown := serve(start, http.NotFoundHandler()), serve(startTLS, http.NotFoundHandler())
	closed := serve(func(s *httptest.Server) {
		s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
		s.StartTLS()
	}, http.NotFoundHandler())
	known := Access{CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: closed.Certificate().Raw})}
	gone := "http://" + root.Unheard(t)
	hangsUp, err := net.Listen("tcp", "127.0.0.1:0") // as etcd does where it speaks no TLS
	if err != nil {
		t.Fatal(err)
	}
	defer hangsUp.Close()
	go func() {
		for {
			c, err := hangsUp.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1<<14)) // the greeting
			c.Close()
		}
	}()
	advice := Advice{Unheard: "look elsewhere", Untrusted: "name its authority", Stranger: "show a certificate"}
	for _, x := range []struct {
		address string
		access  Access
		wait    time.Duration
		why     Why
		want    string
	}{
		{late.URL, Access{}, 50 * time.Millisecond, Late, "no answer from " + late.URL + " within 50ms"},
		{gone, Access{}, soon, Unheard, "nothing listens at " + gone + ": look elsewhere"},
		{strings.Replace(plain.URL, "http:", "https:", 1), Access{}, soon, Plain, " does not use TLS; use http:// if intended"},
		{unknown.URL, Access{}, soon, Untrusted, "the certificate of " + unknown.URL + " is not trusted: name its authority ("},
		{closed.URL, known, soon, Stranger, closed.URL + " does not accept this client: show a certificate (remote error: tls: "},
		{"https://" + hangsUp.Addr().String(), Access{}, soon, Other, ": EOF; the server may not use TLS: use http:// if intended"},
		{"http://no.such.name.invalid:1", Access{}, soon, Other, "cannot query http://no.such.name.invalid:1: "},
	} {
		c, err := New(x.address, x.access, advice)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Get(t.Context(), "/metrics", x.wait)
		var u *Unreached
		if !errors.As(err, &u) || u.Why != x.why || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %s: %s", x.address, err, x.why, x.want)
		}
		c.Close()
	}
	// Who gives up gets their own reason.
	c, err := New(late.URL, Access{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Get(ctx, "/metrics", soon); !errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*Unreached)) {
		t.Error(err)
	}
}
