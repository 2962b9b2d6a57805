package table_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/testkit/plugin"
	"fettle.dev/fettle/internal/testkit/root"
	testkitvm "fettle.dev/fettle/internal/testkit/vm"
)

// service is a product as Debian installs it, and what is done to it.
type service struct {
	product, unit string
	// files are those whose bytes undo gives back.
	files string
	// checked is what fettle check says of it as found.
	checked []string
	// reload is a setting that it takes while it runs, restart one for which it is
	// started anew: the main process stays or is another one.
	reload, restart string
	// runs is a command that prints what it runs with, as its own tools tell;
	// reloaded and restarted are what that then has.
	runs                string
	reloaded, restarted string
	// broken is a setting with which it does not start, or does not go on, and why
	// is what it says itself of that.
	broken, why string
}

var debian = []service{
	{
		product: "redis", unit: "redis-server.service", files: "/etc/redis /etc/default",
		checked: []string{"/etc/redis/redis.conf:", "redis: 65535"},
		reload:  "maxmemory=100mb", restart: "tcp-backlog=128",
		runs:     "redis-cli config get maxmemory; redis-cli config get tcp-backlog",
		reloaded: "maxmemory\n104857600\n", restarted: "tcp-backlog\n128\n",
		broken: "io-threads=129", why: "argument must be between 1 and 128",
	},
	{
		product: "postgresql", unit: "postgresql@15-main.service", files: "/etc/postgresql /var/lib/postgresql/15/main/postgresql.auto.conf",
		checked: []string{"15/main: 128 MiB", "/proc/meminfo"},
		reload:  "work_mem=9MB", restart: "shared_buffers=96MB",
		runs:     `runuser -u postgres -- psql -XAtc "SHOW work_mem" -c "SHOW shared_buffers"`,
		reloaded: "9MB", restarted: "96MB",
		broken: "huge_pages=on", why: "could not map anonymous shared memory",
	},
	{
		product: "httpd", unit: "apache2.service", files: "/etc/apache2",
		checked: []string{"apache2: 150", "apache2: event"},
		reload:  "MaxRequestWorkers=140", restart: "ServerLimit=20",
		runs:   "curl -s -o /dev/null -w '%{http_code}\\n' http://127.0.0.1/",
		broken: "ServerLimit=20000 ThreadLimit=20000", why: "restart of apache2.service failed",
	},
	{
		product: "nginx", unit: "nginx.service", files: "/etc/nginx",
		checked: []string{"/etc/nginx/nginx.conf:8", "nginx: 1024"},
		reload:  "worker_rlimit_nofile=1536",
		runs: "for p in $(cat /sys/fs/cgroup/system.slice/nginx.service/cgroup.procs); do grep -q 'worker process$' /proc/$p/cmdline && " +
			"awk '/Max open files/ {print $5}' /proc/$p/limits; done | sort -u",
		reloaded: "\n1536\n",
		broken:   "worker_connections=2000000000", why: "nginx runs no worker with the new configuration",
	},
	{
		product: "haproxy", unit: "haproxy.service", files: "/etc/haproxy /etc/default",
		checked:  []string{"haproxy: 8857761792", "show info"},
		reload:   "maxconn=4000",
		runs:     `python3 -c 'import socket; s=socket.socket(socket.AF_UNIX); s.connect("/run/haproxy/admin.sock"); s.send(b"show info\n"); print([l for l in s.makefile() if l.startswith("Maxconn")][0])'`,
		reloaded: "Maxconn: 4000",
		broken:   "maxconn=100000000", why: "the worker with the old configuration still serves",
	},
	{
		product: "mosquitto", unit: "mosquitto.service", files: "/etc/mosquitto",
		checked: []string{"mosquitto: 20"},
		restart: "max_keepalive=1000",
		runs:    "timeout 20 mosquitto_sub -t '$SYS/broker/version' -C 1",
		broken:  "max_keepalive=100000", why: "Error found at /etc/mosquitto/mosquitto.conf",
	},
	{
		product: "etcd", unit: "etcd.service", files: "/etc/default",
		checked:   []string{"/etc/default/etcd", "etcd: 1000 ms"},
		restart:   "auto-compaction-retention=8",
		runs:      "tr '\\0' '\\n' </proc/$(systemctl show -p MainPID --value etcd)/environ | grep COMPACTION; ETCDCTL_API=3 etcdctl endpoint health 2>&1 | grep -o 'is healthy'",
		restarted: "ETCD_AUTO_COMPACTION_RETENTION=8",
		broken:    "heartbeat-interval=5000", why: "--election-timeout[1000ms] should be at least as 5 times",
	},
	{
		product: "prometheus", unit: "prometheus.service", files: "/etc/default /etc/prometheus",
		checked:   []string{"prometheus: 1296000 s"},
		restart:   "query.timeout=1h",
		runs:      "curl -s http://127.0.0.1:9090/api/v1/status/flags | grep -o '\"query.timeout\":\"[^\"]*\"'",
		restarted: `"query.timeout":"1h"`,
	},
}

