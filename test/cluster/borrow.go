package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/root"
)

// kubeletOwns are the kernel settings that a kubelet checks, and otherwise writes when it starts
// (setupKernelTunables in pkg/kubelet/cm of Kubernetes 1.34 to 1.37). They do not belong to a
// namespace, so they are settings of this machine.
var kubeletOwns = []string{
	"vm.overcommit_memory=1",
	"vm.panic_on_oom=0",
	"kernel.panic=10",
	"kernel.panic_on_oops=1",
	"kernel.keys.root_maxkeys=1000000",
	"kernel.keys.root_maxbytes=25000000",
}

// cgroup is the parent of the control groups of a kubelet's pods. One suffices, because tests that
// change the machine take turns.
const cgroup = "/fettle-test-cluster"

// borrow prepares this machine for a kubelet, and restores it after the test and its root have
// ended: the kernel's settings with fettle undo, and the control group by removing it. Then it
// compares the machine with its earlier state, and fails the test if they differ. If an earlier
// test was killed, borrow first removes what that test has left.
//
// fettle sets the values that a kubelet would write, and the kubelet is configured to write nothing
// (protectKernelDefaults). So fettle's journal has all previous values.
func borrow(t *testing.T) {
	t.Helper()
	program, state := root.Program(t, "./cmd/fettle"), filepath.Join(os.TempDir(), "fettle-test-cluster")
	fettle := func(args ...string) ([]byte, error) {
		c := exec.Command(program, append([]string{"--state-dir", state, "--output", "json"}, args...)...)
		var said strings.Builder
		c.Stderr = &said
		out, err := c.Output()
		if err != nil {
			err = fmt.Errorf("fettle %s: %w\n%s%s", strings.Join(args, " "), err, said.String(), out)
		}
		return out, err
	}
	undo := func() error {
		out, err := fettle("undo")
		if err != nil {
			return err
		}
		if kept := keptValues(out); len(kept) > 0 {
			return fmt.Errorf("changed by another program while the cluster ran, and kept by fettle undo: %s", strings.Join(kept, ", "))
		}
		return os.RemoveAll(state)
	}
	if _, err := os.Stat(state); err == nil {
		if err := undo(); err != nil {
			t.Fatalf("%s holds what a test that was killed has changed: %v", state, err)
		}
	}
	if err := removeCgroup(cgroup, time.Second); err != nil {
		t.Fatalf("a test that was killed has left: %v", err)
	}

	settings, before := root.Settings(), look(cgroup)
	t.Cleanup(func() {
		for _, line := range settings.Differences(root.Settings()) {
			t.Errorf("left behind: %s", line)
		}
		for _, d := range before.Diff(look(cgroup)) {
			if group, ok := strings.CutPrefix(d.Path, controlGroup); ok && (d.Gone || usedByOthers(group, cgroup)) {
				continue // other programs of this machine make such and remove them
			}
			t.Errorf("left behind: %s", d)
		}
	})
	tune := []string{"tune"}
	for _, s := range kubeletOwns {
		tune = append(tune, "--set", s)
	}
	t.Cleanup(func() {
		if err := undo(); err != nil {
			t.Error(err)
		}
	})
	if _, err := fettle(tune...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := removeCgroup(cgroup, 10*time.Second); err != nil {
			t.Errorf("processes of the cluster have outlived it: %v", err)
		}
	})
	if err := makeCgroup(cgroup); err != nil {
		t.Fatal(err)
	}
}

// keptValues returns the settings that an undo did not restore.
func keptValues(undone []byte) []string {
	var u struct {
		Values []struct {
			Setting, State, Why string
		}
	}
	if err := json.Unmarshal(undone, &u); err != nil {
		return []string{fmt.Sprintf("no answer of fettle undo: %v: %s", err, undone)}
	}
	var kept []string
	for _, v := range u.Values {
		if v.State != "restored" {
			kept = append(kept, fmt.Sprintf("%s (%s, %s)", v.Setting, v.State, v.Why))
		}
	}
	return kept
}

// foreign are paths of this machine that a kubelet, a container runtime or a network plug-in would
// write if it ran outside a test root.
var foreign = []string{
	"/etc/cni", "/etc/kubernetes", "/opt/cni", "/run/containerd", "/run/netns", "/usr/libexec/kubernetes",
	"/var/lib/cni", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/containers", "/var/log/pods",
}

const controlGroup = "control group "

// usedByOthers reports whether a control group is gone, or has processes of which none belongs to
// the cluster.
func usedByOthers(dir, cgroup string) bool {
	procs, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	others := err != nil // gone since
	for pid := range strings.FieldsSeq(string(procs)) {
		text, err := os.ReadFile(filepath.Join("/proc", pid, "environ"))
		if err != nil {
			continue
		}
		if ofCluster(text, cgroup) {
			return false
		}
		others = true
	}
	return others
}

// ofCluster reports whether an environment belongs to a process of the cluster.
func ofCluster(environ []byte, cgroup string) bool {
	return strings.Contains("\x00"+string(environ), "\x00"+cgroupEnv+"="+cgroup+"\x00")
}

// look lists what a cluster could leave on this machine except kernel settings: control groups,
// mounts, network interfaces, the paths in foreign, and processes with the cluster's control group
// in their environment.
func look(cgroup string) root.Tree {
	found := root.Tree{}
	for _, dir := range cgroups() {
		found[controlGroup+dir] = ""
	}
	for _, m := range mounts() {
		found["mount "+m.dir] = m.kind
	}
	interfaces, _ := os.ReadDir("/sys/class/net")
	for _, i := range interfaces {
		found["network interface "+i.Name()] = ""
	}
	for _, place := range foreign {
		if st, err := os.Lstat(place); err == nil {
			found[place] = "changed " + st.ModTime().String()
		}
	}
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range environs {
		text, err := os.ReadFile(name)
		if err != nil || !ofCluster(text, cgroup) {
			continue
		}
		dir := filepath.Dir(name)
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		found["process "+filepath.Base(dir)] = strings.ReplaceAll(string(command), "\x00", " ")
	}
	return found
}
