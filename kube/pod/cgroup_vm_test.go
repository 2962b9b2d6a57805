package pod

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/root"
	testkitvm "fettle.dev/fettle/internal/testkit/vm"
)

const (
	inVM = "FETTLE_TEST_CGROUP_IN_VM" // the number of the process that is in the group

	podUID      = "5b1a7d0c-3f6e-4a53-9c1e-0c2c4f1a9d10"
	containerID = "8f2c6d1a9b7e4c3f8a5d2b1c0e9f7a6b5c4d3e2f1a0b9c8d7e6f5a4b3c2d1e0f"
	// podGroup is the control group of a container of a Guaranteed pod, as a kubelet with the
	// systemd driver and containerd named it.
	podGroup = "/kubepods.slice/kubepods-pod5b1a7d0c_3f6e_4a53_9c1e_0c2c4f1a9d10.slice/cri-containerd-" + containerID + ".scope"
)

// pin creates the groups as on a node, with CPU 2 of the machine's four, and starts a process in
// the innermost group.
const pin = `set -e; cd /sys/fs/cgroup; test $(stat -f -c %T .) = cgroup2fs
group=.
for part in $(echo ` + podGroup + ` | tr / ' '); do echo +cpuset > $group/cgroup.subtree_control; group=$group/$part; mkdir $group; done
echo 2 > $group/cpuset.cpus
sleep 6000 </dev/null >/dev/null 2>&1 & echo $! > $group/cgroup.procs; echo $!`

// TestInVM tests the group, process and CPUs of a container on a kernel with only cgroup v2,
// because the machine that runs the tests may have version 1.
func TestInVM(t *testing.T) {
	if pid := os.Getenv(inVM); pid != "" {
		pinned(t, pid)
		return
	}
	root.Nightly(t, "boots a machine")
	program := testkitvm.Tests(t, ".")
	vm := testkitvm.Boot(t, testkitvm.Options{MemoryMiB: 1024})
	vm.Put(program, "/root/cgroup.test")
	pid := strings.TrimSpace(vm.Must(pin))
	if out, code := vm.Run(inVM + "=" + pid + " /root/cgroup.test -test.v -test.run '^TestInVM$' 2>&1"); code != 0 || !strings.Contains(out, "--- PASS") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

func pinned(t *testing.T, number string) {
	pid, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	files := host.Live().Files
	all, err := Processes(files)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(p Process) bool { return p.PID == pid })
	if i < 0 {
		t.Fatalf("process %d is not among %d", pid, len(all))
	}
	p := all[i]
	if p.Name != "sleep" || p.Kernel || p.Group != podGroup || p.Allowed().String() != "2" || len(p.Threads) != 1 {
		t.Errorf("%+v, allowed %s", p, p.Allowed())
	}
	if !ContainerCgroup(p.Group, containerID) || !CgroupOf(p.Group, podUID) || !OfPods(p.Group) || Class(p.Group) != "Guaranteed" {
		t.Errorf("%s is not known as the pod's", p.Group)
	}
	h, err := Find(files)
	if err != nil || h.Version != 2 {
		t.Fatalf("%+v %v", h, err)
	}
	cpus, file, err := h.CPUs(p.Group)
	if err != nil || cpus.String() != "2" || file != "/sys/fs/cgroup"+podGroup+"/cpuset.cpus.effective" {
		t.Errorf("%s: %s %v", file, cpus, err)
	}
	// Another process has its own group with all CPUs.
	if i = slices.IndexFunc(all, func(p Process) bool { return p.PID == 1 }); i < 0 || ContainerCgroup(all[i].Group, containerID) || all[i].Allowed().String() != "0-3" {
		t.Errorf("the first process: %+v", all[max(i, 0)])
	}
}
