package live

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
	"fettle.dev/fettle/internal/measure/prove"
)

// clock simulates a machine's time, which passes during a wait while work is done.
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

// TestMetric tests that valid metrics are parsed, and that others are rejected with the reason.
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
		"logs:/var/log/a.log:rate(x)":                         "rate counts requests",
		"logs:/var/log/a.log:p99()":                           "want logs:FILE:STATISTIC",
		"prometheus:http://localhost:9090:sum(rate(a:b[5m]))": " false",
		"prometheus:http://[::1]:9090/prom:up":                " false",
		"prometheus:http://localhost:up":                      " false",
		"prometheus:localhost:9090:up":                        "want prometheus:URL",
		"time":                                                "with --live want",
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

// TestPrometheus tests that Prometheus is queried at the end of the window, and that one without a
// result is detected before anything is changed.
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
	if err := source.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "does not return a number for the query rate(x[600s])") {
		t.Error(err)
	}
}

// TestWindow tests that a window begins after the machine has settled and lasts its length, varied
// a little. It is extended while nothing happens, and ends at once above a cap or with Ctrl-C.
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
		if _, err := w.Measure(t.Context(), prove.Step{Phase: prove.Blocks, Place: place, Switch: place%2 == 0}); err != nil {
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
	if m, err := w.Measure(t.Context(), prove.Step{}); err != nil || m.Values["logs:"+path+":max"] != 4 || c.now.Sub(time.Unix(1e9, 0)) < 15*time.Minute-time.Second {
		t.Errorf("%v after %v, %v", m.Values, c.now.Sub(time.Unix(1e9, 0)), err)
	}
	w = window(nil)
	if _, err := w.Measure(t.Context(), prove.Step{}); err == nil || !strings.Contains(err.Error(), "nothing happened: no request in "+path) {
		t.Error(err)
	}
	slow := 0
	w = window(func(time.Time) error {
		slow++
		write(t, path, fmt.Sprintf("took %d\n", 20*slow))
		return nil
	})
	if _, err := w.Measure(t.Context(), prove.Step{}); !errors.As(err, new(*prove.Exceeded)) || slow != 3 {
		t.Errorf("after %d tenths: %v", slow, err)
	}
	w = window(func(time.Time) error { return context.Canceled })
	if _, err := w.Measure(t.Context(), prove.Step{Switch: true}); !errors.Is(err, context.Canceled) || len(c.waits) != 1 {
		t.Error(err)
	}
}

// TestPressure tests that the kernel's pressure is a share of the window, and that no pressure
// counts as a very small share.
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
	m, err := w.Measure(t.Context(), prove.Step{})
	if got := m.Values["pressure:io"]; err != nil || got < 9.9 || got > 10.1 || m.Values["pressure:io:full"] > 5.1 {
		t.Errorf("%v, %v", m.Values, err)
	}
	c.work = nil
	if m, err = w.Measure(t.Context(), prove.Step{}); err != nil || m.Values["pressure:io"] != 0.01 {
		t.Errorf("%v, %v", m.Values, err)
	}
	if err := s.Sources()[2].Check(t.Context()); err == nil || !strings.Contains(err.Error(), "does not report pressure") {
		t.Error(err)
	}
}

// FuzzMetric tests that no metric expression causes a panic.
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