// guest is the machine, and fettle on it.
type guest struct {
	*testing.T
	vm *testkitvm.VM
}

// run runs a shell command, which may take ten minutes.
func (g guest) run(command string) (string, int) {
	g.Helper()
	start := time.Now()
	r, err := g.vm.Exec(testkitvm.Request{Argv: []string{"sh", "-c", command}, TimeoutS: 600})
	if err != nil || r.Error != "" {
		g.Fatalf("%s: %v %s\n%s%s", command, err, r.Error, r.Stdout, r.Stderr)
	}
	g.Logf("%.1f s: %.90s", time.Since(start).Seconds(), command)
	return string(r.Stdout) + string(r.Stderr), r.Code
}

// must wants an exit code and words in the output.
func (g guest) must(code int, command string, words ...string) string {
	g.Helper()
	out, got := g.run(command)
	if got != code {
		g.Errorf("%s: exit %d, want %d\n%s", command, got, code, out)
	}
	flat := func(s string) string { return strings.Join(strings.Fields(s), "") } // lines end at blanks and slashes
	for _, w := range words {
		if !strings.Contains(flat(out), flat(w)) {
			g.Errorf("%s: no %q in\n%s", command, w, out)
		}
	}
	return out
}

// tune is fettle tune with settings of one product.
func (s service) tune(settings string) string {
	c := "fettle tune"
	for _, one := range strings.Fields(settings) {
		c += " --set '" + s.product + ":" + one + "'"
	}
	return c
}

// state is what has to be as before: bytes and modes of the files, what runs, and
// that the unit is active. pid is its main process.
func (g guest) state(s service) (state, pid string) {
	g.Helper()
	// The last line is the process.
	out, _ := g.run(fmt.Sprintf("find %s /etc/systemd/system -xdev -printf '%%p %%m %%U %%l\\n' | sort; find %[1]s /etc/systemd/system -xdev -type f | sort | xargs sha256sum; "+
		"%s; systemctl show -p ActiveState -p UnitFileState -p MainPID %s", s.files, s.runs, s.unit))
	var rest []string
	for line := range strings.Lines(out) {
		if p, ok := strings.CutPrefix(line, "MainPID="); ok {
			pid = strings.TrimSpace(p)
		} else {
			rest = append(rest, line)
		}
	}
	return strings.Join(rest, ""), pid
}

// wantState compares with the state before.
func (g guest) wantState(s service, before string) {
	g.Helper()
	now, _ := g.state(s)
	if now != before {
		g.Errorf("%s is not as before:\n%s", s.unit, cmp.Diff(strings.Split(before, "\n"), strings.Split(now, "\n")))
	}
}

// TestServices reloads, restarts, breaks and kills Debian's services under the
// real systemd, with units and files as they are installed.
func TestServices(t *testing.T) {
	vm := testkitvm.Boot(t, testkitvm.Options{Servers: true, MemoryMiB: 3072})
	vm.Put(root.Program(t, "./cmd/fettle"), "/usr/local/bin/fettle")
	g := guest{t, vm}
	// As installed both want port 80.
	g.must(0, `systemctl disable --quiet --now tuned.service; sed -i 's/listen 80 /listen 8081 /; s/listen \[::\]:80 /listen [::]:8081 /' /etc/nginx/sites-available/default`)
	for _, s := range debian {
		t.Run(s.product, func(t *testing.T) { guest{t, vm}.round(s) })
	}
	redis, postgresql, httpd, mosquitto := debian[0], debian[1], debian[2], debian[5]
	t.Run("stopped", func(t *testing.T) { guest{t, vm}.stopped(redis) })
	t.Run("killed", func(t *testing.T) { guest{t, vm}.killed(redis) })
	t.Run("limit", func(t *testing.T) { guest{t, vm}.limit(postgresql) })
	t.Run("overruled", func(t *testing.T) { guest{t, vm}.overruled(httpd) })
	for _, f := range limits {
		t.Run("fix "+f.id, func(t *testing.T) { guest{t, vm}.fix(f) })
	}
	t.Run("reboot", func(t *testing.T) { guest{t, vm}.reboot(redis, mosquitto) })
}

