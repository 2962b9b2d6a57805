package agent

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/kube/deploy"
	"fettle.dev/fettle/kube/tuned"
)

// TestDefaultProfiles applies the operator's own profiles on a node: the values that the node has,
// including variables and included profiles. None is refused.
func TestDefaultProfiles(t *testing.T) {
	text, err := fs.ReadFile(deploy.FS, "default-tuned.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := tuned.Read("default-tuned.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	f := newNode(t, map[string]string{
		"/proc/sys/kernel/pid_max": "32768\n", "/proc/sys/fs/inotify/max_user_watches": "8192\n", "/proc/sys/net/ipv4/neigh/default/gc_thresh3": "1024\n",
		"/sys/class/dmi/id/sys_vendor": "QEMU\n",
	})
	p := f.profile("", "openshift-node", "")
	p.Spec.Profile = objects.Tuneds[0].Spec.Profile
	out := f.look(p, Apply)
	f.want("/proc/sys/kernel/pid_max", "4194304", "/proc/sys/fs/inotify/max_user_watches", "65536", "/proc/sys/net/ipv4/neigh/default/gc_thresh3", "65536",
		swappiness, "30") // of virtual-guest, by virt_check
	for _, v := range out.Values.Values {
		if v.Verdict == plugin.Refused || v.Verdict == plugin.Rejected {
			t.Errorf("%s: %s: %s", v.Setting, v.Verdict, v.Why)
		}
	}
	f.look(nil, Restore)
	f.wantPristine()
	f.want("/proc/sys/kernel/pid_max", "32768", "/proc/sys/fs/inotify/max_user_watches", "8192")
}

// TestHeld tests that a value that needs an open descriptor is held, also by a new agent, and
// released with the profile.
func TestHeld(t *testing.T) {
	f := newNode(t, map[string]string{"/sys/devices/system/cpu/cpu0/online": "1\n"})
	device := filepath.Join(f.dir, "dev/cpu_dma_latency")
	f.write("/dev/cpu_dma_latency", "\x00\x94\x35\x77") // 2000 s, as the kernel has it
	p := f.profile("", "fast", "[cpu]\nforce_latency=10\n")
	holds := func() string {
		b, err := os.ReadFile(device)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	before := holds()
	out := f.look(p, Apply)
	if len(f.held) != 1 || holds() == before {
		t.Errorf("held: %v, the device reads %q; %+v", f.held, holds(), out.Values.Values)
	}
	for _, v := range out.Values.Values {
		if v.Verdict != plugin.OK {
			t.Errorf("%s: %s: %s", v.Setting, v.Verdict, v.Why)
		}
	}
	f.start()
	f.look(p, Leave)
	if len(f.held) != 1 {
		t.Errorf("a new agent holds %v", f.held)
	}
	f.look(nil, Restore)
	if len(f.held) != 0 {
		t.Errorf("still held: %v", f.held)
	}
}
