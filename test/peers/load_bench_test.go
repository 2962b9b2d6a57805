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

// loadGenerator is a program whose processor time of a request is compared with another's.
type loadGenerator struct {
	name string
	run  func() (requests float64, c *exec.Cmd)
	// against has the names of other generators. most is the promised ratio to the one of them that
	// needs the least, of those that are measured.
	against []string
	most    float64
}

// loadRounds is the number of alternating rounds, and loadTime how long a generator runs in each.
const (
	loadRounds = 5
	loadTime   = "10s"
)

// nginxForLoad answers in plain text, over TLS, and over TLS only to clients with a certificate.
const nginxForLoad = `worker_processes 1;
pid /run/nginx.pid;
events { worker_connections 1024; }
http {
  access_log off;
  keepalive_requests 100000000;
  server { listen 127.0.0.1:8080; location / { return 200 "hello, world\n"; } }
  ssl_certificate /etc/nginx/cert.pem; ssl_certificate_key /etc/nginx/key.pem;
  server { listen 127.0.0.1:8443 ssl; location / { return 200 "hello, world\n"; } }
  server {
    listen 127.0.0.1:8444 ssl;
    ssl_client_certificate /etc/nginx/cert.pem; ssl_verify_client on;
    location / { return 200 "hello, world\n"; }
  }
}
`

// TestBenchLoad measures fettle load http next to wrk, ab and vegeta, and a step of fettle load
// scenario next to fettle load http: the processor time of a request over connections that are kept,
// in plain text and over TLS without and with a client certificate, from the real nginx on the same
// machine. FETTLE_BENCH_VEGETA names vegeta's program (go install github.com/tsenart/vegeta/v12@v12.12.0);
// without it, its row is missing.
func TestBenchLoad(t *testing.T) {
	if testing.Short() || os.Getenv("FETTLE_BENCH") != "1" {
		t.Skip("measures; make bench runs it")
	}
	binds := []testkitroot.Bind{{Source: asInstalled(t, testkitroot.Program(t, "./cmd/fettle")), Target: "/usr/bin/fettle", ReadOnly: true}}
	vegeta := os.Getenv("FETTLE_BENCH_VEGETA")
	if vegeta != "" {
		binds = append(binds, testkitroot.Bind{Source: vegeta, Target: "/usr/bin/vegeta", ReadOnly: true})
	}
	root := testkitroot.New(t, testkitroot.Options{Servers: true, Binds: binds})
	root.Must("ip", "link", "set", "lo", "up")
	root.Must("sh", "-c", "cat >/etc/nginx/nginx.conf <<'END'\n"+nginxForLoad+`END
cat >/scenario.yaml <<'END'
scenario: bench
servers: {web: http://127.0.0.1:8080}
steps: [{name: get, http: {url: "${web}/"}}]
END
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 -keyout /etc/nginx/key.pem -out /etc/nginx/cert.pem 2>/dev/null && cat /etc/nginx/cert.pem /etc/nginx/key.pem >/both.pem && nginx >/dev/null 2>&1`)
	const plain, secure, mutual = "http://127.0.0.1:8080/", "https://127.0.0.1:8443/", "https://127.0.0.1:8444/"
	trust := []string{"--cacert", "/etc/nginx/cert.pem"}
	identity := append([]string{"--cert", "/etc/nginx/cert.pem", "--key", "/etc/nginx/key.pem"}, trust...)
	http := func(url string, more ...string) func() (float64, *exec.Cmd) {
		return requestsOf(t, root, append([]string{"load", "http", "--connections", "16", "--for", loadTime, url}, more...))
	}
	scenario := func(repeat, url string, more ...string) func() (float64, *exec.Cmd) { // about as long
		return requestsOf(t, root, append([]string{"load", "scenario", "/scenario.yaml", "--hosts", "16", "--repeat", repeat, "--server", "web=" + url}, more...))
	}
	wrk := func(url string) func() (float64, *exec.Cmd) {
		return requestsIn(t, root, `(\d+) requests in`, "wrk", "-t", "1", "-c", "16", "-d", loadTime, url)
	}
	all := []loadGenerator{
		{"wrk, 1 thread", wrk(plain), nil, 0},
		{"fettle load http", http(plain), []string{"wrk, 1 thread"}, 1.3},
		{"fettle load scenario", scenario("60000", plain), []string{"fettle load http"}, 1.5},
		{"wrk, 1 thread, TLS", wrk(secure), nil, 0},
		{"fettle load http, TLS", http(secure, trust...), []string{"wrk, 1 thread, TLS"}, 1.1},
		{"fettle load scenario, TLS", scenario("40000", secure, trust...), []string{"fettle load http, TLS"}, 1.5},
		{"ab -E", requestsIn(t, root, `Complete requests: +(\d+)`, "ab", "-q", "-k", "-c", "16", "-t", strings.TrimSuffix(loadTime, "s"), "-n", "100000000", "-E", "/both.pem", mutual), nil, 0},
		{"fettle load http, client certificate", http(mutual, identity...), []string{"ab -E", "vegeta, client certificate"}, 1},
		{"fettle load scenario, client certificate", scenario("40000", mutual, identity...), []string{"fettle load http, client certificate"}, 1.5},
	}
	if vegeta != "" {
		root.Must("sh", "-c", "echo GET "+mutual+" >/target")
		attack := func() (float64, *exec.Cmd) {
			c := root.Command("vegeta", "attack", "-targets", "/target", "-output", "/results", "-rate", "0", "-max-workers", "16", "-connections", "16", "-duration", loadTime,
				"-cert", "/etc/nginx/cert.pem", "-key", "/etc/nginx/key.pem", "-root-certs", "/etc/nginx/cert.pem")
			if out, err := c.CombinedOutput(); err != nil {
				t.Fatalf("vegeta: %v\n%s", err, out)
			}
			requests, _ := requestsIn(t, root, `"requests":(\d+)`, "vegeta", "report", "-type", "json", "/results")()
			return requests, c
		}
		all = append(all, loadGenerator{"vegeta, client certificate", attack, nil, 0})
	}
	compareGenerators(t, "load", all)
}

