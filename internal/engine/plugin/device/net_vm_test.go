package device

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/testkit/plugin"
	"fettle.dev/fettle/internal/testkit/root"
	testkitvm "fettle.dev/fettle/internal/testkit/vm"
)

// profileText tunes the machine's network devices: net0 is a virtio-net, net1 an e1000e that cannot
// wake the machine, net2 a vmxnet3 that can.
const profileText = `[virtio]
type=net
devices=net0
features=gro off, tso: off
ring=rx 128 tx 64
channels=combined 1
txqueuelen=2000
mtu=1400
nf_conntrack_hashsize=131072
[intel]
type=net
devices_udev_regex=^ID_NET_DRIVER=e1000e$
features=tx off rxvlan off rxhash off
coalesce=rx-usecs 100
pause=autoneg off rx off tx off
ring=rx 512 tx 1024
txqueuelen=3000
mtu=1450
wake_on_lan=g
[vmware]
type=net
devices=net2
ring=rx 512
wake_on_lan=ga
`

// changes are lines of ethtool and ip that appear only with the profile: the comparison with TuneD
// must include them.
var changes = []string{
	"net0 generic-receive-offload: off", "net0 rx: 128", "net0 tx: 64", "net0 mtu 1400 qlen 2000",
	"net1 tx-checksumming: off", "net1 rx-vlan-offload: off", "net1 receive-hashing: off", "net1 rx-usecs: 100",
	"net1 autonegotiate: off", "net1 rx: off", "net1 tx: off", "net1 rx: 512", "net1 tx: 1024", "net1 mtu 1450 qlen 3000",
	"net2 rx: 512", "net2 wake-on: ag", "hashsize 131072",
}

// state prints what ethtool and ip report about a device, one property per line.
const state = `for d in net0 net1 net2; do
	{
		for f in -k -c -a -g -l; do ethtool $f $d 2>&1; done
		ethtool $d | grep Wake-on
		ip -o link show $d | sed 's/.*\(mtu [0-9]*\).*\(qlen [0-9]*\).*/\1 \2/'
	} | tr '[:upper:]' '[:lower:]' | sed "s/[[:space:]][[:space:]]*/ /g; s/^ //; s/^/$d /"
done
echo hashsize $(cat /sys/module/nf_conntrack/parameters/hashsize)`

