package balance

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/plugin/cpu"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/measure/placement"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
	testkitvm "fettle.dev/fettle/internal/testkit/vm"
	"fettle.dev/fettle/internal/unit"
)

// workers are processes that work, each with memory interleaved over four nodes of 1 GiB.
type workers struct {
	vm   *testkitvm.VM
	pids []string
}

// startWorkers starts as many processes with so many MiB each.
func startWorkers(vm *testkitvm.VM, number, mib int) *workers {
	f := &workers{vm: vm}
	for i := range number {
		vm.Must(fmt.Sprintf("rm -f /run/hold%d; systemd-run --quiet --unit=hold%[1]d --property=Nice=19 --setenv=FETTLE_TEST_BALANCE=hold --property=StandardOutput=file:/run/hold%[1]d /usr/local/bin/hold %d work", i, mib))
		vm.Must(fmt.Sprintf("until grep -q ready /run/hold%d; do sleep 1; done", i))
		f.pids = append(f.pids, strings.TrimSpace(vm.Must(fmt.Sprintf("systemctl show --property=MainPID --value hold%d", i))))
	}
	return f
}

func (f *workers) stop() { f.vm.Must("systemctl stop 'hold*'") }

func (f *workers) spreads() map[string]cpu.Spread {
	all := map[string]cpu.Spread{}
	for _, pid := range f.pids {
		all[pid] = f.spread(pid)
	}
	return all
}

// spread returns the memory of a process by node.
func (f *workers) spread(pid string) cpu.Spread {
	all := cpu.Spread{}
	fact.ParseNumaMaps(f.vm.Must("cat /proc/"+pid+"/numa_maps"), 4096, func(m *fact.NumaMapping) {
		for _, n := range m.Nodes {
			all[n.Node] += n.Pages * m.PageBytes
		}
	})
	return all
}

// cpus returns the CPUs of all threads of a process: one line, or one for each that differs.
func (f *workers) cpus(pid string) string {
	return strings.TrimSpace(f.vm.Must("sed -n 's/Cpus_allowed_list:.//p' /proc/" + pid + "/task/*/status | sort -u"))
}

// local returns the share of the memory that is on the nodes of the CPUs, in percent: 0 while it
// may use all of them. In the guest, node N has CPU N.
func (f *workers) local(pid string) float64 {
	nodes, err := unit.ParseCPUList(f.cpus(pid))
	if err != nil || nodes.Len() == 4 {
		return 0
	}
	s, here := f.spread(pid), int64(0)
	for n, bytes := range s {
		if nodes.Has(n) {
			here += bytes
		}
	}
	return 100 * float64(here) / float64(s.Total())
}

// TestBalanceInGuest balances four processes in a guest with four nodes. At least 95 % of the memory
// of each is then on the node of its CPUs, and undo restores all. numad does the same next to it.
func TestBalanceInGuest(t *testing.T) {
	programs := testkitroot.Numactl(t)
	vm := testkitvm.Boot(t, testkitvm.Options{MemoryMiB: 4096})
	vm.Put(testkitroot.Program(t, "./cmd/fettle"), "/usr/local/bin/fettle")
	vm.Put(testkitvm.Tests(t, "."), "/usr/local/bin/hold")
	vm.Put(programs+"/numad", "/usr/local/bin/numad")
	vm.Must("systemctl disable --quiet --now tuned.service 2>/dev/null; true")
	// The kernel's balancing is on, but begins after an hour: it would move the pages too.
	vm.Must("mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug; cd /sys/kernel/debug/sched/numa_balancing && for f in scan_delay_ms scan_period_max_ms scan_period_min_ms; do echo 3600000 >$f; done; sysctl -w kernel.numa_balancing=1")

	f := startWorkers(vm, 4, 350)
	vm.Must("sync; echo 3 >/proc/sys/vm/drop_caches") // the programs that were put there, in active page cache
	before := f.spreads()
	for _, pid := range f.pids {
		t.Logf("%s: %s on CPUs %s", pid, before[pid], f.cpus(pid))
	}
	// At 85 %, a whole CPU is more than a node of this guest has.
	out, code := vm.RunFor(time.Hour, "fettle numa balance --all -u 120 --yes --output json 2>/run/said; code=$?; cat /run/said >&2; exit $code")
	var r Report
	if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil || r.Moves() != 4 {
		t.Fatalf("exit %d, %v\n%s%s", code, err, out, vm.Read("/run/said"))
	}
	t.Log(r.Headline.Lines)
	for _, d := range r.Processes {
		t.Logf("%d to node %s: %s %s", d.PID, d.Nodes, d.Result, d.Why)
	}
	for _, pid := range f.pids {
		local := f.local(pid)
		if t.Logf("%s: %.1f %% local: %s on CPUs %s", pid, local, f.spread(pid), f.cpus(pid)); local < 95 {
			t.Errorf("%s: %.1f %% local, want 95", pid, local)
		}
	}
	if got := strings.TrimSpace(vm.Read("/proc/sys/kernel/numa_balancing")); got != "1" {
		t.Errorf("kernel.numa_balancing is %s afterwards", got)
	}
	if out, _ := vm.RunFor(time.Hour, "fettle numa balance --all -u 120 --dry-run"); !strings.Contains(out, "nothing to do: 4 processes left") {
		t.Errorf("a second time: %s", out)
	}
	f.undone(t, "undo", before)
	f.stop()
	t.Run("killed", func(t *testing.T) { startWorkers(vm, 1, 192).killed(t) })

	// numad moves one process in each pass.
	f = startWorkers(vm, 4, 350)
	vm.Must("mkdir -p /run/numad && numad -u 120 -i 5:15 -l 6")
	done := func() (all int) {
		for _, pid := range f.pids {
			if f.local(pid) >= 95 {
				all++
			}
		}
		return all
	}
	testkitroot.Eventually(10*time.Minute, func() bool { return done() == 4 })
	for _, pid := range f.pids {
		t.Logf("numad: %s: %.1f %% local: %s on CPUs %s", pid, f.local(pid), f.spread(pid), f.cpus(pid))
	}
	t.Logf("numad's log:\n%s", vm.Must("grep -E 'Advising|pages|ove' /var/log/numad.log | tail -n 40; true"))
	vm.Must("numad -i 0; true")
	f.stop()
}

