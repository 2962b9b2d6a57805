package scheduler_test

import (
	"sort"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testroot"
	"fettle.dev/fettle/internal/testvm"
)

const guestProfile = `[main]
summary=CPUs 2 and 3 are kept free
[scheduler]
isolated_cores=2-3
ps_blacklist=^fettle-left$
group.realtime=0:f:5:8:/fettle-realtime 
sched_migration_cost_ns=777000
sched_min_granularity_ns=4000000
numa_balancing_scan_size_mb=128
`

// guestTasks is what isolation changes, in three processes, because the guest is
// emulated: start, real-time priority, policy and CPUs of every task, every
// interrupt, and two variables.
const guestTasks = `awk '{ n = $1; sub(/.*\) /, ""); print n, $20, $38, $39 }' /proc/[0-9]*/task/[0-9]*/stat 2>/dev/null
awk '/^Pid:/ { pid = $2 } /^Cpus_allowed_list:/ { print "cpus-" pid, $2 }' /proc/[0-9]*/task/[0-9]*/status 2>/dev/null
grep . /proc/irq/*/smp_affinity /proc/irq/default_smp_affinity /sys/kernel/debug/sched/migration_cost_ns /sys/kernel/debug/sched/numa_balancing/scan_size_mb | sed 's/:/ /'
`

// TestGuestIsolation isolates two of four CPUs with systemd and control groups
// version 2.
func TestGuestIsolation(t *testing.T) {
	if testing.Short() {
		t.Skip("boots a machine")
	}
	vm := testvm.Boot(t, testvm.Options{MemoryMiB: 1024})
	vm.Put(testroot.Program(t, "./cmd/fettle"), "/usr/local/bin/fettle")
	vm.Write("/etc/tuned/guest/tuned.conf", guestProfile)
	vm.Must("systemctl disable --quiet --now tuned.service; mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug")
	vm.Must("cp /bin/sleep /usr/local/bin/fettle-realtime; cp /bin/sleep /usr/local/bin/fettle-left; for p in realtime left; do systemd-run --quiet --unit=$p /usr/local/bin/fettle-$p 6000; done")
	allowed := func(program string) string {
		return strings.TrimSpace(vm.Must("sed -n 's/Cpus_allowed_list:.//p' /proc/$(pidof " + program + ")/status"))
	}
	before := vm.Must(guestTasks)

	out, code := vm.Run("fettle tune guest --output json >/run/tuned.json; echo $?; cat /run/tuned.json | head -c 600")
	t.Logf("tune: %d %s", code, out)
	if !strings.HasPrefix(out, "0\n") {
		t.Errorf("fettle tune: %s", out)
	}
	if got := allowed("fettle-left"); got != "0-3" {
		t.Errorf("a task of ps_blacklist was moved to %s", got)
	}
	if got := allowed("fettle-realtime"); got != "3" {
		t.Errorf("the group's task may run on %s", got)
	}
	if got := vm.Must("chrt -p $(pidof fettle-realtime)"); !strings.Contains(got, "SCHED_FIFO") || !strings.Contains(got, "priority: 5") {
		t.Errorf("the group's task is scheduled so: %s", got)
	}
	vm.Must("cp /bin/sleep /usr/local/bin/fettle-new; systemd-run --quiet --unit=new /usr/local/bin/fettle-new 6000")
	if got := allowed("fettle-new"); got != "0-1" {
		t.Errorf("a service that starts later may run on %s", got)
	}
	// The isolated CPUs can be asked for.
	if got := vm.Must("taskset -c 2 sed -n 's/Cpus_allowed_list:.//p' /proc/self/status"); got != "2\n" {
		t.Errorf("taskset -c 2 runs on %s", got)
	}
	if changed := moved(before, vm.Must(guestTasks)); len(changed) < 20 {
		t.Errorf("only %d places changed:\n%s", len(changed), strings.Join(changed, "\n"))
	}
	if _, code := vm.Run("fettle verify"); code != 0 {
		out, _ := vm.Run("fettle verify")
		t.Errorf("fettle verify: exit %d\n%s", code, out)
	}
	if out, code := vm.Run("fettle undo"); code != 0 {
		t.Errorf("fettle undo: exit %d\n%s", code, out)
	}
	if got := allowed("fettle-new"); got != "0-3" {
		t.Errorf("after undo the service that started meanwhile may run on %s", got)
	}
	if left := moved(before, vm.Must(guestTasks)); len(left) > 0 {
		t.Errorf("undo leaves %d places changed:\n%s", len(left), strings.Join(left, "\n"))
	}
}

// moved are the places that are still there and read otherwise, with what they
// read now.
func moved(before, after string) []string {
	key := func(line string) (string, string) {
		f := strings.Fields(line)
		if len(f) > 2 {
			return f[0] + "@" + f[1], line
		}
		k, v, _ := strings.Cut(line, " ")
		return k, v
	}
	was := map[string]string{}
	for line := range strings.Lines(before) {
		k, v := key(line)
		was[k] = v
	}
	var out []string
	for line := range strings.Lines(after) {
		k, v := key(line)
		if old, ok := was[k]; ok && old != v {
			out = append(out, strings.TrimSpace(line))
		}
	}
	sort.Strings(out)
	return out
}