// requestsIn returns a run of a program in a root. Its output has the number of its requests, by the
// pattern.
func requestsIn(t *testing.T, root *testkitroot.Root, pattern string, args ...string) func() (float64, *exec.Cmd) {
	return func() (float64, *exec.Cmd) {
		c := root.Command(args...)
		out, err := c.Output()
		m := regexp.MustCompile(pattern).FindStringSubmatch(string(out))
		if err != nil || m == nil {
			t.Fatalf("%s: %v\n%s", args[0], err, out)
		}
		n, _ := strconv.ParseFloat(m[1], 64)
		return n, c
	}
}

// nginxForScenario answers the steps of threeSteps.
const nginxForScenario = `worker_processes 1;
pid /run/nginx.pid;
events { worker_connections 1024; }
http {
  access_log off;
  keepalive_requests 100000000;
  default_type application/json;
  server {
    listen 127.0.0.1:8080;
    location = /hosts { return 201 '{"id": 4711, "name": "host", "facts": {"cpu": 2, "memory": 4096}}'; }
    location /hosts/ { return 200 '{"id": 4711, "name": "host", "status": "ok"}'; }
    location = /status { return 200 "ok"; }
  }
}
`

// threeSteps and threeStepsInK6 are one scenario: three requests with a check each, of which the
// second uses a value from the answer to the first.
const (
	threeSteps = `scenario: three
servers: {web: "http://127.0.0.1:8080"}
steps:
  - name: create
    http: {url: "${web}/hosts", header: {Content-Type: application/json}, body: '{"name": "${name}"}'}
    expect: {status: [201]}
    take: {id: {jsonpath: $.id}}
  - name: show
    http: {url: "${web}/hosts/${id}"}
    expect: {status: [200], body: {jsonpath: $.status, is: ok}}
  - name: status
    http: {url: "${web}/status"}
    expect: {status: [200]}
`
	threeStepsInK6 = `import http from 'k6/http';
import { check } from 'k6';
export const options = { scenarios: { all: { executor: 'per-vu-iterations', vus: 16, iterations: %d } } };
const web = 'http://127.0.0.1:8080';
export default function () {
  const made = http.post(web + '/hosts', '{"name": "host-' + __VU + '"}', { headers: { 'Content-Type': 'application/json' } });
  check(made, { created: (r) => r.status === 201 });
  const shown = http.get(web + '/hosts/' + made.json('id'));
  check(shown, { shown: (r) => r.status === 200 && r.json('status') === 'ok' });
  check(http.get(web + '/status'), { status: (r) => r.status === 200 });
}
`
	passesOfK6, passesOfFettle = 1000, 5000 // of each of 16 hosts: some seconds
)

