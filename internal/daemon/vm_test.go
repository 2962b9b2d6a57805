package daemon_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/root"
	testkitvm "fettle.dev/fettle/internal/testkit/vm"
)

// TestMachine follows one machine with systemd through what happens to a tuned
// machine: the other tuner is taken over, a disk comes, the power goes in the
// middle, a trial meets a reboot, the clock jumps, and at the end all is as it
// was.
func TestMachine(t *testing.T) {
	root.Real(t, "boots a virtual machine")
	program := root.Program(t, "./cmd/fettle")
	vm := testkitvm.Boot(t, testkitvm.Options{})
	vm.Put(program, "/usr/bin/fettle")
	vm.Must("chmod 755 /usr/bin/fettle")
	// A busy machine emulates slowly, TuneD's Python above all.
	const patience = 8 * time.Minute
	run := func(command string) (string, int) {
		r, err := vm.Exec(testkitvm.Request{TimeoutS: patience.Seconds(), Argv: []string{"sh", "-c", command + " 2>&1"}})
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		return string(r.Stdout) + string(r.Stderr), r.Code
	}
	said := func() string {
		out, _ := vm.Run("journalctl --no-pager -b -u fettle -u fettle-recover -u tuned | tail -40; fettle history; fettle status")
		return out
	}
	eventually := func(t *testing.T, command, want string) {
		t.Helper()
		var got string
		if !root.Eventually(patience, func() bool {
			got, _ = vm.Run(command)
			return strings.TrimSpace(got) == want
		}) {
			t.Fatalf("%s: %q, want %q\n%s", command, got, want, said())
		}
	}

	const activeProfile = "busctl call com.redhat.tuned /Tuned com.redhat.tuned.control active_profile"

	ok := t.Run("takes over from TuneD", func(t *testing.T) {
		vm.Must("echo virtual-guest >/etc/tuned/active_profile; echo manual >/etc/tuned/profile_mode; systemctl enable tuned; systemctl start --no-block tuned")
		eventually(t, "cat /proc/sys/vm/swappiness", "30")
		if out, code := run("fettle tune throughput-performance"); code != 4 || !strings.Contains(out, "TuneD is in force") {
			t.Fatalf("beside TuneD: exit %d\n%s", code, out)
		}
		if out, code := run("fettle tune --take-over --persist throughput-performance"); code != 0 || strings.Contains(out, "will be lost at reboot") {
			t.Fatalf("take over: exit %d\n%s\n%s", code, out, said())
		}
		eventually(t, "systemctl is-active tuned fettle; systemctl is-enabled tuned fettle fettle-recover", "inactive\nactive\ndisabled\nenabled\nenabled")
		eventually(t, "cat /proc/sys/vm/swappiness", "10")
		eventually(t, "cat /etc/tuned/active_profile", "throughput-performance")
		eventually(t, activeProfile, `s "throughput-performance"`)
	}) && t.Run("who writes is named", func(t *testing.T) {
		watched := func(id string) {
			eventually(t, "fettle why -o json "+id+` 2>/dev/null | grep -c '"watching": true'`, "1")
		}
		watched("vm.swappiness")
		vm.Must("sysctl -q -w vm.swappiness=44")
		eventually(t, "fettle why vm.swappiness 2>/dev/null | grep -c 'last writer: sysctl (process [0-9].* from 10 to 44$'", "1")
		eventually(t, "fettle verify 2>/dev/null | grep -c 'sysctl (process [0-9].* wrote 44 at '", "1")
		eventually(t, "journalctl --no-pager -b -t fettle | grep -c 'drift: sysctl:vm.swappiness is 44.*written by sysctl (process [0-9]'", "1")
		readAhead := "/sys/block/vda/queue/read_ahead_kb"
		watched(readAhead)
		vm.Must(`sh -c "echo 512 >` + readAhead + `; true"`)
		eventually(t, "fettle why "+readAhead+" 2>/dev/null | grep -c 'last writer: sh (process [0-9].* from 4096 to 512$'", "1")
		vm.Must("sysctl -q -w vm.swappiness=10; echo 4096 >" + readAhead)
		if out, code := run("fettle verify"); code != 0 {
			t.Fatalf("after both were set back: exit %d\n%s", code, out)
		}
	}) && t.Run("a disk that comes gets its values", func(t *testing.T) {
		name := vm.AddDisk("scsi")
		disk := fmt.Sprintf(`/sys/block/$(lsblk --nodeps --noheadings --output NAME,SERIAL | awk '$2=="%s"{print $1}')/queue/read_ahead_kb`, name)
		eventually(t, "cat "+disk, "4096")
		vm.RemoveDisk(name)
	}) && t.Run("applied at boot", func(t *testing.T) {
		vm.Reboot()
		eventually(t, "systemctl is-active fettle fettle-recover tuned", "active\nactive\ninactive")
		eventually(t, "cat /proc/sys/vm/swappiness", "10")
		eventually(t, "cat /sys/block/vda/queue/read_ahead_kb", "4096")
		eventually(t, "systemctl --failed --no-legend", "")
	}) && t.Run("the power goes in the middle", func(t *testing.T) {
		vm.Must("mkdir -p /etc/tuned/slow")
		vm.Write("/etc/tuned/slow/tuned.conf", `[sysctl]
vm.swappiness=33
[modules]
dummy=numdummies=3
[script]
priority=10
script=${i:PROFILE_DIR}/slow.sh
`)
		vm.Write("/etc/tuned/slow/slow.sh", "#!/bin/sh\n[ \"$1\" = start ] && { sync; sleep 600; }\nexit 0\n")
		vm.Must("chmod 755 /etc/tuned/slow/slow.sh; cp -a /etc/modprobe.d /root/modprobe.d; sync")
		vm.Must("systemd-run --quiet --no-block fettle tune slow")
		eventually(t, "cat /proc/sys/vm/swappiness; pgrep -c slow.sh", "33\n1")
		if out := vm.Must("grep -rl numdummies /etc/modprobe.d | wc -l"); out != "1\n" {
			t.Fatalf("the transaction has not written its file: %s\n%s", out, said())
		}
		vm.Kill()
		vm.Start()
		eventually(t, "diff -r /root/modprobe.d /etc/modprobe.d && echo same", "same")
		// By name: of a process that has ended journald no longer learns the unit.
		eventually(t, "journalctl --no-pager -b -t fettle | grep -c 'taken back'", "1")
		eventually(t, "cat /proc/sys/vm/swappiness", "10")
		eventually(t, activeProfile, `s "throughput-performance"`)
	}) && t.Run("a trial ends with its boot", func(t *testing.T) {
		vm.Must("fettle tune --try 2h virtual-guest")
		eventually(t, "cat /proc/sys/vm/swappiness; cat /etc/tuned/active_profile", "30\nvirtual-guest")
		vm.Reboot()
		eventually(t, "cat /proc/sys/vm/swappiness; cat /etc/tuned/active_profile", "10\nthroughput-performance")
		eventually(t, "fettle status | head -1 | cut -d' ' -f3", "throughput-performance")
	}) && t.Run("the schedule follows a clock that jumps", func(t *testing.T) {
		vm.Must(`fettle schedule add "2031-01-01 08:00" latency-performance`)
		eventually(t, "cat /etc/tuned/active_profile", "throughput-performance")
		vm.Must(`date -s "2031-01-01 07:59:50"`)
		eventually(t, "cat /etc/tuned/active_profile", "latency-performance")
		eventually(t, "od -An -tu4 /dev/cpu_dma_latency", "3")
		vm.Must(`fettle schedule remove 2031-01-01\ 08:00`)
	}) && t.Run("undo gives it back to TuneD", func(t *testing.T) {
		out, code := run("fettle undo")
		if code != 0 {
			t.Fatalf("undo: exit %d\n%s\n%s", code, out, said())
		}
		eventually(t, "systemctl is-active fettle tuned; systemctl is-enabled tuned", "inactive\nactive\nenabled")
		eventually(t, activeProfile, `s "virtual-guest"`)
		eventually(t, "cat /proc/sys/vm/swappiness", "30")
		eventually(t, "ls /etc/systemd/system | grep ^fettle", "fettle-agent.service") // the test's own
	})
	if !ok {
		t.Logf("at the end:\n%s", said())
	}
}
