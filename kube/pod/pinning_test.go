package pod

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"fettle.dev/fettle/internal/unit"
	"fettle.dev/fettle/kube/pod/admission"
)

func amounts(cpu, memory string) admission.Resources {
	return admission.Resources{admission.CPU: resource.MustParse(cpu), admission.Memory: resource.MustParse(memory)}
}

func pinningProcess(pid int, name, group string, threads ...unit.CPUSet) Process {
	p := Process{PID: pid, Name: name, Group: group, Threads: map[int]unit.CPUSet{}}
	for i, cpus := range threads {
		p.Threads[pid+i] = cpus
	}
	return p
}

// facts are those of OpenShift 4.4 Scalability and Performance, chapter 6: two CPUs, half of one
// reserved; a Guaranteed pod on CPU 1, a BestEffort pod on CPU 0.
func facts() *PinningFacts {
	zero, one, both := unit.CPUs(0), unit.CPUs(1), unit.CPUs(0, 1)
	const mine, other = "/kubepods.slice/kubepods-poduid_1.slice/crio-id1.scope", "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-poduid_2.slice/crio-id2.scope"
	kernel := pinningProcess(2, "kthreadd", "/", both)
	kernel.Kernel = true
	return &PinningFacts{
		Node: "perf-node", Namespace: "default", Name: "cpumanager-6cqz7", UID: "uid-1", Class: admission.Guaranteed,
		Pod:        admission.Pod{Containers: []admission.Container{{Name: "cpumanager", Requests: amounts("1", "1G"), Limits: amounts("1", "1G")}}},
		Containers: []PinnedContainer{{Name: "cpumanager", Kind: "container", ID: "id1", Running: true}},
		Pool:       admission.Pool{Static: true, Online: both, Shared: zero, Reserved: zero},
		Default:    zero,
		Held:       map[string]map[string]unit.CPUSet{"uid-1": {"cpumanager": one}},
		HeldFrom:   "/var/lib/kubelet/cpu_manager_state",
		Processes: []Process{
			kernel,
			pinningProcess(700, "sshd", "/system.slice/sshd.service", both),
			pinningProcess(32706, "pause", mine, one),
			pinningProcess(40000, "pause", other, zero),
		},
		Groups: map[string]Group{mine: {one, "/sys/fs/cgroup/cpuset" + mine + "/cpuset.cpus"}}, Unread: map[string]string{}, Version: 1,
		Others:   []Other{{"default/besteffort", "app", "id2"}},
		Capacity: &admission.Capacity{Allocatable: admission.Resources{admission.CPU: resource.MustParse("1500m"), "pods": resource.MustParse("250")}, Requested: admission.Resources{admission.CPU: resource.MustParse("1440m")}, Pods: 12},
	}
}

func find(d *Document, what, result string) []Check {
	var out []Check
	for _, c := range d.Checks {
		if c.What == what && c.Result == result {
			out = append(out, c)
		}
	}
	return out
}

// TestChapter6 tests the pod of OpenShift 4.4 Scalability and Performance, chapter 6, with correct
// CPUs.
func TestChapter6(t *testing.T) {
	d := Verify(facts())
	if d.Result != Pass {
		t.Errorf("%s: %+v", d.Result, d.Checks)
	}
	for _, what := range []string{"class of quality of service", "control group", "CPUs of its own", "CPUs of its control group", "CPUs of its processes", "other containers"} {
		if len(find(d, what, Pass)) != 1 {
			t.Errorf("%s has not passed: %+v", what, d.Checks)
		}
	}
	if c := d.Containers[0]; c.CPUs != "1" || !c.Exclusive || c.Wanted != 1 || len(c.Processes) != 1 || c.Processes[0].CPUs != "1" {
		t.Errorf("%+v", c)
	}
	// Chapter 6: 1500m are allocatable, 1440m requested: a second such pod stays pending.
	if n := find(d, "CPUs that are left", Note); len(n) != 1 || !strings.Contains(n[0].Says, "no container can get an exclusive CPU") || !strings.Contains(n[0].Says, "60m of 1500m") {
		t.Errorf("%+v", n)
	}
	if len(d.Company) != 2 || d.Company[0].Kind != ofHost || d.Company[0].Who != "/system.slice/sshd.service" || d.Company[1].Kind != ofKernel {
		t.Errorf("%+v", d.Company)
	}
}

