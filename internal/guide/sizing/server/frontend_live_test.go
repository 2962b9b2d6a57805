package server

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/product"
	"fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/internal/testkit/sizing"
)

// What is written is taken by the servers themselves, and httpd runs with it.
func TestServersTakeIt(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	f := sizing.Figures(t)
	httpd := NewHTTPD()
	httpd.Traffic = log(func(l *Traffic) { l.Most = 300 })
	r := sizing.Sized(t, f, httpd, "for", "debian", "threads", "100")
	machine.Write(t, "/", map[string]string{DebianFile: r.Artefact(DebianFile).Content})
	product.Command(t, "a2enconf", "-q", "zz-limits")
	if said := product.Command(t, "apache2ctl", "-t"); !strings.Contains(said, "Syntax OK") || strings.Contains(said, "exceeds") {
		t.Error(said)
	}
	product.Command(t, "apache2ctl", "start")
	t.Cleanup(func() { product.Command(t, "apache2ctl", "stop") })
	var board string
	product.Eventually(t, "httpd serves", func() bool {
		var found bool
		_, board, found = strings.Cut(product.Command(t, "sh", "-c", "curl -sS --max-time 20 'http://127.0.0.1/server-status?auto' || true"), "Scoreboard: ")
		return found
	})
	if got := len(strings.TrimSpace(board)); got != 600 {
		t.Errorf("httpd has %d places, want 6 x 100", got)
	}

	router := NewRouter()
	router.Traffic = log(nil)
	r = sizing.Sized(t, f, router, "for", "haproxy", "cpus", "2", "ram", "4GiB")
	machine.Write(t, "/", map[string]string{"/etc/haproxy/limits.cfg": r.Artefact(HAProxyFile).Content + "listen x\n    bind 127.0.0.1:8080\n    mode http\n    server a 127.0.0.1:8081\n"})
	if said := product.Command(t, "haproxy", "-c", "-f", "/etc/haproxy/limits.cfg"); strings.Contains(said, "WARNING") || !strings.Contains(said, "valid") {
		t.Error(said)
	}
}
