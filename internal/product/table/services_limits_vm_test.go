package table_test

import (
	"encoding/json"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/testkit/plugin"
)

// limit is a limit of a unit, held against what the kernel has for the process.
func (g guest) limit(s service) {
	g.must(0, "systemctl start "+s.unit)
	defer g.run("systemctl stop " + s.unit)
	s.runs = "awk '/Max open files/ {print $5}' /proc/$(systemctl show -p MainPID --value " + s.unit + ")/limits"
	before, pid := g.state(s)
	g.must(0, "fettle tune --set unit:"+s.unit+"/LimitNOFILE=200000")
	now, after := g.state(s)
	if !strings.Contains(now, "\n200000\n") || pid == after || after == "0" {
		g.Errorf("process %s, before %s:\n%s", after, pid, now)
	}
	g.must(0, "fettle verify")
	g.must(0, "fettle undo")
	g.wantState(s, before) // the list of /etc/systemd/system too
	plugin.Proves(g, plugin.QEMU, "unit", "limit")
	g.must(4, "fettle tune --set unit:postgresql.service/LimitNOFILE=200000", "has no long-running process")
}

// overruled is a limit of a unit whose program sets its own: a restart would not help,
// and who is asked says so.
func (g guest) overruled(s service) {
	g.must(0, "systemctl start "+s.unit)
	defer g.run("systemctl stop " + s.unit)
	before, _ := g.state(s)
	g.must(0, "fettle tune --set unit:"+s.unit+"/LimitNOFILE=20000")
	g.must(0, "fettle verify", "overridden", "sets its own limit, 8192", "APACHE_ULIMIT_MAX_FILES in /etc/apache2/envvars")
	g.must(0, "systemctl daemon-reload; systemctl restart "+s.unit+"; fettle verify", "overridden")
	g.must(0, "fettle undo")
	g.wantState(s, before)
}

// limitFix is a rule about how many files a service may open, whose fix is a limit of its
// unit: limit is what is too low, of the n that it has open.
type limitFix struct {
	id, product, limit string
	// ready is a command that succeeds when it has opened what it keeps open.
	ready string
	// lower is a command that makes the limit too low in a file of the product, which
	// the fix then changes; "" lowers that of the process, and the fix is in the unit.
	// raise takes it back.
	lower, raise string
}

var limits = []limitFix{
	{id: "E12", product: "etcd", limit: "$((n + n / 5))", ready: "ETCDCTL_API=3 etcdctl endpoint health"},
	// A Prometheus that has just begun has nine files open, and two more would be too many:
	// clients that say nothing make them more.
	{id: "M08", product: "prometheus", limit: "$((n + n / 5))", ready: "curl -sf -o /dev/null http://127.0.0.1:9090/-/ready && { setsid bash -c 'for i in {1..40}; do exec {fd}<>/dev/tcp/127.0.0.1/9090; done; sleep 600' </dev/null >/dev/null 2>&1 & sleep 3; }"},
	{id: "R05", product: "redis", limit: "1024", ready: "redis-cli ping"},
	{
		id: "H06", product: "httpd", ready: "curl -s -o /dev/null http://127.0.0.1/",
		lower: `cp -p /etc/apache2/envvars /root/; echo "export APACHE_ULIMIT_MAX_FILES='ulimit -n 150'" >>/etc/apache2/envvars; systemctl restart apache2`,
		raise: "cp -p /root/envvars /etc/apache2/",
	},
}

// fix lowers the limit of the process that runs, which is found; the fix, in the unit,
// mends it, and undo takes that away again.
func (g guest) fix(f limitFix) {
	s := debian[slices.IndexFunc(debian, func(s service) bool { return s.product == f.product })]
	g.must(0, "systemctl start "+s.unit+"; for i in $(seq 300); do "+f.ready+" && exit 0; sleep 1; done; exit 1")
	if s.product != "redis" {
		defer g.run("systemctl stop " + s.unit)
	}
	s.runs = "awk '/Max open files/ {print $4, $5}' /proc/$(systemctl show -p MainPID --value " + s.unit + ")/limits"
	before, _ := g.state(s)
	if f.lower == "" {
		g.must(0, "p=$(systemctl show -p MainPID --value "+s.unit+"); n=$(ls /proc/$p/fd | wc -l); prlimit --pid $p --nofile="+f.limit)
	} else {
		g.must(0, f.lower)
		defer g.run(f.raise)
		before, _ = g.state(s) // undo gives back the file as it is now
	}
	lowered, pid := g.state(s)
	g.judged(f, "warn")
	g.must(0, "fettle fix --yes "+f.id, s.unit)
	mended, after := g.state(s)
	if after == pid || after == "0" || mended == before || mended == lowered {
		g.Errorf("process %s, before %s:\n%s", after, pid, mended)
	}
	g.judged(f, "pass")
	g.must(0, "fettle verify")
	g.must(0, "fettle undo")
	g.wantState(s, before)
}

// judged wants a state of a rule's finding.
func (g guest) judged(f limitFix, state string) {
	g.Helper()
	var audit struct {
		Findings []struct {
			ID    string `json:"id"`
			State string `json:"state"`
		} `json:"findings"`
	}
	out, _ := g.run("fettle check --output json " + f.product + " 2>/dev/null")
	if err := json.Unmarshal([]byte(out), &audit); err != nil {
		g.Fatalf("%v\n%s", err, out)
	}
	for _, one := range audit.Findings {
		if one.ID == f.id && one.State == state {
			return
		}
	}
	g.Errorf("%s is not %s:\n%s", f.id, state, out)
}
