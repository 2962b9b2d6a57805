package logs

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/root"
)

// written is one request, which each server writes in its own format.
type written struct {
	at           time.Time
	path, client string
	status       int
	ms           int
	id           string
}

// writers are the formats of servers, each with its grouping here, and the group and the duration
// in microseconds that awk calculates.
var writers = []struct {
	name, detected string
	line           func(w written) string
	by, key, took  string
	before         string // awk's BEGIN and what comes before the count
}{
	{"puppet-apache", "Apache with %D, Puppet URLs", func(w written) string {
		return fmt.Sprintf(`%s - - [%s] "GET %s HTTP/1.1" %d 5 %d "-" "-"`, w.client, clfTime(w), w.path, w.status, w.ms*1000)
	}, "path", "$7", "$11", ""},
	{"combined", "Apache's LogFormat", func(w written) string {
		return fmt.Sprintf(`%s - - [%s] "GET %s HTTP/1.1" %d 5 "-" "curl/7 (x86_64; \"q\")" %d`, w.client, clfTime(w), w.path, w.status, w.ms*1000)
	}, "path", "$7", "$NF", ""},
	{"vhost_combined", "Apache's LogFormat", func(w written) string {
		return fmt.Sprintf(`www.example.com:443 %s - - [%s] "GET %s HTTP/1.1" %d 5 "-" "curl" %d`, w.client, clfTime(w), w.path, w.status, w.ms*1000)
	}, "path", "$8", "$NF", ""},
	{"nginx", "nginx' combined log followed by further fields", func(w written) string {
		return fmt.Sprintf(`%s - - [%s] "GET %s HTTP/1.1" %d 5 "-" "curl" %d.%03d`, w.client, clfTime(w), w.path, w.status, w.ms/1000, w.ms%1000)
	}, "path", "$7", "$NF * 1000000", ""},
	{"haproxy", "HAProxy's HTTP log", func(w written) string {
		return fmt.Sprintf(`%s lb haproxy[1]: %s:40000 [%s.000] web app/s1 1/2/3/4/%d %d 5 - - ---- 1/1/0/0/0 0/0 "GET %s HTTP/1.1"`, w.at.Format(time.Stamp), w.client, w.at.Format("02/Jan/2006:15:04:05"), w.ms, w.status, w.path)
	}, "path", "$(NF-1)", "t[5] * 1000", `{ split($10, t, "/") }`},
	{"haproxy-clf", "HAProxy's HTTP log in CLF", func(w written) string {
		return fmt.Sprintf(`%s - - [%s] "GET %s HTTP/1.1" %d 5 "" "" 40000 025 "web" "app" "s1" 1 2 3 4 %d ---- 1 1 0 0 0 0 0 "" "" "" ""`, w.client, clfTime(w), w.path, w.status, w.ms)
	}, "path", "$7", "$22 * 1000", ""},
	{"puppetserver", "Puppet Server's access log", func(w written) string {
		return fmt.Sprintf(`%s - - [%s] "GET %s HTTP/1.1" %d 5 "-" "Puppet/7" %d - -`, w.client, clfTime(w), w.path, w.status, w.ms)
	}, "path", "$7", "$13 * 1000", ""},
	{"JSON", "JSON lines", func(w written) string {
		return fmt.Sprintf(`{"time_iso8601":"%s","remote_addr":"%s","request_uri":"%s","status":%d,"request_time":%d.%03d}`, w.at.Format(time.RFC3339), w.client, w.path, w.status, w.ms/1000, w.ms%1000)
	}, "path", "path", "took * 1000000", `{ path = $0; sub(/.*"request_uri":"/, "", path); sub(/".*/, "", path); took = $0; sub(/.*"request_time":/, "", took); sub(/}.*/, "", took) }`},
	{"foreman", "Foreman's production.log", func(w written) string {
		begin, end := w.at.Format("2006-01-02T15:04:05"), w.at.Add(time.Duration(w.ms)*time.Millisecond).Format("2006-01-02T15:04:05")
		return fmt.Sprintf("%s [I|app|%s] Started GET \"%s\" for %s at x\n%s [I|app|%s] Processing by A#%s as JSON\n%s [I|app|%s] Completed %d X in %dms (ActiveRecord: 1.0ms)",
			begin, w.id, w.path, w.client, begin, w.id, strings.TrimPrefix(w.path, "/"), end, w.id, w.status, w.ms)
	}, "path", "path[id]", "took * 1000", `{ id = $2 } / Started / { path[id] = $5; gsub(/"/, "", path[id]) } !/ Completed / { next } { took = $7; sub(/ms$/, "", took) }`},
	{"puppet-log", "Puppet Server's own log", func(w written) string {
		return fmt.Sprintf(`%s INFO  [qtp1-35] [puppetserver] Puppet Compiled catalog for %s in environment production in %d.%03d seconds`, w.at.Format("2006-01-02T15:04:05.000Z"), strings.TrimPrefix(w.path, "/"), w.ms/1000, w.ms%1000)
	}, "requestor", "$(NF-6)", "$(NF-1) * 1000000", ""},
}

