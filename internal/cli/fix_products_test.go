package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/rule"
	"fettle.dev/fettle/internal/testroot"
)

// The way round with the real products: what is wrong in a running server's files
// is found, fix mends it and the server runs with it, and undo gives back the
// bytes, and with them the findings.
func TestFixesOfProducts(t *testing.T) {
	if testing.Short() {
		t.Skip("starts servers")
	}
	if !testroot.Inside(t, testroot.Options{Servers: true}) {
		return
	}
	for _, c := range []struct {
		product, file string
		edit          func(text string) string
		start, stop   string
		wrong         []string
	}{
		{
			product: "postgresql", file: "/etc/postgresql/15/main/postgresql.conf",
			edit: func(s string) string {
				return s + "effective_cache_size = 15TB\nmax_parallel_workers = 64\n"
			},
			start: "pg_ctlcluster 15 main start", stop: "pg_ctlcluster 15 main stop -m fast",
			wrong: []string{"G07", "G08"},
		},
		{
			product: "httpd", file: "/etc/apache2/apache2.conf",
			edit: func(s string) string {
				return strings.Replace(s, "\nKeepAlive On\n", "\nKeepAlive Off\n", 1) + "HostnameLookups On\n"
			},
			start: "apache2ctl start", stop: "apache2ctl stop",
			wrong: []string{"H04", "H09"},
		},
		{
			product: "nginx", file: "/etc/nginx/nginx.conf",
			edit: func(s string) string {
				s = strings.Replace(s, "sendfile on;", "sendfile off;\n\tkeepalive_timeout 0;", 1)
				return strings.Replace(s, "worker_processes auto;", "worker_processes 1; # of two", 1)
			},
			start: "nginx", stop: "nginx -s quit",
			wrong: []string{"N02", "N03", "N08"},
		},
		{
			product: "haproxy", file: "/etc/haproxy/haproxy.cfg",
			edit: func(s string) string {
				s = strings.Replace(s, "\tdaemon\n", "\tmaxconn 1000\n\tnbthread 1\n", 1)
				return s + "\thttp-reuse never\nfrontend web\n\tbind unix@/run/haproxy/web.sock\n\thttp-request return status 204\n"
			},
			start: "mkdir -p /run/haproxy; haproxy -W -D -p /run/haproxy.pid -f /etc/haproxy/haproxy.cfg", stop: "kill $(cat /run/haproxy.pid)",
			wrong: []string{"L05", "L14"},
		},
		{
			product: "mosquitto", file: "/etc/mosquitto/mosquitto.conf",
			edit:  func(s string) string { return s + "max_queued_messages 0\nmax_inflight_messages 1\n" },
			start: "install -d -o mosquitto /run/mosquitto /var/log/mosquitto; mosquitto -d -c /etc/mosquitto/mosquitto.conf",
			stop:  "kill $(cat /run/mosquitto/mosquitto.pid)",
			wrong: []string{"Q05", "Q07"},
		},
		{
			product: "etcd", file: "/etc/default/etcd",
			edit: func(s string) string {
				return s + "ETCD_ELECTION_TIMEOUT=600\nETCD_SNAPSHOT_COUNT=\"1000000\"\n"
			},
			start: "set -a; . /etc/default/etcd; ETCD_DATA_DIR=/var/lib/etcd/default " + as("etcd", "etcd") + answers("http://127.0.0.1:2379/health"),
			stop:  ended("etcd"),
			wrong: []string{"E03", "E05", "E06"},
		},
		{
			product: "prometheus", file: "/etc/prometheus/prometheus.yml",
			edit: func(s string) string {
				return strings.Replace(s, "scrape_interval:     15s", "scrape_interval:     5m", 1)
			},
			start: as("prometheus", "prometheus") + answers("http://127.0.0.1:9090/-/ready"),
			stop:  ended("prometheus"),
			wrong: []string{"M01"},
		},
	} {
		t.Run(c.product, func(t *testing.T) {
			text, err := os.ReadFile(c.file)
			if err != nil {
				t.Fatal(err)
			}
			wrong := c.edit(string(text))
			if err := os.WriteFile(c.file, []byte(wrong), 0o644); err != nil {
				t.Fatal(err)
			}
			if !several(t) { // one worker, one thread, is right
				c.wrong = slices.DeleteFunc(c.wrong, func(id string) bool { return id == "N02" || id == "L05" })
			}
			sh(t, c.start)
			t.Cleanup(func() { sh(t, c.stop) })
			var before []string
			testroot.Eventually(time.Minute, func() bool { // it may still be starting
				before = states(t, c.product, c.wrong...)
				return !slices.Contains(before, "unknown")
			})
			for i, s := range before {
				if s != "warn" && s != "fail" {
					t.Errorf("%s is %s of what is wrong in %s", c.wrong[i], s, c.file)
				}
			}
			fettle(t, append([]string{"fix", "--yes"}, c.wrong...)...)
			for i, s := range states(t, c.product, c.wrong...) {
				if s != "pass" {
					t.Errorf("%s is %s after fix", c.wrong[i], s)
				}
			}
			fettle(t, "undo")
			if now, err := os.ReadFile(c.file); err != nil || string(now) != wrong {
				t.Errorf("%s is not as it was before fix (%v)", c.file, err)
			}
			if after := states(t, c.product, c.wrong...); !slices.Equal(after, before) {
				t.Errorf("after undo %v are %v, and were %v", c.wrong, after, before)
			}
		})
	}
}

// as starts a program that stays in the foreground, as a user.
func as(user, program string) string {
	return "setsid setpriv --reuid=" + user + " --regid=" + user + " --init-groups " + program + " </dev/null >/dev/null 2>&1 & "
}

// answers waits for a page.
func answers(page string) string {
	return "timeout 60 sh -c 'until curl -sf " + page + "; do sleep 0.1; done'"
}

// ended ends a program of this root, and no other of its name.
func ended(program string) string {
	return "for p in $(pgrep -x " + program + "); do if [ /proc/$p/root/ -ef / ]; then kill $p; fi; done"
}

// several is true where a worker or a thread for each CPU is more than one.
func several(t *testing.T) bool {
	t.Helper()
	b, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b)) != "0"
}

func sh(t *testing.T, command string) {
	t.Helper()
	c := exec.Command("sh", "-c", command)
	c.WaitDelay = 2 * time.Second // a server may keep the output open
	if out, err := c.CombinedOutput(); err != nil && c.ProcessState.ExitCode() != 0 {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

func fettle(t *testing.T, args ...string) string {
	t.Helper()
	var out, said bytes.Buffer
	if code := Main("test", args, &out, &said); code != 0 {
		t.Fatalf("fettle %s: exit %d\n%s%s", strings.Join(args, " "), code, &out, &said)
	}
	return out.String()
}

// states are what check says of some rules of a product, in their order.
func states(t *testing.T, product string, ids ...string) []string {
	t.Helper()
	var audit struct{ Findings []rule.Finding }
	if err := json.Unmarshal([]byte(fettle(t, "check", product, "--all", "-o", "json")), &audit); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, id := range ids {
		i := slices.IndexFunc(audit.Findings, func(f rule.Finding) bool { return f.ID == id })
		if i < 0 {
			t.Fatalf("check %s has no finding %s", product, id)
		}
		out = append(out, string(audit.Findings[i].State))
	}
	return out
}