// TestDropInsInGuest: two services have memory interleaved over four nodes. After the drop-ins of
// fettle numa advise and a restart, the memory of each is on the node of its CPUs.
func TestDropInsInGuest(t *testing.T) {
	testkitroot.Nightly(t, "restarts services in a guest of four nodes")
	vm := testkitvm.Boot(t, testkitvm.Options{MemoryMiB: 4096})
	vm.Put(testkitroot.Program(t, "./cmd/fettle"), "/usr/local/bin/fettle")
	vm.Put(testkitvm.Tests(t, "."), "/usr/local/bin/hold")
	vm.Must("sysctl -w kernel.numa_balancing=0") // it would move the pages meanwhile
	f := &workers{vm: vm}
	ready := func(unit string) {
		vm.Must(fmt.Sprintf("until grep -q ready /run/%s; do sleep 1; done", unit))
		f.pids = append(f.pids, strings.TrimSpace(vm.Must("systemctl show --property=MainPID --value "+unit)))
	}
	units := []string{"held0", "held1"}
	for _, unit := range units {
		// A node has one CPU, and a process should use at most 85 % of its node.
		vm.Write("/etc/systemd/system/"+unit+".service", "[Service]\nEnvironment=FETTLE_TEST_BALANCE=hold\nExecStart=/usr/local/bin/hold 350 work\nCPUQuota=70%\nStandardOutput=truncate:/run/"+unit+"\n")
		vm.Must("systemctl daemon-reload; systemctl start " + unit)
		ready(unit)
	}
	for _, pid := range f.pids {
		t.Logf("%s: %s on CPUs %s", pid, f.spread(pid), f.cpus(pid))
	}
	var plan placement.Plan
	out := vm.Must("sleep 10; fettle numa advise --output json")
	if err := json.Unmarshal([]byte(out), &plan); err != nil || len(plan.Moves) != 2 {
		t.Fatalf("%v\n%s", err, out)
	}
	f.pids = nil
	for _, m := range plan.Moves {
		if m.Text.Kind != "systemd" || len(m.Text.Omitted) > 0 {
			t.Fatalf("%+v", m)
		}
		vm.Must("mkdir -p " + path.Dir(m.Text.File))
		vm.Write(m.Text.File, m.Text.Content)
		vm.Must("rm /run/" + strings.TrimSuffix(m.Unit, ".service") + "; " + m.Text.Then)
		t.Logf("%s:\n%s", m.Text.File, m.Text.Content)
	}
	for _, unit := range units {
		ready(unit)
	}
	for _, pid := range f.pids {
		local := f.local(pid)
		if t.Logf("%s: %.1f %% local: %s on CPUs %s", pid, local, f.spread(pid), f.cpus(pid)); local < 95 {
			t.Errorf("%s: %.1f %% local, want 95", pid, local)
		}
	}
	if f.cpus(f.pids[0]) == f.cpus(f.pids[1]) {
		t.Errorf("both are on CPU %s", f.cpus(f.pids[0]))
	}
}

// undone runs fettle undo, and checks that everything is as before.
func (f *workers) undone(t *testing.T, when string, before map[string]cpu.Spread) {
	t.Helper()
	if out, code := f.vm.RunFor(time.Hour, "fettle undo 2>&1"); code != 0 {
		t.Errorf("%s: exit %d\n%s", when, code, out)
	}
	for _, pid := range f.pids {
		now := f.spread(pid)
		if cpus, away := f.cpus(pid), now.Away(before[pid]); cpus != "0-3" || away > 0.05 {
			t.Errorf("%s: process %s has CPUs %s and memory %s, before 0-3 and %s", when, pid, cpus, now, before[pid])
		}
	}
	if got := strings.TrimSpace(f.vm.Read("/proc/sys/kernel/numa_balancing")); got != "1" {
		t.Errorf("%s: kernel.numa_balancing is %s", when, got)
	}
}

// killed kills the move of a process at every third point at which a crash could leave incomplete
// work, and undoes it. The process is smaller, because pages move slowly in the guest.
func (f *workers) killed(t *testing.T) {
	defer f.stop()
	off := false
	for n := 1; ; n += 3 {
		before := f.spreads()
		out, code := f.vm.RunFor(time.Hour, fmt.Sprintf("FETTLE_TEST_BALANCE=move hold /var/lib/fettle %d %s 1 1 2>&1", n, f.pids[0]))
		off = off || strings.TrimSpace(f.vm.Read("/proc/sys/kernel/numa_balancing")) == "0"
		f.undone(t, fmt.Sprintf("killed at point %d", n), before)
		if code == 0 {
			t.Logf("%d points", n)
			if n < 20 || !off {
				t.Errorf("%d points; numa_balancing seen off: %v", n, off)
			}
			return
		}
		if code != 137 || n > 200 {
			t.Fatalf("point %d: exit %d\n%s", n, code, out)
		}
	}
}