func clfTime(w written) string { return w.at.Format("02/Jan/2006:15:04:05 -0700") }

// TestExact compares counts, sums and extremes of each group, for logs of every format, with those
// of awk, which parses the lines independently.
func TestExact(t *testing.T) {
	awk, err := exec.LookPath("awk")
	if err != nil {
		root.Missing(t, "awk is not installed")
	}
	for _, c := range writers {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, 8))
			at := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
			var b bytes.Buffer
			for i := range 5000 {
				at = at.Add(time.Duration(r.IntN(5)) * time.Second)
				w := written{at: at, path: fmt.Sprintf("/v3/p%d", int(r.ExpFloat64()*20)), client: fmt.Sprintf("10.0.0.%d", r.IntN(200)), status: []int{200, 404, 503}[r.IntN(3)], ms: int(r.ExpFloat64() * 900), id: fmt.Sprintf("%08x", i)}
				b.WriteString(c.line(w) + "\n")
			}
			path := filepath.Join(t.TempDir(), "access.log")
			if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			program := c.before + ` { k = ` + c.key + `; d = ` + c.took + `; n[k]++; s[k] += d; if (!(k in least) || d < least[k]) least[k] = d; if (d > most[k]) most[k] = d }
END { for (k in n) printf "%s %d %.0f %.0f %.0f\n", k, n[k], s[k], least[k], most[k] }`
			command := exec.Command(awk, program, path)
			command.Env = append(os.Environ(), "LC_ALL=C")
			out, err := command.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			res := readLogs(t, Options{By: [][]string{{c.by}}, Workers: 1}, path)
			if res.Logs[0].Format != c.detected {
				t.Errorf("taken for %s (%s)", res.Logs[0].Format, res.Logs[0].Why)
			}
			got := map[string]string{}
			table := res.Tables[0]
			for i := range table.Len() {
				s := table.At(i)
				got[string(table.Text(i))] = fmt.Sprintf("%d %d %d %d", s.Count, s.Sum, s.Min, s.Max)
			}
			for line := range strings.Lines(string(out)) {
				key, want, _ := strings.Cut(strings.TrimSpace(line), " ")
				if got[key] != want {
					t.Errorf("%s is %s, awk finds %s", key, got[key], want)
				}
				delete(got, key)
			}
			if len(got) > 0 {
				t.Errorf("awk has no %v", got)
			}
			if res.Requests != 5000 || res.Unread.Lines != 0 || res.Unended != 0 {
				t.Errorf("%d requests, %d lines not read, %d not ended", res.Requests, res.Unread.Lines, res.Unended)
			}
		})
	}
}

// TestZeros tests a log that was truncated while its server keeps writing: the zero bytes at its
// beginning are skipped, and a line with zero bytes creates no group.
func TestZeros(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	line := "::1 - - [18/Mar/2012:04:02:25 +0000] \"GET /%s HTTP/1.1\" 200 5 \"-\" \"-\" 17\n"
	text := strings.Repeat(fmt.Sprintf(line, "a"), 3) + strings.Repeat("\x00", 5000) + fmt.Sprintf(line, "b") + fmt.Sprintf(line, "c\x00d") + fmt.Sprintf(line, "a")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	res := readLogs(t, Options{By: [][]string{{"path"}, {"path", "status"}}}, path)
	if res.Requests != 5 || res.Unread.Lines != 1 || res.Tables[0].Len() != 2 || res.Tables[1].Len() != 2 || res.Logs[0].ZeroBytes != 5000 {
		t.Errorf("%d requests, %d lines not read, %d and %d groups", res.Requests, res.Unread.Lines, res.Tables[0].Len(), res.Tables[1].Len())
	}
}
