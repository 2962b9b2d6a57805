package peers

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// TestBenchLoad measures fettle load http next to wrk: the processor time of a request in
// plain text over connections that are kept, from the real nginx on the same machine.
func TestBenchLoad(t *testing.T) {
	if testing.Short() || os.Getenv("FETTLE_BENCH") != "1" {
		t.Skip("measures; make bench runs it")
	}
	program := asInstalled(t, testkitroot.Program(t, "./cmd/fettle"))
	root := testkitroot.New(t, testkitroot.Options{Servers: true, Binds: []testkitroot.Bind{{Source: program, Target: "/usr/bin/fettle", ReadOnly: true}}})
	root.Must("ip", "link", "set", "lo", "up")
	root.Must("sh", "-c", `printf 'worker_processes 1;\npid /run/nginx.pid;\nevents { worker_connections 1024; }\nhttp { access_log off; keepalive_requests 100000000; server { listen 127.0.0.1:8080; location / { return 200 "hello, world\\n"; } } }\n' >/etc/nginx/nginx.conf && nginx >/dev/null 2>&1`)
	const url = "http://127.0.0.1:8080/"
	loaders := []struct {
		name string
		run  func() (requests float64, c *exec.Cmd)
	}{
		{"wrk, 1 thread", func() (float64, *exec.Cmd) {
			c := root.Command("wrk", "-t", "1", "-c", "16", "-d", "5s", url)
			out, err := c.Output()
			m := regexp.MustCompile(`(\d+) requests in`).FindStringSubmatch(string(out))
			if err != nil || m == nil {
				t.Fatalf("wrk: %v\n%s", err, out)
			}
			n, _ := strconv.ParseFloat(m[1], 64)
			return n, c
		}},
		{"fettle load http", func() (float64, *exec.Cmd) {
			c := root.Command("fettle", "load", "http", "--connections", "16", "--for", "5s", "--output", "json", url)
			out, err := c.Output()
			var r struct {
				Body struct {
					Requests []struct {
						Starts float64 `json:"starts"`
					} `json:"requests"`
				} `json:"body"`
			}
			if jsonErr := json.Unmarshal(out, &r); err != nil || jsonErr != nil || len(r.Body.Requests) != 1 {
				t.Fatalf("fettle: %v, %v\n%s", err, jsonErr, out)
			}
			return r.Body.Requests[0].Starts, c
		}},
	}
	costs := make([][]time.Duration, len(loaders))
	rates := make([][]float64, len(loaders))
	for range logRounds {
		for i, l := range loaders {
			start := time.Now()
			requests, c := l.run()
			cpu := c.ProcessState.UserTime() + c.ProcessState.SystemTime()
			costs[i] = append(costs[i], time.Duration(float64(cpu)/requests))
			rates[i] = append(rates[i], requests/time.Since(start).Seconds())
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "One worker of nginx on the same machine, 16 open connections, %d alternating rounds; the table shows medians.\n\n| generator | CPU of a request, µs | requests/s | of wrk's CPU | promised |\n|---|---|---|---|---|\n", logRounds)
	times := float64(median(costs[1])) / float64(median(costs[0]))
	for i, l := range loaders {
		slices.Sort(rates[i])
		of, promised := "1", "-"
		if i == 1 {
			of, promised = fmt.Sprintf("%.2f", times), "at most 1.3"
		}
		fmt.Fprintf(&b, "| %s | %.2f (%.2f-%.2f) | %.0f | %s | %s |\n", l.name, micros(median(costs[i])), micros(slices.Min(costs[i])), micros(slices.Max(costs[i])), rates[i][len(rates[i])/2], of, promised)
	}
	var unmet []string
	if times > 1.3 {
		unmet = append(unmet, fmt.Sprintf("CPU of a request: %.2f times wrk's, promised at most 1.3", times))
	}
	record(t, "load", b.String(), unmet)
}

func micros(d time.Duration) float64 { return float64(d) / 1e3 }
