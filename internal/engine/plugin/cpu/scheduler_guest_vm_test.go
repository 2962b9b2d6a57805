package cpu_test

import (
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/testkit/plugin"
	"fettle.dev/fettle/internal/testkit/root"
	testkitvm "fettle.dev/fettle/internal/testkit/vm"
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

// guestTasks lists everything that isolation changes: start, real-time priority, policy and CPUs of
// every task, every interrupt, and two variables. It uses three processes, because the guest is
// emulated.
const guestTasks = `awk '{ n = $1; sub(/.*\) /, ""); print n, $20, $38, $39 }' /proc/[0-9]*/task/[0-9]*/stat 2>/dev/null
awk '/^Pid:/ { pid = $2 } /^Cpus_allowed_list:/ { print "cpus-" pid, $2 }' /proc/[0-9]*/task/[0-9]*/status 2>/dev/null
grep . /proc/irq/*/smp_affinity /proc/irq/default_smp_affinity /sys/kernel/debug/sched/migration_cost_ns /sys/kernel/debug/sched/numa_balancing/scan_size_mb | sed 's/:/ /'
`

// TestGuestIsolation isolates two of four CPUs with systemd and control groups version 2: with
// affinities, with the CPUs of systemd's slices, and as TuneD does.
func TestGuestIsolation(t *testing.T) {
	vm := testkitvm.Boot(t, testkitvm.Options{MemoryMiB: 1024})
	vm.Put(root.Program(t, "./cmd/fettle"), "/usr/local/bin/fettle")
	vm.Write("/etc/tuned/guest/tuned.conf", guestProfile)
	vm.Must("systemctl disable --quiet --now tuned.service; mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug")
	vm.Must("cp /bin/sleep /usr/local/bin/fettle-realtime; cp /bin/sleep /usr/local/bin/fettle-left; for p in realtime left; do systemd-run --quiet --property=Type=exec --unit=$p /usr/local/bin/fettle-$p 6000; done")
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
	vm.Must("cp /bin/sleep /usr/local/bin/fettle-new; systemd-run --quiet --property=Type=exec --unit=new /usr/local/bin/fettle-new 6000")
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
	plugin.Proves(t, plugin.QEMU, "scheduler", "isolated_cores")
	for _, o := range []string{"ps_blacklist", "group.realtime", "sched_migration_cost_ns", "numa_balancing_scan_size_mb"} {
		plugin.Proves(t, plugin.QEMU, "scheduler", o)
	}

	t.Run("slices", func(t *testing.T) { slicesOfGuest(t, vm, allowed) })
	t.Run("as TuneD", func(t *testing.T) { isolatesAsTuned(t, vm) })
}

// slicesOfGuest confines systemd's slices, and restores the affinities that the kernel drops then.
func slicesOfGuest(t *testing.T, vm *testkitvm.VM, allowed func(string) string) {
	vm.Write("/etc/tuned/slices/tuned.conf", "[scheduler]\nisolated_cores=2-3\ncgroup_for_isolated_cores=house\n")
	vm.Must("cp /bin/sleep /usr/local/bin/fettle-pinned; cp /bin/sleep /usr/local/bin/fettle-plain; systemd-run --quiet --property=Type=exec --unit=pinned taskset -c 1-3 /usr/local/bin/fettle-pinned 6000")
	waitForPinned := func() bool {
		return strings.Contains(vm.Must("pidof fettle-pinned || true"), "\n") && allowed("fettle-pinned") == "1-3"
	}
	if !root.Eventually(5*time.Minute, waitForPinned) {
		t.Fatal("the pinned service does not start")
	}
	const files = "find /run/systemd/system.control /etc/systemd -type f 2>/dev/null | sort; for u in init.scope system.slice user.slice; do echo $u $(systemctl show -p AllowedCPUs -p NeedDaemonReload $u) $(cat /sys/fs/cgroup/$u/cpuset.cpus 2>/dev/null); done"
	const groups = "ls -d /sys/fs/cgroup/*.slice"
	before, filesBefore, groupsBefore := vm.Must(guestTasks), vm.Must(files), vm.Must(groups)
	if out, code := vm.Run("fettle tune slices 2>&1"); code != 0 {
		t.Fatalf("fettle tune: exit %d\n%s", code, out)
	}
	for _, u := range []string{"init.scope", "system.slice"} {
		if got := vm.Must("cat /sys/fs/cgroup/" + u + "/cpuset.cpus.effective"); got != "0-1\n" {
			t.Errorf("%s may use CPUs %s", u, got)
		}
	}
	if got := allowed("fettle-pinned"); got != "1" && got != "0-1" {
		t.Errorf("a task that was on 1-3 may run on %s", got)
	}
	vm.Must("systemd-run --quiet --property=Type=exec --unit=plain /usr/local/bin/fettle-plain 6000")
	if got := allowed("fettle-plain"); got != "0-1" {
		t.Errorf("a service that starts later may run on %s", got)
	}
	// No user has logged in, so this slice begins only now.
	if got := vm.Must("systemd-run --quiet --slice=user.slice --wait --pipe sed -n 's/Cpus_allowed_list:.//p' /proc/self/status"); got != "0-1\n" {
		t.Errorf("a session may run on %s", got)
	}
	// Nothing in a slice gets out of it by asking.
	if out, code := vm.Run("taskset -cp 2 $(pidof fettle-plain) 2>&1"); code == 0 {
		t.Errorf("a service takes CPU 2: %s", out)
	}
	if got := vm.Must("sed -n 's/Cpus_allowed_list:.//p' /proc/2/status"); got != "0-1\n" {
		t.Errorf("kthreadd, which is in no slice, may run on %s", got)
	}
	// systemd keeps it when it reads its units anew.
	vm.Must("systemctl daemon-reload")
	if out, code := vm.Run("fettle verify 2>&1"); code != 0 {
		t.Errorf("fettle verify: exit %d\n%s", code, out)
	}
	if out, code := vm.Run("fettle undo 2>&1"); code != 0 {
		t.Errorf("fettle undo: exit %d\n%s", code, out)
	}
	if got := allowed("fettle-plain"); got != "0-3" {
		t.Errorf("after undo the service that started meanwhile may run on %s", got)
	}
	if left := moved(before, vm.Must(guestTasks)); len(left) > 0 {
		t.Errorf("undo leaves %d places changed:\n%s", len(left), strings.Join(left, "\n"))
	}
	if diff := cmp.Diff(filesBefore, vm.Must(files)); diff != "" {
		t.Errorf("undo leaves systemd changed:\n%s", diff)
	}
	// The session above began its slice: that was not undo's to end.
	vm.Must("systemctl stop user.slice")
	if diff := cmp.Diff(groupsBefore, vm.Must(groups)); diff != "" {
		t.Errorf("there are other slices than before:\n%s", diff)
	}
	plugin.Proves(t, plugin.QEMU, "scheduler", "cgroup_for_isolated_cores")
}

// isolatesAsTuned applies one profile with TuneD and with fettle, and compares the CPUs of every
// task and every interrupt.
func isolatesAsTuned(t *testing.T, vm *testkitvm.VM) {
	vm.Write("/etc/tuned/both/tuned.conf", "[scheduler]\nruntime=0\nisolated_cores=2-3\nps_blacklist=^fettle-left$\ngroup.realtime=0:f:5:8:/fettle-realtime \n")
	// Debian 12 has no Python binding of perf; without events TuneD does not
	// follow new tasks, which runtime=0 rules out anyway.
	vm.Write("/usr/lib/python3/dist-packages/perf.py", "def cpu_map():\n    return list(range(4))\n")
	vm.Must("sed -i 's/^[# ]*daemon *=.*/daemon = 0/' /etc/tuned/tuned-main.conf && grep -q '^daemon = 0' /etc/tuned/tuned-main.conf")
	before := vm.Must(guestTasks)
	if out, code := vm.Run("fettle tune both 2>&1"); code != 0 {
		t.Fatalf("fettle tune: exit %d\n%s", code, out)
	}
	ours := places(vm.Must(guestTasks))
	if out, code := vm.Run("fettle undo 2>&1"); code != 0 {
		t.Fatalf("fettle undo: exit %d\n%s", code, out)
	}
	if left := moved(before, vm.Must(guestTasks)); len(left) > 0 {
		t.Fatalf("undo leaves %d places changed:\n%s", len(left), strings.Join(left, "\n"))
	}
	r, err := vm.Exec(testkitvm.Request{TimeoutS: 900, Argv: []string{"tuned", "--no-dbus", "--log", "--profile", "both"}})
	if err != nil || r.Code != 0 {
		t.Fatalf("tuned: %v, exit %d\n%s%s", err, r.Code, r.Stdout, r.Stderr)
	}
	theirs := places(vm.Must(guestTasks))
	// TuneD looks at the interrupts with a handler; fettle also at those
	// whose driver comes later.
	handled := vm.Must("sed -n 's|^ *\\([0-9]*\\):.*|/proc/irq/\\1/smp_affinity|p' /proc/interrupts")
	compared, isolated := 0, 0
	for place, was := range places(before) {
		a, thereA := theirs[place]
		b, thereB := ours[place]
		if !thereA || !thereB {
			continue // it has ended
		}
		compared++
		if b != was {
			isolated++
		}
		if strings.HasSuffix(place, "/smp_affinity") && !strings.Contains(handled, place+"\n") {
			if a != was || b != was && b != "3" {
				t.Errorf("%s, which nobody handles, was %q: TuneD left %q, fettle %q", place, was, a, b)
			}
			continue
		}
		if a != b {
			t.Errorf("%s was %q: TuneD left %q, fettle %q", place, was, a, b)
		}
	}
	t.Logf("%d places compared, of which fettle changed %d", compared, isolated)
	if compared < 100 || isolated < 20 {
		t.Errorf("only %d places compared, of which %d changed", compared, isolated)
	}
}

// places parses the output of guestTasks, by name.
func places(list string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(list) {
		k, v := place(strings.TrimSpace(line))
		out[k] = v
	}
	return out
}

// place splits one line of guestTasks.
func place(line string) (name, value string) {
	if f := strings.Fields(line); len(f) > 2 {
		return f[0] + "@" + f[1], line
	}
	name, value, _ = strings.Cut(line, " ")
	return name, value
}

// moved returns the places that still exist and have changed, with their present values.
func moved(before, after string) []string {
	was := places(before)
	var out []string
	for k, v := range places(after) {
		if old, ok := was[k]; ok && old != v {
			out = append(out, k+" "+v)
		}
	}
	sort.Strings(out)
	return out
}