func TestFound(t *testing.T) {
	const mine = "/kubepods.slice/kubepods-poduid_1.slice/crio-id1.scope"
	zero, one, both := unit.CPUs(0), unit.CPUs(1), unit.CPUs(0, 1)
	for name, c := range map[string]struct {
		spoil              func(*PinningFacts)
		what, result, says string
		whole              string
	}{
		"another container on its CPU": {func(f *PinningFacts) { f.Processes[3] = pinningProcess(40000, "app", f.Processes[3].Group, zero, both) }, "other containers", Fail, "container app of pod default/besteffort (CPU 1)", Fail},
		"a thread got out":             {func(f *PinningFacts) { f.Processes[2] = pinningProcess(32706, "pause", mine, one, both) }, "CPUs of its processes", Fail, "may also run on 0", Fail},
		"the group was changed":        {func(f *PinningFacts) { f.Groups[mine] = Group{both, "file"} }, "CPUs of its control group", Fail, "file has 0-1, but the container's CPUs are 1", Fail},
		"the group cannot be read":     {func(f *PinningFacts) { delete(f.Groups, mine); f.Unread[mine] = "no such file" }, "CPUs of its control group", Unknown, "no such file", Unknown},
		"nothing held":                 {func(f *PinningFacts) { f.Held = nil }, "CPUs of its own", Fail, "the container requests exclusive CPUs (1), but /var/lib/kubelet/cpu_manager_state assigns none", Fail},
		"too much held":                {func(f *PinningFacts) { f.Held["uid-1"]["cpumanager"] = both }, "CPUs of its own", Fail, "assigns CPUs 0-1 (2), but the container requests 1", Fail},
		"held and not wanted": {func(f *PinningFacts) {
			f.Pod.Containers[0].Requests[admission.CPU] = resource.MustParse("500m")
			f.Pod.Containers[0].Limits[admission.CPU] = resource.MustParse("500m")
		}, "CPUs of its own", Fail, "but the container requests 0", Fail},
		"another class": {func(f *PinningFacts) { f.Class = admission.Burstable }, "class of quality of service", Fail, "the pod's status has the class Burstable", Fail},
		"in a group of another class": {func(f *PinningFacts) {
			g := strings.Replace(mine, "kubepods-pod", "kubepods-burstable.slice/kubepods-burstable-pod", 1)
			f.Processes[2].Group, f.Groups[g] = g, f.Groups[mine]
		}, "control group", Fail, "belongs to class Burstable, but the pod's class is Guaranteed", Fail},
		"in a group of another pod": {func(f *PinningFacts) { f.UID = "uid-9"; f.Held["uid-9"] = f.Held["uid-1"] }, "control group", Fail, "does not belong to pod uid-9", Fail},
		"held and not wanted, by a gate": {func(f *PinningFacts) {
			f.Gate = "PodLevelResourceManagers: true"
			f.Pod.Containers[0].Requests[admission.CPU] = resource.MustParse("500m")
			f.Pod.Containers[0].Limits[admission.CPU] = resource.MustParse("500m")
		}, "CPUs of its own", Unknown, "but the container requests 0", Unknown},
		"the group has other CPUs, by a gate": {func(f *PinningFacts) {
			f.Gate, f.Groups[mine] = "PodLevelResourceManagers: true", Group{both, "file"}
		}, "CPUs of its control group", Unknown, "file has 0-1", Unknown},
		"as promised, by a gate": {func(f *PinningFacts) { f.Gate = "PodLevelResourceManagers: true" }, "feature gates", Unknown, "the kubelet has PodLevelResourceManagers: true", Unknown},
		"no process to be seen":  {func(f *PinningFacts) { f.Processes = f.Processes[:2] }, "processes", Unknown, "hostPID", Unknown},
		"nothing runs":           {func(f *PinningFacts) { f.Containers[0].Running = false }, "processes", Unknown, "no container of the pod runs", Unknown},
		"narrower by its own wish": {func(f *PinningFacts) {
			f.Held["uid-1"]["cpumanager"] = one
			f.Processes[2] = pinningProcess(32706, "pause", mine, one)
		}, "CPUs of its processes", Pass, "1 process, 1 thread: all may run on 1", Pass},
		"a sandbox": {func(f *PinningFacts) {
			f.Processes = append(f.Processes, pinningProcess(5, "pause", "/kubepods/podx/sandbox", both))
		}, "sandboxes", Note, "1 process of pods", Pass},
		"no static manager": {func(f *PinningFacts) {
			f.Pool, f.Held, f.Default = admission.Pool{Online: both}, nil, unit.CPUSet{}
			f.Groups[mine], f.Processes[2] = Group{both, "file"}, pinningProcess(32706, "pause", mine, both)
		}, "CPUs of its own", Note, "cpuManagerPolicy is none", Pass},
	} {
		f := facts()
		c.spoil(f)
		d := Verify(f)
		found := find(d, c.what, c.result)
		if len(found) != 1 || !strings.Contains(found[0].Says, c.says) || d.Result != c.whole {
			t.Errorf("%s: %s, want %s: %s", name, d.Result, c.whole, fmt.Sprintf("%+v", d.Checks))
		}
	}
}

// A pod of the shared pool runs on the CPUs that the CPU manager has not assigned.
func TestSharedPool(t *testing.T) {
	f := facts()
	f.Name, f.UID, f.Class, f.Pod = "besteffort", "uid-2", admission.BestEffort, admission.Pod{Containers: []admission.Container{{Name: "app"}}}
	f.Containers, f.Others = []PinnedContainer{{Name: "app", ID: "id2", Running: true}}, []Other{{"default/cpumanager", "cpumanager", "id1"}}
	f.Groups[f.Processes[3].Group] = Group{unit.CPUs(0), "file"}
	d := Verify(f)
	if d.Result != Pass || d.Containers[0].Exclusive || d.Containers[0].CPUs != "0" || len(d.Company) != 0 {
		t.Errorf("%+v", d)
	}
	if n := find(d, "CPUs of its own", Note); len(n) != 1 || !strings.Contains(n[0].Says, "only Guaranteed pods get exclusive CPUs") {
		t.Errorf("%+v", d.Checks)
	}
}
