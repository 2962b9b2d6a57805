package cli

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// jsonLog writes a log of 60 requests, each with the members.
func jsonLog(t *testing.T, members string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "app.log")
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintf(&b, `{"time":"2026-11-20T10:00:%02dZ","method":"GET","path":"/a","status":200,%s}`+"\n", i, members)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// report is what is asked of the JSON of fettle logs.
type logsReport struct {
	Requests uint64 `json:"requests"`
	Logs     []struct {
		Duration    string `json:"duration"`
		UnitUnknown string `json:"unit_unknown"`
		Cut         string `json:"cut"`
		ZeroBytes   int64  `json:"zero_bytes"`
	} `json:"logs"`
	Copies []struct{ Path, Why string } `json:"copies"`
	Unread struct{ Lines uint64 }       `json:"unread"`
}

func readReport(t *testing.T, args ...string) (r logsReport) {
	t.Helper()
	out, talk, code := mainWith(t, t.TempDir(), append([]string{"logs", "--output", "json"}, args...)...)
	if code != 0 {
		t.Fatalf("%v: exit %d: %s%s", args, code, out, talk)
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestLogsUnitUnknown: no verb assumes the unit of a duration that has none, none of them
// ends otherwise than it should, and what they name makes them work.
func TestLogsUnitUnknown(t *testing.T) {
	for _, members := range []string{`"duration":0.5`, `"duration":7`, `"DURATION":1e-3`, `"latency":"12"`, `"duration":5,"Duration":7`} {
		log := jsonLog(t, members)
		r := readReport(t, log)
		if r.Requests != 60 || len(r.Logs) != 1 || r.Logs[0].Duration != "" || r.Logs[0].UnitUnknown == "" {
			t.Fatalf("%s: %+v", members, r)
		}
		member := r.Logs[0].UnitUnknown
		if r := readReport(t, log, "--duration", member, "--unit", "ms"); r.Logs[0].Duration != member || r.Logs[0].UnitUnknown != "" {
			t.Errorf("%s: with --duration: %+v", members, r)
		}
		for _, args := range [][]string{{"logs", "compare", log, log}, {"load", "http", "--replay", log, "http://127.0.0.1:1/", "--dry-run"}} {
			if out, talk, code := mainWith(t, t.TempDir(), args...); code == 2 && strings.Contains(out+talk, "panic") {
				t.Errorf("%v: exit %d: %s%s", args, code, out, talk)
			}
		}
		for _, what := range []string{"httpd", "router"} {
			if out, talk, code := mainWith(t, t.TempDir(), "size", what, "--log", log); code != 2 || !strings.Contains(out+talk, "--unit") {
				t.Errorf("size %s: %s: exit %d, want 2: %s%s", what, members, code, out, talk)
			}
			if out, talk, code := mainWith(t, t.TempDir(), "size", what, "--log", log, "--unit", "ms"); code != 0 && code != 1 || strings.Contains(out+talk, "--unit ms (or") {
				t.Errorf("size %s --unit ms: %s: exit %d: %s%s", what, members, code, out, talk)
			}
		}
	}
}

// TestLogsCopies: what is a copy does not count, and the data say so.
func TestLogsCopies(t *testing.T) {
	text, err := os.ReadFile(jsonLog(t, `"duration_ms":5`))
	if err != nil {
		t.Fatal(err)
	}
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err := w.Write(text); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{"app.log.1": text, "app.log.1.gz": z.Bytes(), "app.log": bytes.ReplaceAll(text, []byte("T10:"), []byte("T11:")), "app.log~": text, "app.log.swp": []byte("b0VIM")} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if r := readReport(t, dir); r.Requests != 120 || len(r.Copies) != 3 {
		t.Errorf("%+v", r)
	}
}

// TestLogsPadded: zero bytes behind a compressed log, and before a plain one, take nothing of it.
func TestLogsPadded(t *testing.T) {
	text, err := os.ReadFile(jsonLog(t, `"duration_ms":5`))
	if err != nil {
		t.Fatal(err)
	}
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err := w.Write(text); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 100_000)
	for name, data := range map[string][]byte{"padded.gz": append(z.Bytes(), zeros...), "truncated.log": append(zeros, text...)} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if r := readReport(t, path); r.Requests != 60 || r.Logs[0].Cut != "" || r.Logs[0].ZeroBytes != int64(len(zeros)) || r.Unread.Lines != 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
