package running

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logs/format"
	"fettle.dev/fettle/internal/prove"
)

// clock is a machine's time that passes while somebody waits, with work done meanwhile.
type clock struct {
	now   time.Time
	waits []time.Duration
	work  func(now time.Time) error
}

func (c *clock) Now() time.Time { return c.now }

func (c *clock) wait(_ context.Context, d time.Duration) error {
	c.now = c.now.Add(d)
	c.waits = append(c.waits, d)
	if c.work != nil {
		return c.work(c.now)
	}
	return nil
}

func write(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(f, text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// Of a log counts what comes in the window, whatever happens to the file.
func TestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	number := regexp.MustCompile(`took (\d+)`)
	for name, x := range map[string]struct {
		grow func(read func())
		want string
	}{
		"lines":   {func(func()) { write(t, path, "took 1\nelse\ntook 2\ntook 6\n") }, "[1 2 6]"},
		"nothing": {func(func()) { write(t, path, "else\n") }, "nothing happened"},
		"half ones": {func(read func()) {
			write(t, path, "took 1\ntoo")
			read()
			write(t, path, "k 25")
			read()
			write(t, path, "6\nto")
		}, "[1 256]"},
		"moved away": {func(read func()) {
			write(t, path, "took 1\n")
			read()
			write(t, path, "took 2\n")
			if err := os.Rename(path, path+".1"); err != nil {
				t.Error(err)
			}
			read()
			write(t, path+".1", "took 3\n")
			write(t, path, "took 4\n")
		}, "[1 2 3 4]"},
		"moved away before": {func(func()) { write(t, path, "took 5\n") }, "[5]"},
		"copied and cut short": {func(read func()) {
			write(t, path, "took 1\n")
			read()
			if err := os.Truncate(path, 0); err != nil {
				t.Error(err)
			}
			write(t, path, "took 2\n")
		}, "[1 2]"},
		"long lines": {func(read func()) {
			write(t, path, "took 7 "+strings.Repeat("x", 3<<20))
			read()
			write(t, path, strings.Repeat("took 9 ", 100)+"\ntook 8\n")
		}, "[8]"}, // one of more than a MiB is none of a request
		"a number that is none": {func(func()) { write(t, path, "took "+strings.Repeat("9", 400)+"\ntook 3\n") }, "[3]"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, p := range []string{path, path + ".1"} {
				if err := os.Remove(p); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
			}
			write(t, path, "took 100\ntook 200\n")
			s := Set{Host: host.Live(), Pattern: number}
			if _, err := s.Metric("logs:" + path + ":max"); err != nil {
				t.Fatal(err)
			}
			l := s.logs[path]
			if err := l.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			if name == "moved away before" {
				if err := os.Rename(path, path+".1"); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.Begin(); err != nil {
				t.Fatal(err)
			}
			read := func() (prove.Measurement, error) { return l.Read(t.Context(), time.Second) }
			x.grow(func() { _, _ = read() })
			_, err := read()
			got := fmt.Sprint(l.choices[0].found)
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, x.want) {
				t.Errorf("%s, want %s", got, x.want)
			}
			// The next window begins where it begins.
			write(t, path, "took 50\n")
			if err := l.Begin(); err != nil {
				t.Fatal(err)
			}
			write(t, path, "took 60\n")
			if _, err := read(); err != nil || fmt.Sprint(l.choices[0].found) != "[60]" {
				t.Errorf("then %v, %v", l.choices[0].found, err)
			}
		})
	}
}

