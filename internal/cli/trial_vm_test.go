package cli

import (
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testroot"
	"fettle.dev/fettle/internal/testvm"
)

// A trial over ssh on a machine with systemd: the network goes away under the
// connection, the session dies, nobody can confirm; the values come back by
// themselves. Then a power cut with a trial under way and the watchdog gone: the
// next writing fettle takes the trial back.
func TestTrialInVM(t *testing.T) {
	if testing.Short() {
		t.Skip("boots a virtual machine")
	}
	program := testroot.Program(t, "./cmd/fettle")
	vm := testvm.Boot(t, testvm.Options{EveryTier: true})
	vm.Put(program, "/usr/local/bin/fettle")
	vm.Must("systemctl disable --now tuned power-profiles-daemon 2>/dev/null; rm -f /etc/tuned/active_profile; true")
	swappiness := func() string { return strings.TrimSpace(vm.Read("/proc/sys/vm/swappiness")) }
	before := swappiness()

	t.Run("the network is cut under ssh", func(t *testing.T) {
		ssh := vm.SSH("fettle", "tune", "throughput-performance", "--try", "30s")
		if out, err := ssh.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		vm.SetLink("net0", false)
		defer vm.SetLink("net0", true)
		if got := swappiness(); got == before {
			t.Fatalf("swappiness is %s: nothing is on trial", got)
		}
		vm.Run("pkill -9 sshd-session; pkill -9 -f '[s]shd: root'")
		if !testroot.Eventually(3*time.Minute, func() bool { return swappiness() == before }) {
			t.Errorf("swappiness is %s, want %s", swappiness(), before)
		}
		if out := vm.Must("fettle history"); !strings.Contains(out, "trial not confirmed in time") {
			t.Errorf("history:\n%s", out)
		}
	})

	t.Run("the watchdog dies too", func(t *testing.T) {
		vm.Must("fettle tune throughput-performance --try 10s && pkill -9 -f '[w]atch-trial'")
		time.Sleep(15 * time.Second)
		if got := swappiness(); got == before {
			t.Fatalf("swappiness is %s already: the watchdog has survived", got)
		}
		vm.Must("fettle tune --set vm.laptop_mode=1")
		if got := swappiness(); got != before {
			t.Errorf("swappiness is %s after the next tune, want %s", got, before)
		}
		vm.Must("fettle undo")
	})

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
