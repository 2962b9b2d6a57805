package kubelet

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/internal/testkit/root"
	testkitvm "fettle.dev/fettle/internal/testkit/vm"
)

// inVM is set to a program and its version where the test runs in the machine.
const inVM = "FETTLE_TEST_WEIGHTS_IN_VM"

// bundle is the configuration of a container in a pod's group, with CPU shares.
const bundle = `{"ociVersion": "1.0.2", "process": {"user": {"uid": 0, "gid": 0}, "args": ["/program"], "cwd": "/"}, "root": {"path": "rootfs"},
"mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}, {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"}],
"linux": {"cgroupsPath": "/kubepods/pod1/%s", "resources": {"cpu": {"shares": %d}}, "namespaces": [{"type": "pid"}, {"type": "mount"}]}}`

// group makes the groups of a kubelet, with the weight of a pod.
const group = `set -e; cd /sys/fs/cgroup; echo +cpu >cgroup.subtree_control; mkdir -p kubepods; echo +cpu >kubepods/cgroup.subtree_control
mkdir kubepods/pod1; echo +cpu >kubepods/pod1/cgroup.subtree_control; echo %d >kubepods/pod1/cpu.weight`

// TestWeightsOfRuntimes: the real runc and crun make the groups of a pod's containers, on a
// kernel with control groups of version 2. What is read in them is the formula of the program's
// version.
func TestWeightsOfRuntimes(t *testing.T) {
	if what := os.Getenv(inVM); what != "" {
		inPods(t, what)
		return
	}
	root.Nightly(t, "boots a machine")
	out, err := exec.Command("../../../test/root/layer", "containers").Output()
	if err != nil {
		t.Fatal(err)
	}
	layer := strings.Fields(string(out))[0]
	vm := testkitvm.Boot(t, testkitvm.Options{MemoryMiB: 1024})
	for from, to := range map[string]string{"usr/sbin/runc": "runc", "usr/bin/crun": "crun", "usr/lib/x86_64-linux-gnu/libyajl.so.2": "libyajl.so.2"} {
		vm.Put(filepath.Join(layer, from), "/root/"+to)
	}
	vm.Put(testkitvm.Tests(t, "."), "/root/kubelet.test")
	for _, program := range []string{"runc", "crun"} {
		call := "LD_LIBRARY_PATH=/root /root/" + program
		version := strings.Fields(vm.Must(call + " --version"))[2]
		formula, ok := kuberelease.RuntimeFormula(program, version)
		if !ok {
			t.Fatalf("the version of %s is %q", program, version)
		}
		vm.Must(fmt.Sprintf(group, kuberelease.KubeletFormula.Weight(1280)))
		containers := map[string]int{"one": 1024, "quarter": 256}
		for name, shares := range containers {
			dir := "/root/" + program + "-" + name
			vm.Must("mkdir -p " + dir + "/rootfs/proc " + dir + "/rootfs/dev; cp /root/kubelet.test " + dir + "/rootfs/program")
			vm.Write(dir+"/config.json", fmt.Sprintf(bundle, name, shares))
			vm.Must(call + " create --bundle " + dir + " " + name + " </dev/null >" + dir + "/log 2>&1 || { cat " + dir + "/log; false; }")
			got, want := strings.TrimSpace(vm.Read("/sys/fs/cgroup/kubepods/pod1/"+name+"/cpu.weight")), fmt.Sprint(formula.Weight(uint64(shares)))
			t.Logf("%s %s, %d shares: %s", program, version, shares, got)
			if got != want {
				t.Errorf("%s %s, %d shares: %s, want %s", program, version, shares, got, want)
			}
		}
		if out, code := vm.Run(inVM + "='" + program + " " + version + "' /root/kubelet.test -test.v -test.run '^TestWeightsOfRuntimes$' 2>&1"); code != 0 || !strings.Contains(out, "--- PASS") {
			t.Errorf("exit code %d\n%s", code, out)
		}
		for name := range containers {
			vm.Must(call + " delete --force " + name)
		}
		vm.Must("rmdir /sys/fs/cgroup/kubepods/pod1")
	}
}

// inPods compares the formulas that the groups of this machine show with that of a program.
func inPods(t *testing.T, what string) {
	program, version, _ := strings.Cut(what, " ")
	want, _ := kuberelease.RuntimeFormula(program, version)
	tree := readTree(host.Live())
	if w := tree.written; tree.err != nil || tree.version != 2 || w.Pods != kuberelease.KubeletFormula || w.Containers != want || w.Seen != 1 || w.Fit != 1 {
		t.Errorf("%s: %+v, %v", what, w, tree.err)
	}
}