// A log of any format that fettle reads, by lines as the products write them: its
// duration, another one, and only some of its requests.
func TestFormats(t *testing.T) {
	const (
		foreman = `2026-11-21T08:00:01 [I|app|1a2b3c4d] Completed 200 OK in 45ms (Views: 12.3ms | ActiveRecord: 8.1ms | Allocations: 5321)`
		haproxy = `Nov 21 08:00:01 lb haproxy[14389]: 10.0.1.2:33317 [21/Nov/2026:08:00:01.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html HTTP/1.1"`
		puppet  = `127.0.0.1 - - [21/Nov/2026:08:00:01 +0000] "POST /puppet/v3/catalog/node1.example.com?environment=production HTTP/1.1" 200 18446 "-" "Puppet/7.21.0 Ruby/2.7.7-p221 (x86_64-linux)" 2317 12345 -`
		status  = `127.0.0.1 - - [21/Nov/2026:08:00:01 +0000] "GET /status/v1/simple HTTP/1.1" 200 7 "-" "curl/7.88.1" 161 - -`
		nginx   = `10.0.0.7 - - [21/Nov/2026:08:00:01 +0000] "GET / HTTP/1.1" 200 5 "-" "curl" 0.250 0.125`
		custom  = `[21/Nov/2026:08:00:01 +0000] 200 77`
	)
	apache := func(string, []byte) (*format.Format, error) { return format.Parse(`apache:%t %s %{ms}T`) }
	for name, x := range map[string]struct {
		lines  []string
		format func(string, []byte) (*format.Format, error)
		metric string
		want   float64
	}{
		"foreman":           {[]string{foreman}, nil, "p99.9", 0.045},
		"foreman, views":    {[]string{foreman}, nil, "mean(views)", 0.0123},
		"haproxy":           {[]string{haproxy}, nil, "p99.9", 0.109},
		"haproxy, rate":     {[]string{haproxy, haproxy}, nil, "rate", 2},
		"puppet":            {[]string{puppet}, nil, "p99.9", 2.317},
		"puppet, catalogs":  {[]string{status, puppet, status}, nil, `max where indirector == "catalog"`, 2.317},
		"puppet, others":    {[]string{status, puppet, status}, nil, `max where indirector != "catalog" and status < 500`, 0.161},
		"nginx":             {[]string{nginx}, nil, "median", 0.25},
		"nginx, behind":     {[]string{nginx}, nil, "median(upstream_duration)", 0.125},
		"as somebody says":  {[]string{custom}, apache, "max", 0.077},
		"rate of some":      {[]string{status, puppet, status}, nil, `rate where method == "GET"`, 2},
		"one by a duration": {[]string{status, puppet}, nil, `max where duration < "1s"`, 0.161},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			text := strings.Join(x.lines, "\n") + "\n"
			write(t, path, text)
			s := Set{Host: host.Live(), Format: x.format}
			m, err := s.Metric("logs:" + path + ":" + x.metric)
			if err != nil {
				t.Fatal(err)
			}
			l := s.Sources()[0].(*log)
			if err := l.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := l.Begin(); err != nil {
				t.Fatal(err)
			}
			write(t, path, text)
			got, err := l.Read(t.Context(), time.Second)
			if err != nil || got.Values[m.Name] != x.want {
				t.Errorf("%v, %v, want %g", got.Values, err, x.want)
			}
		})
	}
	for name, x := range map[string]struct {
		text, metric string
		set          Set
		want         string
	}{
		"of nothing known":  {"something else", "p99", Set{}, "--pattern REGEXP"},
		"by a pattern":      {"something else", "p99", Set{Pattern: regexp.MustCompile(`x(\d)`)}, "no line of its last 256 KiB is like x("},
		"not so":            {"something else", "p99", Set{Format: apache}, "no line of its last 256 KiB is of Apache"},
		"no such field":     {puppet, "p99(views)", Set{}, "views is no duration of Puppet Server's access log; it has duration"},
		"not a duration":    {puppet, "p99(status)", Set{}, "status is no duration"},
		"no duration":       {`10.0.0.7 - - [21/Nov/2026:08:00:01 +0000] "GET / HTTP/1.1" 200 5 "-" "curl"`, "p99", Set{}, "does not say how long requests took"},
		"no such dimension": {puppet, `p99 where statsu > 400`, Set{}, `where "statsu > 400": at column 1 (statsu)`},
	} {
		path := filepath.Join(t.TempDir(), "log")
		write(t, path, x.text+"\n")
		x.set.Host = host.Live()
		if _, err := x.set.Metric("logs:" + path + ":" + x.metric); err != nil {
			t.Fatal(err)
		}
		if err := x.set.Sources()[0].Check(t.Context()); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %q", name, err, x.want)
		}
	}
}

// A request of several lines that begins in one window and ends in the next has all of
// them.
func TestJoined(t *testing.T) {
	path := filepath.Join(t.TempDir(), "production.log")
	begin := func(id, controller string) string {
		return "2026-11-21T08:00:00 [I|app|" + id + "] Started GET \"/hosts\" for 10.0.0.1 at 2026-11-21 08:00:00 +0000\n2026-11-21T08:00:00 [I|app|" + id + "] Processing by " + controller + "#index as JSON\n"
	}
	end := func(id string, ms int) string {
		return fmt.Sprintf("2026-11-21T08:00:01 [I|app|%s] Completed 200 OK in %dms (Views: 1ms)\n", id, ms)
	}
	write(t, path, begin("1", "A")+end("1", 5))
	s := Set{Host: host.Live()}
	if _, err := s.Metric("logs:" + path + `:max where controller == "HostsController"`); err != nil {
		t.Fatal(err)
	}
	l := s.Sources()[0].(*log)
	if err := l.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Begin(); err != nil {
		t.Fatal(err)
	}
	write(t, path, begin("2", "HostsController")+end("2", 10)+begin("3", "HostsController"))
	if _, err := l.Read(t.Context(), time.Second); err != nil || fmt.Sprint(l.choices[0].found) != "[0.01]" {
		t.Errorf("%v, %v", l.choices[0].found, err)
	}
	write(t, path, begin("4", "HostsController"))
	if err := l.Begin(); err != nil {
		t.Fatal(err)
	}
	write(t, path, end("3", 20)+end("4", 30))
	if _, err := l.Read(t.Context(), time.Second); err != nil || fmt.Sprint(l.choices[0].found) != "[0.02 0.03]" {
		t.Errorf("%v, %v", l.choices[0].found, err)
	}
}