// round is check, reload, restart, what does not start, undo.
func (g guest) round(s service) {
	// One of them counts as started before it answers.
	g.must(0, "systemctl start "+s.unit+"; for i in $(seq 300); do [ -z \"$("+s.runs+")\" ] || exit 0; sleep 1; done; exit 1")
	if s.product == "redis" {
		// A unit that may be started twice in an hour, and no more: neither what does
		// not start nor many changes may leave it dead.
		g.must(0, "mkdir -p /etc/systemd/system/redis-server.service.d && printf '[Unit]\\nStartLimitIntervalSec=1h\\nStartLimitBurst=2\\n' "+
			">/etc/systemd/system/redis-server.service.d/limit.conf && systemctl daemon-reload")
	} else {
		defer g.run("systemctl stop " + s.unit) // the others have the processors
	}
	before, pid := g.state(s)
	if pid == "0" || !strings.Contains(before, "ActiveState=active") {
		g.Fatalf("%s does not run:\n%s", s.unit, before)
	}
	g.must(0, "fettle check -a "+s.product, s.checked...)
	set := func(setting, running string, another bool) {
		g.must(0, s.tune(setting))
		now, after := g.state(s)
		if (after != pid) != another || after == "0" {
			g.Errorf("%s: process %s, before %s", setting, after, pid)
		}
		if pid = after; !strings.Contains(now, running) || !strings.Contains(now, "ActiveState=active") {
			g.Errorf("%s: no %q in\n%s", setting, running, now[max(0, len(now)-300):])
		}
	}
	if s.reload != "" {
		set(s.reload, s.reloaded, false)
		plugin.Proves(g, plugin.QEMU, s.product, "reload")
	}
	if s.restart != "" {
		set(s.restart, s.restarted, true)
		plugin.Proves(g, plugin.QEMU, s.product, "restart")
	}
	if s.broken != "" {
		plugin.Proves(g, plugin.QEMU, s.product, "roll-back")
		held, _ := g.state(s)
		g.must(5, s.tune(s.broken), s.why)
		g.wantState(s, held)
	}
	g.must(0, "fettle undo")
	g.wantState(s, before)
	plugin.Proves(g, plugin.QEMU, s.product, "undo")
	if s.broken != "" {
		g.must(0, "fettle history", "rolled-back")
	}
}

// stopped is a service that does not run when its file is changed: it is not
// started, and that is said. One that runs and would not start again is left alone.
func (g guest) stopped(s service) {
	before, pid := g.state(s)
	g.must(0, "systemctl mask --quiet "+s.unit)
	g.must(5, s.tune(s.restart), s.unit+" is masked", "neither reloaded nor restarted")
	if _, p := g.state(s); p != pid {
		g.Errorf("masked while it runs: process %s, before %s", p, pid)
	}
	g.must(0, "systemctl stop "+s.unit)
	still := func(how string) {
		g.must(0, s.tune(s.restart), "in force after the next start of the server")
		g.must(3, "systemctl is-active "+s.unit)
		g.must(0, "fettle undo")
		g.must(3, "systemctl is-active "+s.unit)
		if g.Failed() {
			g.Logf("that was the %s one", how)
		}
	}
	still("masked")
	g.must(0, "systemctl unmask --quiet "+s.unit)
	still("stopped")
	g.must(0, "systemctl start "+s.unit)
	g.wantState(s, before)
}

// killed is kill -9 of fettle between the write and the restart, and just after
// systemd was told.
func (g guest) killed(s service) {
	before, _ := g.state(s)
	for _, at := range []string{
		`kill -9 $PPID`,
		`/usr/bin/systemctl --no-block restart -- "$3"; kill -9 $PPID`,
	} {
		g.instead(at + "; exit 1")
		g.must(137, s.tune(s.restart))
		g.must(0, "rm "+substitute)
		if now, _ := g.state(s); now == before {
			g.Errorf("%s: nothing was written before", at)
		}
		g.must(0, "fettle undo")
		g.wantState(s, before)
	}
}

// substitute is found before the real systemctl.
const substitute = "/usr/local/sbin/systemctl"

// instead does something at the time when fettle would have a service restarted.
func (g guest) instead(do string) {
	g.vm.Write(substitute, "#!/bin/sh\n[ \"$1\" != restart ] || { "+do+"; }\nexec /usr/bin/systemctl \"$@\"\n")
	g.must(0, "chmod 755 "+substitute+"; sync")
}

// reboot is a power cut between a write and its restart, with earlier changes in
// force: files stay until they are undone, what the kernel had is over.
func (g guest) reboot(kept, cut service) {
	// As systemctl enable, which on Debian asks the System V scripts for a long time.
	g.must(0, "ln -s /lib/systemd/system/"+kept.unit+" /lib/systemd/system/"+cut.unit+" /etc/systemd/system/multi-user.target.wants/")
	g.must(0, "systemctl start "+cut.unit)
	beforeKept, _ := g.state(kept)
	beforeCut, _ := g.state(cut)
	g.must(0, kept.tune(kept.restart)+" --set vm.swappiness=17 --set unit:"+kept.unit+"/LimitNOFILE=200000")
	g.instead("echo b >/proc/sysrq-trigger; sleep 1000")
	g.vm.RebootWith(cut.tune(cut.restart))
	g.must(0, "rm "+substitute)
	if now, _ := g.state(kept); !strings.Contains(now, kept.restarted) {
		g.Errorf("the file's value has not stayed:\n%s", now)
	}
	g.must(0, "fettle undo")
	g.wantState(kept, beforeKept)
	g.wantState(cut, beforeCut)
	if out := g.must(0, "cat /proc/sys/vm/swappiness"); out != "60\n" {
		g.Errorf("swappiness is %s", out)
	}
	if out := g.must(0, "fettle history"); strings.Contains(out, "stands") {
		g.Errorf("something is left:\n%s", out)
	}
}
