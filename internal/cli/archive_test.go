package cli

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/guide/findings"
	"fettle.dev/fettle/internal/host"
	testkitmachine "fettle.dev/fettle/internal/testkit/machine"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// output runs a command line in this process and returns what it prints.
func output(t *testing.T, sys system, args ...string) (out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	if code := sys.main("test", args, &o, &e); code != 0 {
		t.Fatalf("%v: exit code %d: %s", args, code, &e)
	}
	return o.String(), e.String()
}

// A machine's archive gives the plan that the machine itself gives, for each
// profile, of our own and installed, one in eight under -short.
func TestArchivePlansAsTheMachine(t *testing.T) {
	fixture := t.TempDir()
	unpack(t, "../../testdata/hosts/kvm-guest.txt", fixture)
	// Every device has one, but the recorded machine's disks came without.
	for _, disk := range []string{"0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sr0", "0000:00:02.2/0000:03:00.0/virtio2/block/vda"} {
		testkitmachine.Write(t, fixture, map[string]string{"sys/devices/pci0000:00/" + disk + "/uevent": "DEVTYPE=disk\n"})
	}
	for name, dir := range map[string]string{"server": testkitroot.NewMachine(t).Dir, "guest": fixture} {
		t.Run(name, func(t *testing.T) {
			sys := thisSystem()
			sys.live = func() *host.Host { return host.Mounted(dir) }
			// What no swept directory holds.
			const place = "/sys/firmware/qemu/depth"
			testkitmachine.Write(t, dir, map[string]string{"etc/tuned/site/tuned.conf": "[main]\ninclude=balanced\n[sysfs]\n" + place + "=7\n", place: "5\n",
				"etc/tuned/cpu-partitioning-variables.conf": "isolated_cores=1\n", "etc/tuned/realtime-variables.conf": "isolated_cores=1\n"})

			archive, none := filepath.Join(t.TempDir(), "machine.txt"), t.TempDir()
			output(t, sys, "facts", "--archive", archive, "--brief")
			var list ProfileList
			text, _ := output(t, sys, "list", "-o", "json", "--state-dir", none)
			if err := json.Unmarshal([]byte(text), &list); err != nil {
				t.Fatal(err)
			}
			if len(list.Profiles) < 24 {
				t.Fatalf("only %d profiles", len(list.Profiles))
			}
			names := []string{"site"}
			for _, p := range testkitroot.Some(list.Profiles) {
				names = append(names, p.Name)
			}
			for _, name := range names {
				want := planOf(t, sys, name, "--state-dir", none)
				got := planOf(t, sys, name, "--root", archive)
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("%s: the machine (-) and its archive (+) differ:\n%s", name, d)
				}
				if name == "site" {
					sure := false
					for _, s := range got["steps"].([]any) {
						step := s.(map[string]any)
						sure = sure || step["setting"] == "sysfs:"+place && step["before"] == "5"
					}
					if !sure {
						t.Errorf("the archive does not know %s: %v", place, got["steps"])
					}
				}
			}
		})
	}
}

// planOf is a plan without what tells two readings apart, and what was said.
func planOf(t *testing.T, sys system, name string, more ...string) map[string]any {
	t.Helper()
	out, said := output(t, sys, append([]string{"diff", name, "-o", "json"}, more...)...)
	var plan map[string]any
	if err := json.Unmarshal([]byte(out), &plan); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"created", "machine", "messages"} {
		delete(plan, key)
	}
	plan["said"] = said
	return plan
}

// A machine's archive is audited as the machine is: what is known of the one is
// known of the other.
func TestArchiveChecksAsTheMachine(t *testing.T) {
	dir := t.TempDir()
	unpack(t, "../../testdata/hosts/kvm-guest.txt", dir)
	testkitmachine.Write(t, dir, map[string]string{
		"etc/sysctl.d/90-ours.conf":   "vm.swappiness = 7\nvm.nr_hugepages = 12\n",
		"var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\nmaxPods: 700\ncpuManagerPolicy: static\napiVersion: kubelet.config.k8s.io/v1beta1\n",
		"var/lib/dpkg/status":         "Package: kubelet\nStatus: install ok installed\nVersion: 1.29.4-1.1\n",
		"proc/sys/fs/file-nr":         "100\t0\t1000\n",
		"proc/pressure/memory":        "full avg10=0.00 avg60=0.00 avg300=5.00 total=0\n",
		"proc/vmstat":                 "pswpin 1\npswpout 1\noom_kill 4\n",
		"var/lib/containers/x":        "",
		"sys/fs/cgroup/system.slice/ours.service/cgroup.procs": "77\n",
		"proc/77/limits":                        "Max open files            1024                 1024                 files     \n",
		"proc/77/comm":                          "haproxy\n",
		"proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n",
		"usr/lib/systemd/system/ours.service":   "[Service]\nLimitNOFILE=4096\n",
		"sys/class/net/flannel.1/uevent":        "DEVTYPE=vxlan\n",
		"sys/class/net/flannel.1/mtu":           "1500\n",
		"sys/class/net/flannel.1/type":          "1\n",
	})
	sys := thisSystem()
	sys.live = func() *host.Host { return host.Mounted(dir) }
	archive := filepath.Join(t.TempDir(), "machine.txt")
	output(t, sys, "facts", "--archive", archive, "--brief")

	states := func(args ...string) map[string]string {
		text, _ := output(t, sys, append(args, "check", "--output", "json")...)
		var audit findings.Audit
		if err := json.Unmarshal([]byte(text), &audit); err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, f := range audit.Findings {
			out[f.ID+" "+f.Instance] = string(f.State)
		}
		return out
	}
	machine := states("--state-dir", t.TempDir())
	for _, id := range []string{"T19 vm.swappiness", "T20 ours.service LimitNOFILE", "O63 ", "O65 ", "O17 ", "T21 ", "T16 "} {
		if s := machine[id]; s != "warn" && s != "fail" {
			t.Errorf("of the machine %s is %q, and the test shows nothing of it", id, s)
		}
	}
	if diff := cmp.Diff(machine, states("--root", archive)); diff != "" {
		t.Errorf("the archive is audited otherwise (- the machine, + the archive):\n%s", diff)
	}
}

// TestArchiveForPowerAndIrq: an archive has the files that fettle power and fettle irq read.
func TestArchiveForPowerAndIrq(t *testing.T) {
	for call, machine := range map[string]string{
		"power -o json": "../fact/power/testdata/intel.txt", "irq show -o json": "../../examples/irq/two-nodes.txt",
	} {
		archive := filepath.Join(t.TempDir(), "machine.txt")
		output(t, thisSystem(), "facts", "--root", machine, "--archive", archive, "--brief")
		want, _ := output(t, thisSystem(), append(strings.Fields(call), "--root", machine)...)
		got, _ := output(t, thisSystem(), append(strings.Fields(call), "--root", archive)...)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: the machine (-) and its archive (+) differ:\n%s", call, d)
		}
	}
}
