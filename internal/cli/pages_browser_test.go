package cli

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/browser"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// accessLog is a log of two hours, in which everything becomes slower for a while, with lines
// that would break out of a page that lets them.
func accessLog(slower int) string {
	var b strings.Builder
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	paths := []string{"/puppet/v3/catalog/web", "/api/v2/hosts", `/<script>alert(1)</script>`, "/" + strings.Repeat("segment-without-a-blank", 12)}
	for i := range 3000 {
		at = at.Add(2400 * time.Millisecond)
		took, status := 2000+i*7919%100_000, 200
		if i > 1500 && i < 1800 {
			took *= 20
			status = []int{200, 500, 503}[i%3]
		}
		if i%40 == 0 {
			status = 404
		}
		fmt.Fprintf(&b, "10.0.0.%d - - [%s] \"GET %s HTTP/1.1\" %d 512 \"-\" \"curl\" %d\n", i%20, at.Format("02/Jan/2006:15:04:05 -0700"), paths[i*31%len(paths)], status, took*slower)
	}
	return b.String() + "</style><img src=http://evil.example/x onerror=alert(2)>\n"
}

// pages are the calls whose pages are looked at; the names are those of the screenshots.
func pages(t *testing.T, dir string) map[string][]string {
	t.Helper()
	for name, slower := range map[string]int{"before.log": 1, "after.log": 2} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(accessLog(slower)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }))
	t.Cleanup(server.Close)
	proofs := "../../docs/proofs/"
	before, after := filepath.Join(dir, "before.log"), filepath.Join(dir, "after.log")
	const logFormat = `apache:%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" %D`
	host := "../../testdata/hosts/satellite-612-overloaded.txt"
	return map[string][]string{
		"logs":         {"logs", before, "--format", logFormat, "--by", "path", "--by", "requestor"},
		"trend":        {"runs", "trend", "../../examples/trend/commits.txt"},
		"logs-compare": {"logs", "compare", before, after, "--format", logFormat},
		"check":        {"check", "--root", host},
		"facts":        {"facts", "--root", host},
		"diff":         {"diff", "throughput-performance", "--root", host},
		"size":         {"size", "satellite", "--hosts", "5000", "--ram", "64GiB", "--cpus", "16", "--capsule", "cap1,hosts=2000"},
		"proof":        {"runs", "show", proofs + "thp.json"},
		"proof-open":   {"runs", "show", proofs + "puma-3-workers.json"},
		"several":      {"runs", "show", proofs + "thp.json", proofs + "read-ahead.json", proofs + "puma-1-worker.json"},
		"compare-runs": {"runs", "compare", proofs + "puma-1-worker.json", proofs + "puma-3-workers.json"},
		"bench":        {"bench", "memory", "--size", "64MiB", "--rounds", "3", "--reads", "30000", "--no-reserve"},
		"load":         {"load", "http", server.URL, "--for", "1s", "--rate", "100/s"},
		"runs":         {"runs", "list"},
	}
}

// TestPages looks at the page of each verb in a browser, wide and narrow, light and dark: it
// fits the screen, needs no network, axe-core finds nothing, and tables sort by keyboard.
func TestPages(t *testing.T) {
	testkitroot.Real(t, "starts a browser")
	dir := t.TempDir()
	all := pages(t, dir)
	for name, args := range all {
		var out, said bytes.Buffer
		c := exec.CommandContext(t.Context(), filepath.Join(binDir(t), "fettle"), append(args, "--output", "html", "--state-dir", filepath.Join(dir, "state"))...)
		c.Stdout, c.Stderr = &out, &said
		if err := c.Run(); err != nil {
			t.Errorf("%s: %v: %s", name, err, &said)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".html"), out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	browser.LookAt(t, dir, slices.Sorted(maps.Keys(all)))
}
