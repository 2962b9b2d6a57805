package cli

import (
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/product"
)

// filesOfProducts are the rounds of what is wrong in a product's own files.
var filesOfProducts = []round{
	{
		product: "postgresql",
		edits: edits{"/etc/postgresql/15/main/postgresql.conf": func(t *testing.T, s string) string {
			return s + fmt.Sprintf("effective_cache_size = 15TB\nmax_parallel_workers = 64\nshared_buffers = %dMB\n", ramOf(t)>>21) // half
		}},
		start: serves("pg_ctlcluster 15 main start", "pg_ctlcluster 15 main stop -m fast"),
		wrong: []string{"G05", "G07", "G08"},
	},
	{
		product: "httpd",
		edits: edits{"/etc/apache2/apache2.conf": func(_ *testing.T, s string) string {
			return strings.Replace(s, "\nKeepAlive On\n", "\nKeepAlive Off\n", 1) + "HostnameLookups On\n"
		}},
		start: httpd,
		wrong: []string{"H04", "H09"},
	},
	{
		product: "httpd", kind: " prefork",
		before: func(t *testing.T) {
			sh(t, "a2dismod -q mpm_event; a2enmod -q mpm_prefork")
			t.Cleanup(func() { sh(t, "a2dismod -q mpm_prefork; a2enmod -q mpm_event") })
		},
		edits: edits{"/etc/apache2/apache2.conf": func(_ *testing.T, s string) string {
			return strings.Replace(s, "\nKeepAliveTimeout 5\n", "\nKeepAliveTimeout 60\n", 1) + "MaxRequestWorkers 400\n"
		}},
		start: httpd,
		wrong: []string{"H01", "H05"},
	},
	{
		product: "httpd", kind: " limit",
		edits: edits{"/etc/apache2/envvars": func(_ *testing.T, s string) string {
			return s + "export APACHE_ULIMIT_MAX_FILES='ulimit -n 150' # of ours\n"
		}},
		start:  httpd,
		runs:   "awk '/Max open files/ {print $4, $5}' /proc/$(cat /run/apache2/apache2.pid)/limits",
		mended: "8192 8192\n",
		wrong:  []string{"H06"},
	},
	{
		product: "nginx",
		edits: edits{"/etc/nginx/nginx.conf": func(_ *testing.T, s string) string {
			s = strings.Replace(s, "sendfile on;", "sendfile off;\n\tkeepalive_timeout 0;", 1)
			return strings.Replace(s, "worker_processes auto;", "worker_processes 1; worker_rlimit_nofile 1000;", 1)
		}},
		start: serves("nginx", "nginx -s quit"),
		wrong: []string{"N01", "N02", "N03", "N08"}, parallel: []string{"N02"},
	},
	{
		product: "haproxy",
		edits: edits{"/etc/haproxy/haproxy.cfg": func(t *testing.T, s string) string {
			const buffer = 4 << 20
			s = strings.Replace(s, "\tdaemon\n", fmt.Sprintf("\ttune.bufsize %d\n\tmaxconn %d\n\tnbthread 1\n", buffer, ramOf(t)/(2*buffer)+1000), 1)
			return s + "\thttp-reuse never\nfrontend web\n\tbind unix@/run/haproxy/web.sock\n\thttp-request return status 204\n"
		}},
		start: haproxy,
		wrong: []string{"L03", "L05", "L14"}, parallel: []string{"L05"},
	},
	{
		product: "mosquitto",
		edits:   edits{"/etc/mosquitto/mosquitto.conf": func(_ *testing.T, s string) string { return s + "max_queued_messages 0\nmax_inflight_messages 1\n" }},
		start: serves("install -d -o mosquitto /run/mosquitto /var/log/mosquitto; mosquitto -d -c /etc/mosquitto/mosquitto.conf",
			"kill $(cat /run/mosquitto/mosquitto.pid)"),
		wrong: []string{"Q05", "Q07"},
	},
	{
		product: "etcd",
		edits: edits{"/etc/default/etcd": func(_ *testing.T, s string) string {
			return s + "ETCD_ELECTION_TIMEOUT=600\nETCD_SNAPSHOT_COUNT=\"1000000\"\n"
		}},
		start: serves("set -a; . /etc/default/etcd; ETCD_DATA_DIR=/var/lib/etcd/default "+as("etcd", "etcd")+answers("http://127.0.0.1:2379/health"), ended("etcd")),
		wrong: []string{"E03", "E05", "E06"},
	},
	{
		product: "prometheus",
		edits: edits{"/etc/prometheus/prometheus.yml": func(_ *testing.T, s string) string {
			return strings.Replace(s, "scrape_interval:     15s", "scrape_interval:     5m", 1)
		}},
		start: prometheus,
		wrong: []string{"M01"},
	},
	{
		product: "prometheus", kind: " flags",
		edits: edits{"/etc/default/prometheus": func(_ *testing.T, s string) string {
			return strings.Replace(s, `ARGS=""`, `ARGS="--storage.tsdb.retention.time=2h"`, 1)
		}},
		start: prometheus,
		wrong: []string{"M02"},
	},
	{
		product: "puma",
		before: func(t *testing.T) {
			product.Database(t, 200)
			product.Write(t, "foreman", product.Numbers(2, 1, 2))
		},
		edits: edits{product.DropIn("foreman"): func(*testing.T, string) string { return product.Numbers(1, 1, 2) }},
		start: func(t *testing.T) { product.StartPuma(t, "foreman") },
		wrong: []string{"U03"},
	},
	{
		product: "puma", kind: " of another",
		before: func(t *testing.T) {
			sh(t, "pg_dropcluster 15 main; pg_createcluster 15 main >/dev/null")
			product.Database(t, 200)
			product.Write(t, "shop", product.Numbers(2, 1, 2))
		},
		edits: edits{product.DropIn("shop"): func(*testing.T, string) string { return product.Numbers(2*runtime.NumCPU()+1, 1, 1) }},
		start: func(t *testing.T) { product.StartPuma(t, "shop") },
		wrong: []string{"U04"},
	},
}

