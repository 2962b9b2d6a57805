package table

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	engineplugin "fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/plugin/device"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/plugin"
	"fettle.dev/fettle/internal/testkit/root"
	testkitvm "fettle.dev/fettle/internal/testkit/vm"
)

// TestInVM runs the tests below on a machine that has udev, ATA, NVMe and SCSI
// disks.
func TestInVM(t *testing.T) {
	root.Real(t, "boots a machine")
	program := testkitvm.Tests(t, ".")
	vm := testkitvm.Boot(t, testkitvm.Options{ATA: true, MemoryMiB: 1024})
	vm.Must("modprobe -a loop ahci")
	// The link comes up on its own time.
	vm.Must("for n in $(seq 300); do test -e /sys/block/sdb && break; sleep 1; done; udevadm settle; test -e /sys/block/sdb")
	vm.Put(program, "/root/table.test")
	out, code := vm.Run("cd /root && " + plugin.InVM + "=1 " + plugin.ProofFile + "=/root/proof FETTLE_TEST_DISPOSABLE=1 ./table.test -test.v -test.run '^(TestUdevAsUdevadm|TestDisksOfTheVM|TestATADisk|TestOnThisKernel|TestKernelRefusesToo)$' 2>&1")
	if code != 0 || strings.Count(out, "--- PASS") < 5 {
		t.Errorf("exit code %d\n%s", code, out)
	}
	for line := range strings.Lines(vm.Must("cat /root/proof")) {
		if f := strings.Split(line, "\t"); len(f) == 4 {
			plugin.Proves(t, plugin.Ground(f[0]), f[1], f[2])
		}
	}
}

func onlyInVM(t *testing.T) {
	t.Helper()
	if os.Getenv(plugin.InVM) == "" {
		t.Skip("is run by TestInVM")
	}
}

// TestUdevAsUdevadm compares the properties with the output of udev's own program, for every device
// that devices_udev_regex can select.
func TestUdevAsUdevadm(t *testing.T) {
	onlyInVM(t)
	h := host.Live()
	compared := 0
	for _, pattern := range []string{"/sys/class/block/*", "/sys/class/net/*", "/sys/bus/cpu/devices/*", "/sys/bus/scsi/devices/*", "/sys/bus/usb/devices/*"} {
		dirs, err := host.Glob(h.Files, pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range dirs {
			out, err := exec.Command("udevadm", "info", "--query=property", "--path="+dir).Output()
			if err != nil {
				t.Fatalf("%s: %v", dir, err)
			}
			want := map[string]string{}
			for line := range strings.Lines(string(out)) {
				k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
				want[k] = v
			}
			got, err := engineplugin.UdevProperties(h, dir)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(anyOrder(want), anyOrder(got)); diff != "" {
				t.Errorf("%s (-udevadm +fettle):\n%s", dir, diff)
			}
			compared++
		}
	}
	if compared < 12 {
		t.Errorf("only %d devices compared", compared)
	}
}

// anyOrder sorts the values that are sets: udev prints them in the order of its hash tables.
func anyOrder(props map[string]string) map[string]string {
	for key, between := range map[string]string{"DEVLINKS": " ", "TAGS": ":", "CURRENT_TAGS": ":"} {
		if v, ok := props[key]; ok {
			words := strings.Split(v, between)
			slices.Sort(words)
			props[key] = strings.Join(words, between)
		}
	}
	return props
}

func TestDisksOfTheVM(t *testing.T) {
	onlyInVM(t)
	h := host.Live()
	table := []engineplugin.Plugin{device.Disk}
	for _, regex := range []string{"^ID_BUS=ata$", "^ID_BUS=scsi$", "^DEVNAME=/dev/nvme", "^DEVLINKS=.*virtio-virtio0"} {
		u := plugin.Unit("disk", "devices_udev_regex="+regex)
		assigned, problems := engineplugin.Assign(context.Background(), h, table, []*profile.Unit{u})
		if len(assigned["disk"]) != 1 {
			t.Errorf("%s selects %v (%v), want one disk", regex, assigned["disk"], problems)
		}
	}
	all, _ := engineplugin.Assign(context.Background(), h, table, []*profile.Unit{plugin.Unit("disk")})
	for _, name := range []string{"sda", "sdb", "vda", "vdb", "nvme0n1", "loop0"} {
		if !slices.Contains(all["disk"], name) {
			t.Errorf("%s is not among the disks %v", name, all["disk"])
		}
	}
}

// TestATADisk tests the real hdparm with a disk.
func TestATADisk(t *testing.T) {
	onlyInVM(t)
	ctx := context.Background()
	h := host.Live()
	kinds := Kinds(h)
	assigned, _ := engineplugin.Assign(ctx, h, []engineplugin.Plugin{device.Disk}, []*profile.Unit{plugin.Unit("disk", "devices_udev_regex=^ID_BUS=ata$")})
	if len(assigned["disk"]) != 1 {
		t.Fatalf("ATA disks: %v", assigned["disk"])
	}
	name := assigned["disk"][0]
	items := plugin.Items(t, device.Disk, h, kinds, plugin.Unit("disk", "devices="+name, "spindown=6", "apm=128"))
	if len(items) != 2 || items[0].Verdict != "" || items[1].Verdict != "" {
		t.Fatalf("planned: %v", items)
	}
	timer, level := device.DiskSetting(name, "spindown"), device.DiskSetting(name, "apm")
	before, err := kinds.Read(ctx, timer)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []setting.Value{setting.Text("6"), before} {
		if err := kinds.Write(ctx, timer, v); err != nil {
			t.Fatal(err)
		}
		if now, err := kinds.Read(ctx, timer); err != nil || now.Text != v.Text {
			t.Errorf("the timer reads %s (%v), want %s", now, err, v)
		}
	}
	plugin.Proves(t, plugin.QEMU, "disk", "spindown")
	// QEMU's disk says that it has no APM level.
	if now, err := kinds.Read(ctx, level); err != nil || !now.Absent {
		t.Errorf("the level reads %s (%v), want it absent", now, err)
	}
	others := plugin.Items(t, device.Disk, h, kinds, plugin.Unit("disk", "devices=!"+name, "apm=128"))
	if len(others) == 0 {
		t.Error("no other disks")
	}
	for _, it := range others {
		if it.Verdict != engineplugin.Unsupported {
			t.Errorf("%s is planned on a disk that is not ATA", plugin.Line(it))
		}
	}
	if _, err := kinds.Read(ctx, device.DiskSetting("nvme0n1", "apm")); err == nil || testing.Verbose() {
		t.Logf("hdparm on an NVMe disk: %v", err)
	}
}