// TestBenchScenario measures fettle load scenario next to k6, whose program FETTLE_BENCH_K6 names (go
// install go.k6.io/k6@v1.8.1): the processor time of a request.
func TestBenchScenario(t *testing.T) {
	if testing.Short() || os.Getenv("FETTLE_BENCH") != "1" {
		t.Skip("measures; make bench runs it")
	}
	k6 := os.Getenv("FETTLE_BENCH_K6")
	if k6 == "" {
		t.Skip("FETTLE_BENCH_K6 names no k6")
	}
	program := asInstalled(t, testkitroot.Program(t, "./cmd/fettle"))
	root := testkitroot.New(t, testkitroot.Options{Servers: true, Binds: []testkitroot.Bind{{Source: program, Target: "/usr/bin/fettle", ReadOnly: true}, {Source: k6, Target: "/usr/bin/k6", ReadOnly: true}}})
	root.Must("ip", "link", "set", "lo", "up")
	root.Must("sh", "-c", "cat >/etc/nginx/nginx.conf <<'END'\n"+nginxForScenario+"END\ncat >/three.yaml <<'END'\n"+threeSteps+"END\ncat >/three.js <<'END'\n"+
		fmt.Sprintf(threeStepsInK6, passesOfK6)+"END\nnginx >/dev/null 2>&1")
	compareGenerators(t, "load-scenario", []loadGenerator{
		{"k6", func() (float64, *exec.Cmd) {
			c := root.Command("k6", "run", "--quiet", "--no-usage-report", "/three.js")
			out, err := c.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "100.00%") {
				t.Fatalf("k6: %v\n%s", err, out)
			}
			return 3 * 16 * passesOfK6, c
		}, nil, 0},
		{"fettle load scenario", requestsOf(t, root, []string{"load", "scenario", "/three.yaml", "--hosts", "16", "--repeat", fmt.Sprint(passesOfFettle)}), []string{"k6"}, 0.2},
	})
}

// requestsOf returns a run of fettle in a root that returns the number of its requests.
func requestsOf(t *testing.T, root *testkitroot.Root, args []string) func() (float64, *exec.Cmd) {
	return func() (float64, *exec.Cmd) {
		c := root.Command(append([]string{"fettle", "--output", "json"}, args...)...)
		out, err := c.Output()
		var r struct {
			Body struct {
				Requests []struct {
					Starts float64 `json:"starts"`
				} `json:"requests"`
				Whole struct {
					Requests float64 `json:"requests"`
				} `json:"whole"`
			} `json:"body"`
		}
		if jsonErr := json.Unmarshal(out, &r); err != nil || jsonErr != nil {
			t.Fatalf("fettle: %v, %v\n%s", err, jsonErr, out)
		}
		if len(r.Body.Requests) == 1 { // of load http
			return r.Body.Requests[0].Starts, c
		}
		return r.Body.Whole.Requests, c
	}
}

// compareGenerators runs generators in alternating rounds and records the table by a name.
func compareGenerators(t *testing.T, name string, all []loadGenerator) {
	costs, rates := make([][]time.Duration, len(all)), make([][]float64, len(all))
	for range loadRounds {
		for i, l := range all {
			start := time.Now()
			requests, c := l.run()
			cpu := c.ProcessState.UserTime() + c.ProcessState.SystemTime()
			costs[i] = append(costs[i], time.Duration(float64(cpu)/requests))
			rates[i] = append(rates[i], requests/time.Since(start).Seconds())
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "One worker of nginx on the same machine, 16 open connections, %d alternating rounds; the table shows medians.\n\n| generator | CPU of a request, µs | requests/s | compared with | promised |\n|---|---|---|---|---|\n", loadRounds)
	var unmet []string
	for i, l := range all {
		slices.Sort(rates[i])
		of, promised := "-", "-"
		if l.most > 0 {
			reference := -1
			for j, other := range all {
				if slices.Contains(l.against, other.name) && (reference < 0 || median(costs[j]) < median(costs[reference])) {
					reference = j
				}
			}
			times := float64(median(costs[i])) / float64(median(costs[reference]))
			of, promised = fmt.Sprintf("%.2f of %s", times, all[reference].name), fmt.Sprintf("at most %v", l.most)
			if why := unsteady(costs[reference]); why != "" {
				of = why
			} else if times > l.most {
				unmet = append(unmet, fmt.Sprintf("CPU of a request of %s: %.2f times that of %s, promised at most %v", l.name, times, all[reference].name, l.most))
			}
		}
		fmt.Fprintf(&b, "| %s | %.2f (%.2f-%.2f) | %.0f | %s | %s |\n", l.name, micros(median(costs[i])), micros(slices.Min(costs[i])), micros(slices.Max(costs[i])), rates[i][len(rates[i])/2], of, promised)
	}
	record(t, name, b.String(), unmet)
}

func micros(d time.Duration) float64 { return float64(d) / 1e3 }
