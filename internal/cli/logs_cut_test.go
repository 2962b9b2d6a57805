package cli

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// cutGzip writes a log of 2,000 requests that is compressed, and of which the end is lost.
func cutGzip(t *testing.T, path, line string) {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for i := range 2000 {
		fmt.Fprintf(z, line, i/60%60, i%60, i*7919)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes()[:b.Len()*3/4], 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestCutLogs: whoever reads logs of requests takes of one that is damaged what is there,
// says so, and ends with 1.
func TestCutLogs(t *testing.T) {
	dir := t.TempDir()
	log, reports := filepath.Join(dir, "access.log.gz"), filepath.Join(dir, "reports", "node1")
	cutGzip(t, log, "10.0.0.1 - - [20/Nov/2026:10:%02d:%02d +0000] \"GET /puppet/v3/catalog/node1?environment=production&x=%d HTTP/1.1\" 200 1 500000 \"-\" \"x\"\n")
	if err := os.MkdirAll(reports, 0o700); err != nil {
		t.Fatal(err)
	}
	report := "--- !ruby/object:Puppet::Transaction::Report\nhost: node1\ntime: '2026-11-20T10:00:00.000000000Z'\nstatus: unchanged\nreport_format: 12\nmetrics: {}\nresource_statuses: {}\n"
	if err := os.WriteFile(filepath.Join(reports, "202611201000.yaml"), []byte(report), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"logs " + log, "requests"},
		{"logs puppet-reports " + filepath.Dir(reports) + " --access-log " + log, "1 run of 1 node"},
		{"size httpd --for debian --mpm event --threads 25 --log " + log, "MaxRequestWorkers"},
	} {
		for _, form := range []string{"", " --output json"} {
			out, said, code := mainWith(t, t.TempDir(), strings.Fields(c.args+form)...)
			if code != 1 || !strings.Contains(said, log) || !strings.Contains(said, "it is truncated") {
				t.Errorf("%s: exit code %d, said %q", c.args+form, code, said)
			}
			want := []string{c.want, "could not be read to its end"}
			if form != "" {
				want = []string{"it is truncated", `"exit_code": 1`}
			}
			for _, text := range want {
				if !strings.Contains(out, text) {
					t.Errorf("%s: no %q in\n%s", c.args+form, text, out)
				}
			}
		}
	}
}