// What is asked for is read, and what is not understood is said.
func TestMetric(t *testing.T) {
	for text, want := range map[string]string{
		"pressure:io":                                         "% false",
		"pressure:io:full":                                    "% false",
		"pressure:cpu":                                        "% false",
		"pressure:cpu:full":                                   "want pressure:cpu",
		"pressure:disk":                                       "want pressure:cpu",
		"logs:/var/log/a:b.log:p95":                           "s false",
		"logs:/var/log/a.log:rate":                            "1/s true",
		"logs:/var/log/a.log:p100":                            "want mean, median",
		"logs:/var/log/a.log":                                 "want logs:FILE:STATISTIC",
		"logs:/var/log/a.log:fast":                            "want mean, median",
		"logs:/var/log/a.log:p99(upstream_duration)":          "s false",
		"logs:/var/log/a.log:rate where status >= 500":        "1/s true",
		`logs:/var/log/a.log:p99(x) where path == "/a:b"`:     "s false",
		"logs:/var/log/a.log:rate(x)":                         "rate is of requests",
		"logs:/var/log/a.log:p99()":                           "want logs:FILE:STATISTIC",
		"prometheus:http://localhost:9090:sum(rate(a:b[5m]))": " false",
		"prometheus:http://[::1]:9090/prom:up":                " false",
		"prometheus:http://localhost:up":                      " false",
		"prometheus:localhost:9090:up":                        "want prometheus:URL",
		"time":                                                "of running work want",
	} {
		s := Set{Host: host.Live(), WindowS: 600}
		m, err := s.Metric(text)
		got := fmt.Sprint(m.Unit, " ", m.More)
		if err != nil {
			got = err.Error()
		} else if m.Name != text || len(s.Sources()) != 1 {
			t.Errorf("%s: %+v, %d sources", text, m, len(s.Sources()))
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	s := Set{Host: host.Live()}
	p99, err := s.Metric("logs:/var/log/a.log:p99")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := s.Covariate("rate", p99); err != nil || m.Name != "logs:/var/log/a.log:rate" || len(s.Sources()) != 1 {
		t.Errorf("%+v, %v: one log is read once", m, err)
	}
	if _, err := s.Covariate("rate", prove.Metric{Name: "pressure:io"}); err == nil {
		t.Error("pressure has a rate of requests")
	}
}

// A Prometheus is asked at the end of the window, and one that has nothing to say is
// found out before anything is changed.
func TestPrometheus(t *testing.T) {
	answer, asked := `{"status":"success","data":{"resultType":"vector","result":[{"value":[1,"0.25"]}]}}`, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Query().Get("query")
		fmt.Fprint(w, answer)
	}))
	defer server.Close()
	s := Set{Host: host.Live(), WindowS: 600}
	text := "prometheus:" + server.URL + ":rate(x[$window])"
	m, err := s.Metric(text)
	if err != nil {
		t.Fatal(err)
	}
	source := s.Sources()[0]
	if err := source.Check(t.Context()); err != nil || asked != "rate(x[600s])" {
		t.Error(asked, err)
	}
	if got, err := source.Read(t.Context(), time.Minute); err != nil || got.Values[m.Name] != 0.25 {
		t.Error(got, err)
	}
	answer = `{"status":"success","data":{"resultType":"vector","result":[]}}`
	if err := source.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "has no number for rate(x[600s])") {
		t.Error(err)
	}
}

