package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// bootSystemd is a script that makes a tree from the Debian root $1 in the directory $2, with the
// program $3, and starts systemd in it. Its cgroups, processes and mounts end with it. /sys is
// read-only.
const bootSystemd = `set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$2"
cd "$2"
mkdir up work tree
mount -t overlay overlay -o lowerdir="$1",upperdir=up,workdir=work tree
cp "$3" tree/usr/local/bin/fettle
cd tree
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
for d in run tmp dev; do mount -t tmpfs -o mode=755 tmpfs $d; done
for d in null zero random urandom full tty; do touch dev/$d; mount --bind /dev/$d dev/$d; done
ln -s /proc/self/fd dev/fd
rm -f etc/systemd/system/multi-user.target.wants/*
for name in soon kept; do
	printf '[Service]\nType=oneshot\nExecStart=/bin/sh -c "echo >>/root/%s"\n' $name >etc/systemd/system/$name.service
done
printf '[Timer]\nOnCalendar=*:*:0/2\nAccuracySec=1ms\n' >etc/systemd/system/soon.timer
printf '[Timer]\nOnCalendar=*:*:0/2\nAccuracySec=1ms\nPersistent=true\n' >etc/systemd/system/kept.timer
printf '[Service]\nExecStart=/bin/sh -c "while echo >>/root/cron; do sleep 0.1; done"\n' >etc/systemd/system/cron.service
exec unshare -C chroot . /usr/bin/env -i container=fettle PATH=/usr/sbin:/usr/bin:/sbin:/bin /usr/lib/systemd/systemd --unit=basic.target
`

// systemdIn is a systemd in namespaces of its own.
type systemdIn struct {
	t   *testing.T
	pid string
}

// newSystemd starts a systemd, which ends with the test.
func newSystemd(t *testing.T) *systemdIn {
	t.Helper()
	testkitroot.Disposable(t)
	tree, program := testkitroot.Dir(t), testkitroot.Program(t, "./cmd/fettle")
	cmd := exec.Command("unshare", "-m", "-p", "-u", "-i", "-n", "--fork", "--kill-child", "sh", "-c", bootSystemd, "sh", tree, t.TempDir(), program)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	s := &systemdIn{t: t}
	await(t, "systemd", func() bool {
		children, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "task", strconv.Itoa(cmd.Process.Pid), "children"))
		s.pid = strings.TrimSpace(string(children))
		if s.pid == "" {
			return false
		}
		out, _ := s.run("systemctl is-system-running")
		return strings.Contains(out, "running") || strings.Contains(out, "degraded")
	})
	return s
}

// run runs a shell command under the systemd.
func (s *systemdIn) run(command string) (string, error) {
	out, err := exec.Command("nsenter", "-t", s.pid, "-m", "-p", "-u", "-i", "-n", "-C", "-r", "-w", "sh", "-c", command).CombinedOutput()
	return string(out), err
}

func (s *systemdIn) must(command string) string {
	s.t.Helper()
	out, err := s.run(command)
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return out
}

// state returns whether the timers are active and cron is frozen.
func (s *systemdIn) state() string {
	out, _ := s.run("systemctl is-active soon.timer kept.timer once.timer; systemctl show --property=FreezerState cron.service; cat /proc/sys/vm/swappiness")
	return strings.Join(strings.Fields(out), " ")
}

