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

// kubeletOwns are the settings of the kernel that a kubelet has its own mind about, and
// writes when it starts (setupKernelTunables in pkg/kubelet/cm of Kubernetes 1.34 to 1.37). No
// namespace holds them: they are this machine's.
var kubeletOwns = []string{
	"vm.overcommit_memory=1",
	"vm.panic_on_oom=0",
	"kernel.panic=10",
	"kernel.panic_on_oops=1",
	"kernel.keys.root_maxkeys=1000000",
	"kernel.keys.root_maxbytes=25000000",
}

// cgroup is where a kubelet keeps the control groups of its pods. There is one at a
// time: tests that change the machine take turns.
const cgroup = "/fettle-test-cluster"

// borrow prepares this machine for a kubelet, and gives everything back when the test
// has ended and its root with it: the kernel's settings by fettle, whose journal has
// what was there before; the control group by removing it. Then it looks whether the
// machine is as it was, and fails the test if not. What a test that was killed has left
// goes back first.
//
// fettle sets what a kubelet would write, and the kubelet is told to write nothing
// (protectKernelDefaults): so it is the journal alone that answers for what was before.
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

// keptValues are the settings of an undo that were not given back.
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

// foreign are places of this machine that a kubelet, a container runtime or a network
// plug-in without a root of its own would write.
var foreign = []string{
	"/etc/cni", "/etc/kubernetes", "/opt/cni", "/run/containerd", "/run/netns", "/usr/libexec/kubernetes",
	"/var/lib/cni", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/containers", "/var/log/pods",
}

const controlGroup = "control group "

// usedByOthers says whether a control group has processes, and none of the cluster's, or
// is there no more.
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

// ofCluster says whether an environment is that of a process of the cluster.
func ofCluster(environ []byte, cgroup string) bool {
	return strings.Contains("\x00"+string(environ), "\x00"+cgroupEnv+"="+cgroup+"\x00")
}

// look lists what a cluster could leave on this machine, settings of the kernel aside:
// control groups, mounts, network interfaces, its places, and processes that know its
// control group by their environment.
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
