package cli

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
	testkitvm "fettle.dev/fettle/internal/testkit/vm"
)

// A trial over ssh on a machine with systemd: the network goes away under the
// connection, the session dies, confirming is impossible; the values come back by
// themselves. Then a power cut with a trial under way and the watchdog gone: the
// next writing fettle takes the trial back.
func TestTrialInVM(t *testing.T) {
	testkitroot.Real(t, "boots a virtual machine")
	t.Parallel()
	program := testkitroot.Program(t, "./cmd/fettle")
	vm := testkitvm.Boot(t, testkitvm.Options{EveryTier: true})
	vm.Put(program, "/usr/local/bin/fettle")
	vm.Must("systemctl disable --now tuned power-profiles-daemon 2>/dev/null; rm -f /etc/tuned/active_profile; true")
	swappiness := func() string { return strings.TrimSpace(vm.Read("/proc/sys/vm/swappiness")) }
	before := swappiness()

	t.Run("the network is cut under ssh", func(t *testing.T) {
		// The session stays open, as that of a person who looks at what the
		// trial does.
		ssh := vm.SSH("fettle tune throughput-performance --try 60s && cat /proc/sys/vm/swappiness && echo on trial && exec sleep 86400")
		out, err := ssh.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := ssh.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ssh.Process.Kill(); _ = ssh.Wait() }()
		var said string
		for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "on trial"; {
			said += lines.Text() + "\n"
		}
		if !strings.HasSuffix(said, "\n10\n") {
			t.Fatalf("over ssh: %q, want it to end with the swappiness 10 of the profile", said)
		}
		vm.SetLink("net0", false)
		defer vm.SetLink("net0", true)
		if got := swappiness(); got != "10" {
			t.Fatalf("swappiness is %s: the trial has ended before the network was cut", got)
		}
		// TCP would notice after minutes; what is left of the session goes now.
		vm.Run("pkill -9 -f '[s]shd(-session)?: root'; pkill -9 -x sleep")
		if !testkitroot.Eventually(5*time.Minute, func() bool { return swappiness() == before }) {
			t.Errorf("swappiness is %s, want %s", swappiness(), before)
		}
		if out := vm.Must("fettle history"); !strings.Contains(out, "trial not confirmed in time") {
			t.Errorf("history:\n%s", out)
		}
	})

	t.Run("the watchdog dies too", func(t *testing.T) {
		const trial = 40 * time.Second
		vm.Must(fmt.Sprintf("fettle tune throughput-performance --try %s && pkill -9 -f '[w]atch-trial'", trial))
		// By now the deadline is set, so it is over this much later.
		over := uptime(t, vm) + trial + 3*time.Second
		if !testkitroot.Eventually(5*time.Minute, func() bool { return uptime(t, vm) > over }) {
			t.Fatal("the clock of the machine stands still")
		}
		if got := swappiness(); got == before {
			t.Fatalf("swappiness is %s already: the watchdog has survived", got)
		}
		vm.Must("fettle tune --set vm.laptop_mode=1")
		if got := swappiness(); got != before {
			t.Errorf("swappiness is %s after the next tune, want %s", got, before)
		}
		vm.Must("fettle undo")
	})

	if os.Getenv("FETTLE_TEST_NIGHTLY") != "1" {
		return // a second boot belongs to the slow matrix
	}
	t.Run("power is cut during a trial", func(t *testing.T) {
		vm.Must("fettle tune throughput-performance --try 1h; sync")
		vm.Kill()
		vm.Start()
		if got := swappiness(); got != before {
			t.Errorf("swappiness is %s after the boot, want %s", got, before)
		}
		vm.Must("fettle tune --set vm.laptop_mode=1")
		if out := vm.Must("fettle status"); strings.Contains(out, "throughput-performance") {
			t.Errorf("the trial is still in force after the boot:\n%s", out)
		}
		vm.Must("fettle undo")
	})
}

// uptime is how long the machine has been up.
func uptime(t *testing.T, vm *testkitvm.VM) time.Duration {
	t.Helper()
	text, _, _ := strings.Cut(vm.Read("/proc/uptime"), " ")
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(seconds * float64(time.Second))
}
