package frontend

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/component/producttest"
	"fettle.dev/fettle/internal/host/hosttest"
	"fettle.dev/fettle/internal/sizing/sizingtest"
	"fettle.dev/fettle/internal/testroot"
)

// What is written is taken by the servers themselves, and httpd runs with it.
func TestServersTakeIt(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	if !testroot.Inside(t, testroot.Options{Servers: true}) {
		return
	}
	f := sizingtest.Figures(t)
	httpd := NewHTTPD()
	httpd.Requests = log(func(l *Requests) { l.Most = 300 })
	r := sizingtest.Sized(t, f, httpd, "for", "debian", "threads", "100")
	hosttest.Write(t, "/", map[string]string{DebianFile: r.Artefact(DebianFile).Content})
	producttest.Command(t, "a2enconf", "-q", "zz-limits")
	if said := producttest.Command(t, "apache2ctl", "-t"); !strings.Contains(said, "Syntax OK") || strings.Contains(said, "exceeds") {
		t.Error(said)
	}
	producttest.Command(t, "apache2ctl", "start")
	t.Cleanup(func() { producttest.Command(t, "apache2ctl", "stop") })
	var board string
	producttest.Eventually(t, "httpd serves", func() bool {
		var found bool
		_, board, found = strings.Cut(producttest.Command(t, "sh", "-c", "curl -sS --max-time 20 'http://127.0.0.1/server-status?auto' || true"), "Scoreboard: ")
		return found
	})
	if got := len(strings.TrimSpace(board)); got != 600 {
		t.Errorf("httpd has %d places, want 6 x 100", got)
	}

	router := NewRouter()
	router.Requests = log(nil)
	r = sizingtest.Sized(t, f, router, "for", "haproxy", "cpus", "2", "ram", "4GiB")
	hosttest.Write(t, "/", map[string]string{"/etc/haproxy/limits.cfg": r.Artefact(HAProxyFile).Content + "listen x\n    bind 127.0.0.1:8080\n    mode http\n    server a 127.0.0.1:8081\n"})
	if said := producttest.Command(t, "haproxy", "-c", "-f", "/etc/haproxy/limits.cfg"); strings.Contains(said, "WARNING") || !strings.Contains(said, "valid") {
		t.Error(said)
	}
}