// puppetServer is Debian's, with its own authority of certificates. It has more
// interpreters than there should be, and heap enough for them.
var puppetServer = round{
	product: "puppet",
	edits: edits{
		product.Options: func(_ *testing.T, s string) string {
			return strings.Replace(s, "#max-active-instances: 1\n", fmt.Sprintf("max-active-instances: %d # of ours\n", interpreters), 1)
		},
		product.Java: func(_ *testing.T, s string) string {
			return strings.Replace(s, "-Xms1g -Xmx1g", fmt.Sprintf("-Xms1g -Xmx%dm -XX:ReservedCodeCacheSize=100m %s", 512*(interpreters+1), product.Quick), 1)
		},
	},
	start: func(t *testing.T) { product.StartPuppetServer(t) },
	runs: "cd /var/lib/puppet/ssl; curl -sf --cacert certs/ca.pem --cert certs/localhost.pem --key private_keys/localhost.pem " +
		"'https://localhost:8140/status/v1/services/jruby-metrics?level=debug' | grep -o '\"num-jrubies\":[0-9]*'; " +
		"tr '\\0' '\\n' </proc/$(pgrep -x java)/cmdline | grep CodeCache",
	mended: fmt.Sprintf("\"num-jrubies\":%d\n-XX:ReservedCodeCacheSize=%dm\n", interpreters-1, 128*interpreters),
	wrong:  []string{"P08", "P11"},
}

// interpreters are more than there should be, which is one less than CPUs.
var interpreters = max(2, runtime.NumCPU())

const somaxconn = "/proc/sys/net/core/somaxconn"

// kernelForProducts are the rounds of what a product needs of the kernel.
var kernelForProducts = []round{
	{product: "httpd", edits: edits{somaxconn: value("128")}, start: httpd, wrong: []string{"H07"}},
	{product: "nginx", edits: edits{somaxconn: value("128")}, start: serves("nginx", "nginx -s quit"), wrong: []string{"N05"}},
	{product: "haproxy", edits: edits{somaxconn: value("128")}, before: connections, start: haproxy, wrong: []string{"L07"}},
	{product: "haproxy", kind: " ports", edits: edits{"/proc/sys/net/ipv4/ip_local_port_range": value("32768 60999")}, before: connections, start: haproxy, wrong: []string{"L08"}},
	{product: "redis", kind: " queue", edits: edits{somaxconn: value("128")}, start: redis, wrong: []string{"R04"}},
	{product: "redis", kind: " promises", edits: edits{"/proc/sys/vm/overcommit_memory": value("0")}, start: redis, wrong: []string{"R01"}},
	{
		product: "redis", kind: " huge pages", edits: edits{"/sys/kernel/mm/transparent_hugepage/enabled": value("always")},
		before: func(t *testing.T) {
			// As Redis before 6.2, which did not turn them off for itself.
			put(t, "/etc/redis/redis.conf", read(t, "/etc/redis/redis.conf")+"disable-thp no\n")
		},
		start: redis, wrong: []string{"R02"},
	},
}

func value(text string) func(*testing.T, string) string {
	return func(*testing.T, string) string { return text }
}

// connections gives HAProxy a frontend that takes many, whatever files it may open.
func connections(t *testing.T) {
	const file = "/etc/haproxy/haproxy.cfg"
	right := read(t, file)
	t.Cleanup(func() { put(t, file, right) })
	put(t, file, strings.Replace(right, "\tdaemon\n", "\tno strict-limits\n\tmaxconn 30000\n", 1)+
		"frontend web\n\tbind unix@/run/haproxy/web.sock\n\tmaxconn 20000\n\thttp-request return status 204\n")
}

var (
	httpd      = serves("apache2ctl start", "p=$(cat /run/apache2/apache2.pid); apache2ctl stop; "+gone("$p"))
	haproxy    = serves("mkdir -p /run/haproxy; haproxy -W -D -p /run/haproxy.pid -f /etc/haproxy/haproxy.cfg", "p=$(cat /run/haproxy.pid); kill $p; "+gone("$p"))
	prometheus = serves(". /etc/default/prometheus; "+as("prometheus", "prometheus $ARGS")+answers("http://127.0.0.1:9090/-/ready"), ended("prometheus"))
	redis      = serves("install -d -o redis /run/redis; setpriv --reuid=redis --regid=redis --init-groups redis-server /etc/redis/redis.conf", "redis-cli shutdown nosave")
)

// ramOf is the memory of this machine in bytes.
func ramOf(t *testing.T) int {
	t.Helper()
	m := regexp.MustCompile(`MemTotal: +(\d+) kB`).FindStringSubmatch(read(t, "/proc/meminfo"))
	if m == nil {
		t.Fatal("/proc/meminfo has no MemTotal")
	}
	kib, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
