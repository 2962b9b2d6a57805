package cli

import (
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/tune"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
	testkitvm "fettle.dev/fettle/internal/testkit/vm"
)

// TestGuestInterrupts: a network card on node 1, of which node 0 serves the interrupts and a software
// queue. The plan moves them, with real irqbalance running and without, and undo restores them.
func TestGuestInterrupts(t *testing.T) {
	vm := testkitvm.Boot(t, testkitvm.Options{Queues: true, MemoryMiB: 1024})
	vm.Put(testkitroot.Program(t, "./cmd/fettle"), "/usr/local/bin/fettle")
	vm.Must("systemctl disable --quiet --now tuned.service")
	card := strings.TrimSpace(vm.Must("grep -l 52:54:00:00:00:03 /sys/class/net/*/address | cut -d/ -f5"))
	vm.Must("ip link set " + card + " up")
	device := strings.TrimSpace(vm.Must("basename $(readlink -f /sys/class/net/" + card + "/device)"))
	busy := func() bool {
		send(t, vm, 2*time.Second)
		return vm.Must("awk '/"+device+"-input/ && $2 + $3 + $4 + $5 > 2000' /proc/interrupts") != ""
	}
	if !testkitroot.Eventually(5*time.Minute, busy) {
		t.Fatal("no interrupt of the card is in use")
	}
	rps := "/sys/class/net/" + card + "/queues/rx-0/rps_cpus"
	away := "for n in $(sed -n 's/^ *\\([0-9]*\\):.*" + device + "-[io].*put.*/\\1/p' /proc/interrupts); do echo 0 >/proc/irq/$n/smp_affinity_list; done; echo 1 >" + rps
	vm.Must(away)

	t.Run("alone", func(t *testing.T) {
		const all = "grep -s . /proc/irq/*/smp_affinity_list /sys/class/net/*/queues/*/*_cpus || true"
		before := vm.Must(all)
		applyAdvice(t, vm, card, rps)
		vm.Must("fettle undo")
		if after := vm.Must(all); after != before {
			t.Errorf("before\n%s\nafter undo\n%s", before, after)
		}
	})

	t.Run("irqbalance", func(t *testing.T) {
		const config = "/etc/default/irqbalance"
		const arguments = "tr '\\0' ' ' </proc/$(pidof irqbalance)/cmdline"
		vm.Must("echo 'IRQBALANCE_ARGS=--interval=1' >>" + config + "; systemctl start irqbalance; sleep 2")
		// Stopped, it cannot put the interrupts right before the plan is made.
		vm.Must("kill -STOP $(pidof irqbalance); " + away)
		before := vm.Read(config)
		moved := applyAdvice(t, vm, card, rps)
		banned := "--interval=1"
		for _, n := range moved {
			banned += " --banirq=" + n
		}
		if got := vm.Must(arguments); !strings.HasSuffix(strings.TrimSpace(got), " "+banned) {
			t.Errorf("irqbalance runs as %s, want %s", got, banned)
		}
		placed := vm.Must("cd /proc/irq; grep . " + strings.Join(moved, "/smp_affinity_list ") + "/smp_affinity_list /dev/null")
		send(t, vm, 5*time.Second)
		if got := vm.Must("cd /proc/irq; grep . " + strings.Join(moved, "/smp_affinity_list ") + "/smp_affinity_list /dev/null"); got != placed {
			t.Errorf("irqbalance moved the interrupts from\n%s to\n%s", placed, got)
		}
		vm.Must("fettle undo")
		if after := vm.Read(config); after != before {
			t.Errorf("after undo %s has\n%s", config, after)
		}
		if got := vm.Must(arguments); strings.Contains(got, "banirq") {
			t.Errorf("after undo irqbalance runs as %s", got)
		}
	})
}

// applyAdvice applies the advice for a card, and returns the numbers of the interrupts that it
// moved.
func applyAdvice(t *testing.T, vm *testkitvm.VM, card, rps string) (moved []string) {
	t.Helper()
	advise := func() (plan tune.Plan) {
		out := vm.Must("fettle irq advise " + card + " -o json | tee /root/plan.json")
		if err := json.Unmarshal([]byte(out), &plan); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return plan
	}
	plan := advise()
	vm.Must("fettle tune --plan /root/plan.json && fettle verify")
	for _, st := range plan.Steps {
		if n, _, ok := strings.Cut(st.Setting.Name, "/affinity"); ok && st.Setting.Kind == "irq" {
			moved = append(moved, n)
			if got := vm.Read("/proc/irq/" + n + "/smp_affinity_list"); st.Before.Text != "0" || got != "2\n" && got != "3\n" {
				t.Errorf("interrupt %s is served by CPU %s, before %s", n, got, st.Before.Text)
			}
		}
	}
	if got := vm.Read(rps); got != "c\n" || len(moved) == 0 {
		t.Errorf("RPS %s, %d interrupts moved", got, len(moved))
	}
	for _, st := range advise().Steps {
		for _, done := range plan.Steps {
			if st.Setting == done.Setting {
				t.Errorf("planned again: %s", st.Setting)
			}
		}
	}
	return moved
}

// send sends packets of several flows to the guest's card.
func send(t *testing.T, vm *testkitvm.VM, d time.Duration) {
	t.Helper()
	var flows []net.Conn
	for range 16 {
		c, err := net.Dial("udp6", "[ff02::1%"+vm.Tap()+"]:9")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		flows = append(flows, c)
	}
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, c := range flows {
			_, _ = c.Write(make([]byte, 64)) // lost packets do not matter
		}
	}
}