// TestQuietUnderSystemd stops real timers and freezes a cron. Each missed job is named, and runs
// once afterwards, whether its timer or fettle starts it; also after kill -9, and after undo.
func TestQuietUnderSystemd(t *testing.T) {
	testkitroot.Untuned(t)
	s := newSystemd(t)
	s.must("systemctl start soon.timer kept.timer cron.service; systemd-run --unit once --on-active 1h true")
	before := s.state()
	if !strings.HasPrefix(before, "active active active FreezerState=running") {
		t.Fatal(before)
	}
	const quiet = "inactive inactive active FreezerState=frozen 0" // a timer of systemd-run would be gone
	if out := s.must("fettle quiet --dry-run"); !strings.Contains(out, "limit: once.timer of systemd-run runs on, because it would be gone once stopped") {
		t.Errorf("%s", out)
	}

	// While a command runs, nothing is started. All CPUs are measured, so no task is moved.
	out := s.must(`fettle quiet --cpus $(cat /sys/devices/system/cpu/online) -- sh -c 'systemctl is-active soon.timer; rm -f /root/*; sleep 3; ls /root; echo ended'`)
	if !strings.Contains(out, "\ninactive\nended\n") {
		t.Errorf("something was started:\n%s", out)
	}
	// On a busy machine the timer elapses once more before fettle starts its job.
	for _, want := range []string{`missed: soon\.service \(soon\.timer\), due [0-9:]+: (started now|its timer has started it)\n`, `missed: kept\.service \(kept\.timer\), due [0-9:]+: its timer has started it\n`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
	if now := s.state(); now != before {
		t.Errorf("%s, want %s", now, before)
	}

	// kill -9: the watchdog starts what was missed.
	s.must(`fettle quiet --cpus $(cat /sys/devices/system/cpu/online) -- sh -c 'echo >/run/works; sleep 1000' >/dev/null 2>&1 & echo $! >/run/pid`)
	await(t, "the command", func() bool { out, err := s.run("test -e /run/works"); return err == nil && out == "" })
	if now := s.state(); now != quiet {
		t.Errorf("%s, want %s", now, quiet)
	}
	time.Sleep(2500 * time.Millisecond) // a job becomes due
	s.must("rm -f /root/*; kill -9 $(cat /run/pid)")
	await(t, "the machine as it was", func() bool { return s.state() == before })
	await(t, "the missed jobs", func() bool {
		out, _ := s.run("ls /root")
		return strings.Fields(out) != nil && strings.Contains(out, "soon") && strings.Contains(out, "kept")
	})

	await(t, "the missed jobs in the log", func() bool {
		out, _ := s.run("journalctl --no-pager -t fettle")
		return strings.Contains(out, "missed: soon.service (soon.timer), due ")
	})

	// kill -9 of the watchdog, too: the next fettle that writes starts what was missed.
	s.must(`rm /run/works; fettle quiet --cpus $(cat /sys/devices/system/cpu/online) -- sh -c 'echo $$ >/run/work; echo >/run/works; exec sleep 1000' >/dev/null 2>&1 & echo $! >/run/pid`)
	await(t, "the command", func() bool { out, err := s.run("test -e /run/works"); return err == nil && out == "" })
	time.Sleep(2500 * time.Millisecond)
	s.must("rm -f /root/*; kill -9 $(grep -l watch-[e]xperiment /proc/[0-9]*/cmdline | cut -d/ -f3) $(cat /run/pid) $(cat /run/work)")
	s.must("fettle tune --set vm.dirty_ratio=25; fettle undo")
	if now := s.state(); now != before {
		t.Errorf("%s, want %s", now, before)
	}
	await(t, "the missed jobs after both were killed", func() bool {
		out, _ := s.run("journalctl --no-pager -t fettle | grep -c 'missed: soon.service'; ls /root")
		return strings.HasPrefix(out, "2\n") && strings.Contains(out, "soon")
	})

	// The state that stays, and undo.
	if out, _ := s.run("fettle quiet --cpus $(cat /sys/devices/system/cpu/online); fettle status"); !strings.Contains(out, "until fettle undo") {
		t.Errorf("%s", out)
	}
	if now := s.state(); now != quiet {
		t.Errorf("%s, want %s", now, quiet)
	}
	time.Sleep(2500 * time.Millisecond)
	if out := s.must("fettle undo"); !strings.Contains(out, "missed: soon.service") {
		t.Errorf("%s", out)
	}
	if now := s.state(); now != before {
		t.Errorf("%s, want %s", now, before)
	}
}
