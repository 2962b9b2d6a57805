package vm

import (
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/root"
)

// TestMachine holds all that other tests rely on, in one machine.
func TestMachine(t *testing.T) {
	start := time.Now()
	vm := Boot(t, Options{})
	t.Logf("booted in %.1f s", time.Since(start).Seconds())

	t.Run("hardware", func(t *testing.T) {
		if out := vm.Must("cat /proc/1/comm; systemctl is-active dbus"); out != "systemd\nactive\n" {
			t.Errorf("PID 1 and D-Bus: %q", out)
		}
		if out := vm.Must("ls -d /sys/devices/system/node/node[0-9]* | wc -l; nproc"); out != "4\n4\n" {
			t.Errorf("NUMA nodes, CPUs: %q", out)
		}
		if out := vm.Must("cd /sys/block; ls -d nvme0n1 sda vda vdb"); out != "nvme0n1\nsda\nvda\nvdb\n" {
			t.Errorf("disks: %q", out)
		}
		if out := vm.Must("cd /sys/class/net; ls -d net0 net1"); out != "net0\nnet1\n" {
			t.Errorf("network devices: %q", out)
		}
		if out, _ := vm.Run("systemctl --failed --no-legend"); out != "" {
			t.Errorf("failed units:\n%s", out)
		}
	})

	t.Run("ssh survives nothing when the link is cut, the serial channel does", func(t *testing.T) {
		out, err := vm.SSH("hostname").CombinedOutput()
		if err != nil || string(out) != "fettle-test\n" {
			t.Fatalf("ssh: %v %s", err, out)
		}
		vm.SetLink("net0", false)
		if !root.Eventually(3*time.Minute, func() bool {
			return vm.Must("cat /sys/class/net/net0/carrier || true") != "1\n"
		}) {
			t.Error("the cable is still plugged in")
		}
		vm.SetLink("net0", true)
	})

	t.Run("hot-plug", func(t *testing.T) {
		for _, kind := range []string{"scsi", "virtio", "nvme"} {
			name := vm.AddDisk(kind)
			seen := func() bool {
				return strings.Contains(vm.Must("lsblk --nodeps --noheadings --output SERIAL"), name)
			}
			if !root.Eventually(3*time.Minute, seen) {
				t.Errorf("a new %s disk did not appear", kind)
			}
			vm.RemoveDisk(name)
			if !root.Eventually(3*time.Minute, func() bool { return !seen() }) {
				t.Errorf("a removed %s disk is still there", kind)
			}
		}
	})

	t.Run("power loss keeps what was flushed and no more", func(t *testing.T) {
		before := vm.BootID()
		vm.Must("echo kept >/root/kept; sync /root/kept; echo lost >/root/lost")
		vm.Kill()
		vm.Start()
		if vm.BootID() == before {
			t.Error("the boot id did not change")
		}
		if out := vm.Must("cat /root/kept; cat /root/lost 2>/dev/null || true"); out != "kept\n" {
			t.Errorf("after power loss: %q", out)
		}
	})

	t.Run("reboot", func(t *testing.T) {
		before, start := vm.BootID(), time.Now()
		vm.Must("echo 3 >/proc/sys/vm/swappiness; echo file >/root/file")
		vm.Reboot()
		t.Logf("rebooted in %.1f s", time.Since(start).Seconds())
		if vm.BootID() == before {
			t.Error("the boot id did not change")
		}
		if out := vm.Must("cat /proc/sys/vm/swappiness /root/file"); out != "60\nfile\n" {
			t.Errorf("after the reboot: %q", out)
		}
	})
}
