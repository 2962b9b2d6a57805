package live

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/measure/prove"
)

// TestLog tests that only the lines of the window count, whatever happens to the file.
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
		}, "[8]"}, // one of more than a MiB does not count as a request
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

// TestFormats tests logs in all formats that fettle reads, with lines as the products write them:
// the request's duration, another duration, and a selection of requests.
func TestFormats(t *testing.T) {
	const (
		foreman = `2026-11-21T08:00:01 [I|app|1a2b3c4d] Completed 200 OK in 45ms (Views: 12.3ms | ActiveRecord: 8.1ms | Allocations: 5321)`
		haproxy = `Nov 21 08:00:01 lb haproxy[14389]: 10.0.1.2:33317 [21/Nov/2026:08:00:01.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html HTTP/1.1"`
		puppet  = `127.0.0.1 - - [21/Nov/2026:08:00:01 +0000] "POST /puppet/v3/catalog/node1.example.com?environment=production HTTP/1.1" 200 18446 "-" "Puppet/7.21.0 Ruby/2.7.7-p221 (x86_64-linux)" 2317 12345 -`
		status  = `127.0.0.1 - - [21/Nov/2026:08:00:01 +0000] "GET /status/v1/simple HTTP/1.1" 200 7 "-" "curl/7.88.1" 161 - -`
		nginx   = `10.0.0.7 - - [21/Nov/2026:08:00:01 +0000] "GET / HTTP/1.1" 200 5 "-" "curl" 0.250 0.125`
		custom  = `[21/Nov/2026:08:00:01 +0000] 200 77`
	)
	apache := func(string, []byte) (*logformat.Format, error) { return logformat.Parse(`apache:%t %s %{ms}T`) }
	for name, x := range map[string]struct {
		lines  []string
		format func(string, []byte) (*logformat.Format, error)
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
		"by a pattern":      {"something else", "p99", Set{Pattern: regexp.MustCompile(`x(\d)`)}, "no line in the last 256 KiB of the log matches x("},
		"not so":            {"something else", "p99", Set{Format: apache}, "no line in the last 256 KiB of the log matches the format Apache"},
		"no such field":     {puppet, "p99(views)", Set{}, "views is not a duration in the format Puppet Server's access log, which has duration"},
		"not a duration":    {puppet, "p99(status)", Set{}, "status is not a duration"},
		"no duration":       {`10.0.0.7 - - [21/Nov/2026:08:00:01 +0000] "GET / HTTP/1.1" 200 5 "-" "curl"`, "p99", Set{}, "has no duration of requests"},
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

// TestJoined tests that a request of several lines that spans two windows is complete.
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

// TestRotatedWhileRead: a rotation at any moment of a read loses no line, counts none twice, and is
// no error.
func TestRotatedWhileRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	write(t, path, "took 1 before\n")
	set := Set{Host: host.Live(), Pattern: regexp.MustCompile(`took (\d+)`)}
	if _, err := set.Metric("logs:" + path + ":max"); err != nil {
		t.Fatal(err)
	}
	l := set.logs[path]
	if err := errors.Join(l.Check(t.Context()), l.Begin()); err != nil {
		t.Fatal(err)
	}
	const rotations = 400
	for i := range rotations {
		rotated := make(chan error)
		go func() {
			err := os.Rename(path, path+".1")
			for range i % 7 * 100 {
				runtime.Gosched()
			}
			rotated <- errors.Join(err, os.WriteFile(path, fmt.Appendf(nil, "took 1 in rotation %d\n", i), 0o600))
		}()
		err := l.follow(t.Context())
		if err := errors.Join(err, <-rotated, l.follow(t.Context())); err != nil {
			t.Fatalf("rotation %d: %v", i, err)
		}
	}
	if got := l.choices[0].requests; got != rotations {
		t.Errorf("%d lines counted of %d", got, rotations)
	}
}