// TestInVM compares Debian's TuneD with fettle's shipped program on an emulated e1000e and a
// virtio-net.
func TestInVM(t *testing.T) {
	root.Real(t, "boots a virtual machine")
	fettle := root.Program(t, "./cmd/fettle")
	keyTest := testkitvm.Tests(t, "fettle.dev/fettle/internal/engine/plugin/kernel")
	vm := testkitvm.Boot(t, testkitvm.Options{MemoryMiB: 1024})
	vm.Put(fettle, "/usr/local/bin/fettle")
	vm.Put(keyTest, "/root/rtentsk.test")
	vm.Must("systemctl disable --now tuned power-profiles-daemon 2>/dev/null; rm -f /etc/tuned/active_profile; modprobe nf_conntrack")
	vm.Must("ip link set net1 up; udevadm settle")
	vm.Must("modprobe vmxnet3")
	vm.Monitor("device_add", map[string]any{"driver": "vmxnet3", "bus": "hot0", "id": "net2", "mac": "52:54:00:00:00:03"})
	vm.Must(`for n in $(seq 300); do test -e /sys/bus/pci/drivers/vmxnet3/*/net/* && break; sleep 1; done; udevadm settle
		cd /sys/bus/pci/drivers/vmxnet3/*/net && ip link set $(ls) name net2`)
	vm.Must("mkdir -p /etc/tuned/lab /etc/tuned/mixed /etc/tuned/plain")
	vm.Write("/etc/tuned/lab/tuned.conf", profileText)
	// An archive has no database of udev's to match with.
	vm.Write("/etc/tuned/plain/tuned.conf", strings.Replace(profileText, "devices_udev_regex=^ID_NET_DRIVER=e1000e$", "devices=net1", 1))
	vm.Write("/etc/tuned/mixed/tuned.conf", "[net]\ndevices=net1\ncoalesce=rx-usecs 50 tx-usecs 7\n")
	before := vm.Must(state)
	t.Logf("before:\n%s", before)
	oneShot := func(profile string) {
		t.Helper()
		vm.Must("sed -i 's/^[# ]*daemon *=.*/daemon = 0/' /etc/tuned/tuned-main.conf && grep -q '^daemon = 0' /etc/tuned/tuned-main.conf")
		if out, code := vm.Run("timeout 540 tuned --no-dbus --log --profile " + profile + " 2>&1"); code != 0 {
			t.Errorf("tuned: exit code %d\n%s", code, out)
		}
	}

	var ours string
	t.Run("tune, verify, undo", func(t *testing.T) {
		out, code := vm.Run("fettle tune lab 2>&1")
		t.Logf("fettle tune: %d\n%s", code, out)
		ours = vm.Must(state)
		for _, line := range changes {
			if strings.Contains(before, line+"\n") || !strings.Contains(ours, line+"\n") {
				t.Errorf("%q: before %t, with the profile %t; want it with the profile only", line,
					strings.Contains(before, line+"\n"), strings.Contains(ours, line+"\n"))
			}
		}
		out, code = vm.Run("fettle verify 2>&1")
		t.Logf("fettle verify: %d\n%s", code, out)
		if code != 0 {
			t.Errorf("verify right after tune: exit code %d", code)
		}
		vm.Must("ethtool -G net1 rx 256")
		if out, code = vm.Run("fettle verify 2>&1"); code != 3 || !strings.Contains(out, "net1/ring-rx") {
			t.Errorf("verify after somebody changed a ring: exit code %d\n%s", code, out)
		}
		vm.Must("ethtool -G net1 rx 512")
		if out, code = vm.Run("fettle undo 2>&1"); code != 0 {
			t.Errorf("undo: exit code %d\n%s", code, out)
		}
		if diff := cmp.Diff(before, vm.Must(state)); diff != "" {
			t.Errorf("left behind:\n%s", diff)
		}
	})
	// Each of these is among the changes.
	for _, o := range []string{"features", "coalesce", "pause", "ring", "wake_on_lan", "txqueuelen", "mtu", "nf_conntrack_hashsize"} {
		plugin.Proves(t, plugin.QEMU, "net", o)
	}

	t.Run("an archive of the machine answers as the machine", func(t *testing.T) {
		live := vm.Must("fettle diff plain --output json 2>/dev/null | sed -n '/\"steps\"/,$p'")
		vm.Must("fettle facts --archive /root/machine.txt >/dev/null 2>&1")
		copied := vm.Must("fettle diff plain --root /root/machine.txt --output json 2>/dev/null | sed -n '/\"steps\"/,$p'")
		if diff := cmp.Diff(live, copied); diff != "" || !strings.Contains(live, "net:net1/ring-rx") || !strings.Contains(live, "net.netfilter.nf_conntrack_buckets") {
			t.Errorf("%d bytes (-machine +archive):\n%s", len(live), diff)
		}
	})

	t.Run("rtentsk", func(t *testing.T) {
		out, code := vm.Run("cd /root && FETTLE_TEST_IN_VM=1 ./rtentsk.test -test.v -test.run '^TestKey$' 2>&1")
		if code != 0 || !strings.Contains(out, "--- PASS: TestKey") {
			t.Errorf("exit code %d\n%s", code, out)
		}
	})

	t.Run("as TuneD", func(t *testing.T) {
		oneShot("lab")
		theirs := vm.Must(state)
		// TuneD 2.20 cannot read what ethtool 6 prints of CQE mode, and then
		// sets no coalescing at all.
		log := vm.Must("cat /var/log/tuned/tuned.log")
		if strings.Contains(log, "unknown coalesce parameter(s): {'CQE mode RX'}") && strings.Contains(theirs, "net1 rx-usecs: 3\n") {
			theirs = strings.Replace(theirs, "net1 rx-usecs: 3\n", "net1 rx-usecs: 100\n", 1)
		} else {
			t.Error("TuneD sets coalescing: compare that too")
		}
		if diff := cmp.Diff(theirs, ours); diff != "" {
			t.Errorf("(-TuneD +fettle):\n%s\n%s", diff, log)
		}
	})

	t.Run("a parameter that the device lacks", func(t *testing.T) {
		// ethtool takes all of a group or nothing; we set what the device has.
		out, code := vm.Run("ethtool -C net1 rx-usecs 50 tx-usecs 7 2>&1")
		if code == 0 || strings.Contains(vm.Must(state), "net1 rx-usecs: 50\n") {
			t.Errorf("ethtool: exit code %d\n%s", code, out)
		}
		out, _ = vm.Run("fettle tune mixed 2>&1")
		if !strings.Contains(vm.Must(state), "net1 rx-usecs: 50\n") {
			t.Errorf("fettle does not set rx-usecs\n%s", out)
		}
	})

	t.Run("the speed of a link at rest", func(t *testing.T) {
		const offered = "ethtool net1 | sed -n '/Advertised link modes/,/Advertised pause/p' | grep -o '[0-9]*baseT/[A-Z][a-z]*' | tr '\\n' ' '"
		wait := func(what, want string) {
			t.Helper()
			var got string
			if !root.Eventually(3*time.Minute, func() bool { got = strings.TrimSpace(vm.Must(offered)); return got == want }) {
				t.Fatalf("%s: net1 offers %q, want %q\n%s", what, got, want, vm.Must("cat /root/daemon.log"))
			}
		}
		full := strings.TrimSpace(vm.Must(offered))
		slow := strings.TrimSpace(strings.ReplaceAll(full, "1000baseT/Full", ""))
		if full == slow || slow == "" {
			t.Fatalf("net1 offers %q", full)
		}
		vm.Must("fettle undo >/dev/null 2>&1; mkdir -p /etc/tuned/speed")
		vm.Write("/etc/tuned/speed/tuned.conf", "[net]\ndevices=net1\n")
		vm.Write("/etc/tuned/tuned-main.conf", "dynamic_tuning=1\nupdate_interval=1\n")
		vm.Must("setsid fettle daemon --tuned=false >/root/daemon.log 2>&1 </dev/null & echo $! >/root/daemon.pid")
		vm.Must("fettle tune speed")
		wait("at rest", slow)
		if out, code := vm.Run("fettle verify --all 2>&1"); code != 0 || !strings.Contains(out, "dynamic") {
			t.Errorf("verify: exit code %d\n%s", code, out)
		}
		vm.Must("kill -9 $(cat /root/daemon.pid)")
		wait("after kill -9", slow)
		vm.Must("fettle undo")
		wait("after undo", full)
		plugin.Proves(t, plugin.QEMU, "net", "dynamic")
	})
}
