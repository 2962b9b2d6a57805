package cli

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// hello is a server in this process that answers at once.
func hello(t *testing.T) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(s.Close)
	return s.URL + "/"
}

// TestWorkerIsStopped: what was measured until a worker is stopped where it runs is kept,
// and the load has failed with the worker's name.
func TestWorkerIsStopped(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	state, worker := filepath.Join(t.TempDir(), "state"), filepath.Join(binDir(t), "fettle")+" load worker"
	for name, how := range map[string][]string{
		"load":   {"--rate", "20/s", "--for", "5s", "-o", "json"},
		"search": {"--find-knee", "--rate", "5/s", "--for", "5s", "--expect", "errors < 1%"},
	} {
		out, x := loadHTTP(t, state, 1, append(how, "--client-command", worker, "--client-command", "timeout 3 "+worker, hello(t))...)
		if !strings.Contains(out, "the load ended early: client command 2 was stopped where it runs") || strings.Contains(out, "panic") {
			t.Errorf("%s: %s", name, out)
		}
		if name == "load" && (x == nil || x.Cut == nil || x.Whole.Starts < 10 || !x.Generator.Clients[1].EndedEarly || x.Generator.Clients[0].EndedEarly) {
			t.Errorf("%s: %+v", name, x)
		}
	}
}
