package vm

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/root"
)

// A machine that never becomes ready fails with what is known of it.
func TestStuck(t *testing.T) {
	// The emergency target does not start the agent.
	vm := build(t, Options{Append: "systemd.unit=emergency.target"})
	err := vm.start(time.Second)
	if err == nil {
		t.Fatal("a machine without its agent was ready")
	}
	for _, want := range []string{"did not boot within", `"status": "running"`, "CPU 0 ", "CPU 3 ",
		"interrupts of CPU 3", "has not greeted", "end of the console:"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the report does not say %q:\n%v", want, err)
		}
	}
	if !root.Eventually(10*time.Minute, func() bool { return strings.Contains(vm.Console(), "emergency mode") }) {
		t.Fatalf("the emergency target did not come up:\n%s", vm.state())
	}
	state := vm.state()
	for _, want := range []string{"sysrq: Show backtrace of all active CPUs", "sysrq: Show Blocked State",
		"sysrq: Show State", "task:systemd "} {
		if console := vm.Console(); !strings.Contains(console, want) {
			t.Errorf("the console does not say %q:\n%s", want, state)
		}
	}
}

func TestWedged(t *testing.T) {
	for console, want := range map[string]bool{
		"": false,
		"[   28.5] watchdog: BUG: soft lockup - CPU#2 stuck for 26s! [swapper/2:0]\n":                                                             false,
		"[   28.5] watchdog: BUG: soft lockup - CPU#2 stuck for 26s! [a:0]\n[  112.5] watchdog: BUG: soft lockup - CPU#2 stuck for 104s! [a:0]\n": true,
		"[  244.6] INFO: task systemd:1 blocked for more than 120 seconds.\n":                                                                     false,
		"[  365.5] INFO: task systemd:1 blocked for more than 241 seconds.\n":                                                                     true,
		"[  365.5] INFO: task mount:150 blocked for more than 241 seconds.\n":                                                                     false,
	} {
		if got := wedged(console); got != want {
			t.Errorf("%q: %t", console, got)
		}
	}
}

// A machine whose kernel says that a CPU is lost is switched on again.
func TestWedgedBoot(t *testing.T) {
	vm := build(t, Options{Ready: "sysinit.target"})
	went := make(chan error)
	go func() {
		// The words are the test's: the kernel of a guest cannot be made to lose a CPU.
		if !root.Eventually(time.Minute, func() bool { _, err := os.Stat(vm.file("qmp")); return err == nil }) {
			went <- errors.New("it was not switched on")
			return
		}
		f, err := os.OpenFile(vm.file("console"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err == nil {
			_, err = f.WriteString("[  112.5] watchdog: BUG: soft lockup - CPU#2 stuck for 104s! [swapper/2:0]\n")
		}
		went <- errors.Join(err, f.Close())
	}()
	first := vm.start(bootTime)
	if err := <-went; err != nil {
		t.Fatal(err)
	}
	if !errors.Is(first, errWedged) || vm.Running() || !strings.Contains(first.Error(), "CPU 3 ") {
		t.Fatalf("it runs: %t, %v", vm.Running(), first)
	}
	vm.Start()
	if out := vm.Must("nproc"); out != "4\n" {
		t.Errorf("CPUs: %q", out)
	}
}

func TestWhereCPUs(t *testing.T) {
	symbols := parseSymbols("ffffffff81000000 T _stext\nffffffff81000100 t default_idle\nffffffff81000120 D not_code\nffffffff81000200 T schedule\n")
	for _, tc := range []struct{ registers, want string }{
		{"CPU#0\nRAX=00 RBX=00\nRIP=ffffffff81000123 RFL=00000246 [---Z-P-] CPL=0 II=0 A20=1 SMM=0 HLT=1\nES =0000\n" +
			"\nCPU#1\nRAX=00\nRIP=00007f0000000000 RFL=00000046 [---Z-P-] CPL=3 II=0 A20=1 SMM=0 HLT=0\n",
			"  CPU 0 sleeps at 0xffffffff81000123 default_idle+0x23, takes interrupts\n" +
				"  CPU 1 runs at 0x7f0000000000 (in a program), takes no interrupts\n"},
		{"no such command", "  no such command\n"},
	} {
		if got := whereCPUs(tc.registers, symbols); got != tc.want {
			t.Errorf("got\n%swant\n%s", got, tc.want)
		}
	}
}
