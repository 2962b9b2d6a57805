package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
	testkitvm "fettle.dev/fettle/internal/testkit/vm"
)

const ejectProfile = `[main]
summary=Values of each sort of native file

[sysctl]
vm.swappiness=17
net.ipv4.tcp_rmem=4096 65536 4194304
net.netfilter.nf_conntrack_max=40000

[vm]
transparent_hugepages=never
dirty_ratio=13

[sysfs]
/sys/module/nvme_core/parameters/io_timeout=60
/sys/devices/virtual/workqueue/cpumask=3

[disk]
devices=vda,sd*,nvme*
elevator=mq-deadline
readahead=512

[net]
mtu=1400
txqueuelen=777
features=gro off

[modules]
nbd=+r nbds_max=8

[service]
service.one=enable,file:${i:PROFILE_DIR}/one.conf

[systemd]
cpu_affinity=0-1

[irqbalance]
banned_cpus=3

[bootloader]
cmdline_eject=+skew_tick=1
`

// TestEjectInVM tests that a guest has the same values after a reboot without fettle: they are
// tuned, ejected and given back, fettle is removed, and only the native files are left.
func TestEjectInVM(t *testing.T) {
	testkitroot.Real(t, "boots a virtual machine twice")
	vm := testkitvm.Boot(t, testkitvm.Options{})
	vm.Put(testkitroot.Program(t, "./cmd/fettle"), "/usr/local/bin/fettle")
	vm.Write("/etc/tuned/eject-test/tuned.conf", ejectProfile)
	vm.Write("/etc/tuned/eject-test/one.conf", "[Service]\nNice=7\n")
	vm.Write("/etc/systemd/system/one.service", "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n")
	vm.Must("systemctl disable --quiet --now tuned.service; rm -f /etc/tuned/active_profile; systemctl daemon-reload; systemctl start irqbalance; " +
		"modprobe nbd; modprobe nf_conntrack; update-grub 2>/dev/null; sync")
	untuned := vm.Must("cat /proc/sys/vm/swappiness")

	if out, code := vm.Run("fettle tune eject-test 2>&1"); code != 0 && code != 7 {
		t.Fatalf("tune: exit %d\n%s", code, out)
	}
	var r struct {
		Values []struct {
			Setting, Want string
			By            []string
		}
		Refused  []struct{ Setting, Why string }
		Commands []struct{ Argv []string }
		Files    []struct{ Path, Content string }
	}
	out := vm.Must("fettle eject --write /root/native --output json 2>/dev/null")
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, f := range r.Files {
		t.Logf("%s:\n%s", f.Path, f.Content)
	}
	var paths, programs []string
	for _, v := range r.Values {
		kind, name, _ := strings.Cut(v.Setting, ":")
		switch kind {
		case "sysctl":
			paths = append(paths, "/proc/sys/"+strings.ReplaceAll(name, ".", "/"))
		case "sysfs":
			paths = append(paths, name)
		case "net":
			device, _, _ := strings.Cut(name, "/")
			programs = append(programs, "cat /sys/class/net/"+device+"/mtu /sys/class/net/"+device+"/tx_queue_len; ethtool -k "+device+" | grep generic-receive-offload")
		}
	}
	for _, v := range r.Refused {
		t.Errorf("%s is not kept: %s", v.Setting, v.Why)
	}
	programs = append(programs,
		"systemctl is-enabled one", "systemctl show -p Nice one", "cat /sys/module/nbd/parameters/nbds_max",
		"systemctl restart irqbalance; for i in 1 2 3 4 5 6 7 8 9; do pidof -q irqbalance && break; sleep 1; done; tr '\\0' '\\n' </proc/$(pidof irqbalance)/environ | grep BANNED_CPULIST")
	values := func() map[string]string {
		all := map[string]string{}
		for _, p := range paths {
			all[p] = vm.Must("cat " + p)
		}
		for _, p := range programs {
			all[p] = vm.Must(p)
		}
		return all
	}
	before := values()
	t.Logf("%d values, %d files", len(r.Values), len(r.Files))

	if out, code := vm.Run("fettle undo 2>&1"); code != 0 {
		t.Fatalf("undo: exit %d\n%s", code, out)
	}
	if now := vm.Must("cat /proc/sys/vm/swappiness"); now != untuned {
		t.Fatalf("after undo vm.swappiness is %s, want %s", now, untuned)
	}
	vm.Must("rm -rf /usr/local/bin/fettle /var/lib/fettle /run/fettle /etc/tuned/eject-test; ! ls -d /etc/*/*fettle*")
	vm.Must("cp -rT /root/native /; rm -f /.fettle*")
	for _, c := range r.Commands {
		if out, code := vm.Run(strings.Join(c.Argv, " ") + " 2>&1"); code != 0 {
			t.Fatalf("%v: exit %d\n%s", c.Argv, code, out)
		}
	}
	vm.Must("sync")
	vm.Reboot()
	if d := cmp.Diff(before, values()); d != "" {
		t.Errorf("after the reboot without fettle: %s", d)
	}
	if out := vm.Must("grep Cpus_allowed_list /proc/1/status"); !strings.HasSuffix(out, "\t0-1\n") {
		t.Errorf("process 1: %s", out)
	}
	if out := vm.Must("grep -c skew_tick=1 /boot/grub/grub.cfg"); strings.TrimSpace(out) == "0" {
		t.Error("GRUB's configuration lacks the kernel argument")
	}
	if out, _ := vm.Run("systemctl --failed --plain --no-legend; journalctl -b -p err -u systemd-tmpfiles-setup -u systemd-sysctl -u systemd-udevd -o cat"); out != "" {
		t.Logf("failures of this boot:\n%s", out)
	}
}