// A window lasts its time, a little more or less, after the machine has settled; it
// goes on while nothing happens, ends at once above a cap, and with Ctrl-C.
func TestWindow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	write(t, path, "took 1\n")
	var c clock
	window := func(work func(now time.Time) error) *Window {
		c = clock{now: time.Unix(1e9, 0), work: work}
		s := Set{Host: host.Live(), Pattern: regexp.MustCompile(`took (\d+)`)}
		if _, err := s.Metric("logs:" + path + ":max"); err != nil {
			t.Fatal(err)
		}
		d := prove.Design{Caps: []prove.Cap{{Metric: prove.Metric{Name: "logs:" + path + ":max"}, Most: 50}}}
		return &Window{Length: 10 * time.Minute, Settle: 2 * time.Minute, Sources: s.Sources(), Seed: 3, Exceeded: d.Exceeded, Clock: &c, Wait: c.wait}
	}
	steady := func(time.Time) error { write(t, path, "took 3\n"); return nil }
	lengths := map[time.Duration]bool{}
	for place := range 4 {
		w := window(steady)
		if _, err := w.Visit(t.Context(), prove.Step{Phase: prove.Quads, Place: place, Switch: place%2 == 0}); err != nil {
			t.Fatal(err)
		}
		lasted := c.now.Sub(time.Unix(1e9, 0))
		if place%2 == 0 {
			if c.waits[0] != 2*time.Minute {
				t.Errorf("after a switch it waited for %v", c.waits[0])
			}
			lasted -= 2 * time.Minute
		}
		if lasted < 9*time.Minute || lasted > 11*time.Minute+time.Second {
			t.Errorf("a window of %v", lasted)
		}
		lengths[lasted] = true
	}
	if len(lengths) != 4 {
		t.Errorf("windows of %v", lengths)
	}
	quiet := 0
	w := window(func(time.Time) error {
		if quiet++; quiet > 15 {
			write(t, path, "took 4\n")
		}
		return nil
	})
	if m, err := w.Visit(t.Context(), prove.Step{}); err != nil || m.Values["logs:"+path+":max"] != 4 || c.now.Sub(time.Unix(1e9, 0)) < 15*time.Minute-time.Second {
		t.Errorf("%v after %v, %v", m.Values, c.now.Sub(time.Unix(1e9, 0)), err)
	}
	w = window(nil)
	if _, err := w.Visit(t.Context(), prove.Step{}); err == nil || !strings.Contains(err.Error(), "nothing happened: no line of a request came into "+path) {
		t.Error(err)
	}
	slow := 0
	w = window(func(time.Time) error {
		slow++
		write(t, path, fmt.Sprintf("took %d\n", 20*slow))
		return nil
	})
	if _, err := w.Visit(t.Context(), prove.Step{}); !errors.As(err, new(*prove.Exceeded)) || slow != 3 {
		t.Errorf("after %d tenths: %v", slow, err)
	}
	w = window(func(time.Time) error { return context.Canceled })
	if _, err := w.Visit(t.Context(), prove.Step{Switch: true}); !errors.Is(err, context.Canceled) || len(c.waits) != 1 {
		t.Error(err)
	}
}

// The kernel's pressure is a share of the window; none of it counts as next to none.
func TestPressure(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "proc/pressure"), 0o755); err != nil {
		t.Fatal(err)
	}
	total := func(us int) {
		text := fmt.Sprintf("some avg10=0.00 avg60=0.00 avg300=0.00 total=%d\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=%d\n", us, us/2)
		if err := os.WriteFile(filepath.Join(root, "proc/pressure/io"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	total(1e6)
	s := Set{Host: host.Mounted(root)}
	for _, text := range []string{"pressure:io", "pressure:io:full", "pressure:memory"} {
		if _, err := s.Metric(text); err != nil {
			t.Fatal(err)
		}
	}
	w := &Window{Length: time.Minute, Sources: s.Sources()[:2], Exceeded: prove.Design{}.Exceeded}
	if err := w.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := clock{now: time.Unix(1e9, 0)}
	w.Clock, w.Wait = &c, c.wait
	c.work = func(now time.Time) error { total(1e6 + int(now.Sub(time.Unix(1e9, 0)).Microseconds()/10)); return nil }
	m, err := w.Visit(t.Context(), prove.Step{})
	if got := m.Values["pressure:io"]; err != nil || got < 9.9 || got > 10.1 || m.Values["pressure:io:full"] > 5.1 {
		t.Errorf("%v, %v", m.Values, err)
	}
	c.work = nil
	if m, err = w.Visit(t.Context(), prove.Step{}); err != nil || m.Values["pressure:io"] != 0.01 {
		t.Errorf("%v, %v", m.Values, err)
	}
	if err := s.Sources()[2].Check(t.Context()); err == nil || !strings.Contains(err.Error(), "tells no pressure") {
		t.Error(err)
	}
}

// No expression of a metric breaks anything.
func FuzzMetric(f *testing.F) {
	for _, seed := range []string{"pressure:io", "logs:/a:p99", "prometheus:http://localhost:1:up", "logs::", "prometheus:http://[::1:x", "pressure:some"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := Set{Host: host.Live(), WindowS: 1}
		m, err := s.Metric(text)
		if err == nil && (m.Name != text || len(s.Sources()) != 1) {
			t.Errorf("%q: %+v", text, m)
		}
	})
}
