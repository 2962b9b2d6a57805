package node

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/unit"
	"fettle.dev/fettle/kube/pod/admission"
	"fettle.dev/fettle/kube/pod/admission/state"
	"fettle.dev/fettle/kube/pod/admission/state/checksum"
)

// tree is a machine with two sockets, each a NUMA node with four cores of two threads; two cores
// share a level 3 cache. File names are those of the kernel.
func tree() map[string]string { return treeWith(false) }

// treeWith returns tree, with CPU 15 on or off.
func treeWith(off bool) map[string]string {
	files := map[string]string{
		"/sys/devices/system/cpu/online":      "0-15\n",
		"/proc/meminfo":                       "MemTotal:       33554432 kB\nMemFree: 1 kB\n",
		"/sys/devices/system/node/online":     "0-1\n",
		"/sys/devices/system/cpu/cpufreq/any": "\n",
	}
	if off {
		files["/sys/devices/system/cpu/online"] = "0-14\n"
	}
	for cpu := range 16 {
		c := cpu % 8
		dir := fmt.Sprintf("/sys/devices/system/cpu/cpu%d/", cpu)
		if off && cpu == 15 {
			files[dir+"online"] = "0\n"
			continue
		}
		files[dir+"topology/core_id"] = fmt.Sprintf("%d\n", c%4)
		files[dir+"topology/physical_package_id"] = fmt.Sprintf("%d\n", c/4)
		for i, level := range []int{1, 1, 2, 3} {
			mask, id := 1<<c|1<<(c+8), c
			if level == 3 {
				first := c / 2 * 2
				mask, id = 3<<first|3<<(first+8), c/2
			}
			at := fmt.Sprintf("%scache/index%d/", dir, i)
			files[at+"level"], files[at+"id"] = fmt.Sprintf("%d\n", level), fmt.Sprintf("%d\n", id)
			files[at+"shared_cpu_map"] = fmt.Sprintf("%04x\n", mask)
		}
	}
	for n := range 2 {
		dir := fmt.Sprintf("/sys/devices/system/node/node%d/", n)
		files[dir+"cpulist"] = []string{"0-3,8-11\n", "4-7,12-15\n"}[n]
		files[dir+"meminfo"] = fmt.Sprintf("Node %d MemTotal:       16777216 kB\nNode %d MemFree:  1 kB\n", n, n)
		files[dir+"distance"] = []string{"10 21\n", "21 10\n"}[n]
		files[dir+"hugepages/hugepages-2048kB/nr_hugepages"] = fmt.Sprintf("%d\n", 64*n)
		files[dir+"hugepages/hugepages-1048576kB/nr_hugepages"] = "0\n"
	}
	return files
}

// machine writes a tree.
func machine(t *testing.T, files map[string]string) *host.Host {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return host.Mounted(dir)
}

func TestSettings(t *testing.T) {
	const gib = 1 << 30
	s, err := Settings([]byte(`{"kubeletconfig":{"cpuManagerPolicy":"static","cpuManagerPolicyOptions":{"full-pcpus-only":"true"},"reservedSystemCPUs":"0,8",
"topologyManagerPolicy":"restricted","topologyManagerScope":"pod","memoryManagerPolicy":"Static","reservedMemory":[{"numaNode":1,"limits":{"memory":"1100Mi"}}],
"kubeReserved":{"memory":"1Gi","pid":"1000"},"evictionHard":{"memory.available":"5%"},"featureGates":{"CPUManagerPolicyAlphaOptions":true},"maxPods":110,"unknownField":[1]}}`), 10*gib)
	if err != nil {
		t.Fatal(err)
	}
	memory := s.KubeReserved[admission.Memory]
	if s.CPUManagerPolicy != "static" || s.CPUManagerPolicyOptions["full-pcpus-only"] != "true" || s.ReservedSystemCPUs.String() != "0,8" || s.TopologyManagerScope != "pod" ||
		len(s.ReservedMemory) != 1 || s.ReservedMemory[0].NUMANode != 1 || memory.Value() != gib || !s.FeatureGates["CPUManagerPolicyAlphaOptions"] {
		t.Errorf("%+v", s)
	}
	// 5 % is a 32-bit float, as in the kubelet.
	ratio := float32(5.0) / 100
	if want := uint64(float64(10*gib) * float64(ratio)); s.EvictionHardMemoryBytes != want {
		t.Errorf("5 %% of 10 GiB: %d, want %d", s.EvictionHardMemoryBytes, want)
	}
	for text, want := range map[string]uint64{
		`{}`:                    100 << 20,
		`{"evictionHard":null}`: 100 << 20,
		`{"evictionHard":{}}`:   0,
		`{"evictionHard":{"nodefs.available":"1%"}}`:                                     0,
		`{"evictionHard":{"nodefs.available":"1%"},"mergeDefaultEvictionSettings":true}`: 100 << 20,
		`{"evictionHard":{"memory.available":"0%"},"mergeDefaultEvictionSettings":true}`: 0,
		`{"evictionHard":{"memory.available":"100%"}}`:                                   0,
		`{"evictionHard":{"memory.available":"1Gi"}}`:                                    gib,
	} {
		s, err := Settings([]byte(`{"kubeletconfig":`+text+`}`), gib)
		if err != nil || s.EvictionHardMemoryBytes != want {
			t.Errorf("%s: %d %v, want %d", text, s.EvictionHardMemoryBytes, err, want)
		}
	}
	for _, text := range []string{`{}`, `[]`, `{"kubeletconfig":{"reservedSystemCPUs":"x"}}`, `{"kubeletconfig":{"kubeReserved":{"cpu":"much"}}}`, `{"kubeletconfig":{"evictionHard":{"memory.available":"200%"}}}`, `{"kubeletconfig":{"evictionHard":{"memory.available":"some"}}}`} {
		if s, err := Settings([]byte(text), gib); err == nil || !strings.HasPrefix(err.Error(), "configz") {
			t.Errorf("%s: %+v, %v", text, s, err)
		}
	}
}

const staticConfig = `{"kubeletconfig":{"cpuManagerPolicy":"static","reservedSystemCPUs":"0","topologyManagerPolicy":"single-numa-node","evictionHard":{"memory.available":"0%"},
"staticPodURLHeader":{"Authorization":["secret-of-a-header"]}}}`

// snapshot is a node on which one pod has CPUs 1 to 3, another one has ended, and the API knows a
// static pod under another UID.
func snapshot(t *testing.T) *Snapshot {
	files := tree()
	c := &state.CPUManagerCheckpoint{PolicyName: "static", DefaultCPUSet: "0,6-15", Entries: map[string]map[string]string{"uid-1": {"c": "1-3"}, "uid-static": {"c": "4"}, "uid-gone": {"c": "5"}}}
	c.Checksum = checksum.Of(c)
	files[KubeletDir+"/cpu_manager_state"] = fmt.Sprintf(`{"policyName":"static","defaultCpuSet":"0,6-15","entries":{"uid-1":{"c":"1-3"},"uid-static":{"c":"4"},"uid-gone":{"c":"5"}},"checksum":%d}`, c.Checksum)
	h := machine(t, files)
	pod := func(name, uid string, cpus string, phase core.PodPhase, annotations map[string]string) core.Pod {
		amounts := core.ResourceList{core.ResourceCPU: resource.MustParse(cpus), core.ResourceMemory: resource.MustParse("1Gi")}
		p := core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: "default", Name: name, Annotations: annotations}}
		p.UID = types.UID(uid)
		p.Spec.Containers = []core.Container{{Name: "c", Resources: core.ResourceRequirements{Requests: amounts, Limits: amounts}, Env: []core.EnvVar{{Name: "PASSWORD", Value: "secret-of-a-pod"}}}}
		p.Status.Phase = phase
		return p
	}
	return &Snapshot{
		From: h.Name, Taken: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Files: h.Files, KubeletDir: KubeletDir, Config: []byte(staticConfig),
		Node: &core.Node{
			ObjectMeta: meta.ObjectMeta{Name: "worker-1", Annotations: map[string]string{"note": "secret-of-a-node"}},
			Status: core.NodeStatus{
				Allocatable: core.ResourceList{core.ResourceCPU: resource.MustParse("14"), core.ResourceMemory: resource.MustParse("30Gi"), core.ResourcePods: resource.MustParse("110"), "example.com/nic": resource.MustParse("2"), "example.com/none": resource.MustParse("0")},
				NodeInfo:    core.NodeSystemInfo{KubeletVersion: "v1.34.4"},
			},
		},
		Pods: &core.PodList{Items: []core.Pod{
			pod("busy", "uid-1", "3", core.PodRunning, nil),
			pod("ended", "uid-gone", "1", core.PodSucceeded, nil),
			pod("static-worker-1", "uid-mirror", "1", core.PodRunning, map[string]string{core.MirrorPodAnnotationKey: "uid-static", "key": "secret-of-an-annotation"}),
		}},
	}
}

func TestInput(t *testing.T) {
	s := snapshot(t)
	s.Resources = &Answer{
		Allocatable: []Devices{{Resource: "example.com/nic", IDs: []string{"b"}, NUMA: []int{1}}, {Resource: "example.com/nic", IDs: []string{"a", "b"}, NUMA: []int{0}}},
		Pods:        []ListedPod{{Namespace: "default", Name: "busy", Containers: []ListedContainer{{Name: "c", Devices: []Devices{{Resource: "example.com/nic", IDs: []string{"a"}}}}}}},
	}
	in, err := s.Input()
	if err != nil {
		t.Fatal(err)
	}
	if len(in.Assumed) != 0 {
		t.Errorf("assumed: %q", in.Assumed)
	}
	want := []admission.DeviceResource{{Name: "example.com/nic", Devices: []admission.Device{{ID: "a", NUMA: []int{0}, Used: true}, {ID: "b", NUMA: []int{0, 1}}}}}
	if diff := cmp.Diff(want, in.Devices); diff != "" {
		t.Error(diff)
	}
	requested := in.Capacity.Requested[admission.CPU]
	if requested.Value() != 4 || in.Capacity.Pods != 2 {
		t.Errorf("requested %s by %d pods", &requested, in.Capacity.Pods)
	}
	// The CPU of the pod that has ended is free again, that of the static pod is not.
	four := admission.Resources{admission.CPU: resource.MustParse("4"), admission.Memory: resource.MustParse("1Gi")}
	in.Pod = admission.Pod{Name: "p", Containers: []admission.Container{{Name: "c", Requests: four, Limits: four}}}
	p, err := admission.Predict(in)
	if err != nil {
		t.Fatal(err)
	}
	if p.Verdict.Outcome != admission.Admitted || p.Outcomes[0].Containers[0].CPUs.String() != "8-11" {
		t.Errorf("%+v: CPUs %s", p.Verdict, p.Outcomes[0].Containers[0].CPUs)
	}
	if shared := p.Outcomes[0].Shared; shared.Union(p.Outcomes[0].Containers[0].CPUs).String() != "0,5-15" {
		t.Errorf("shared afterwards: %s, and CPUs %s for the container, %+v", shared, p.Outcomes[0].Containers[0].CPUs, in.State.CPU)
	}
}

// TestDeclaredWithoutLabels tests a hand-written Node object without labels that declares features.
func TestDeclaredWithoutLabels(t *testing.T) {
	s := snapshot(t)
	s.Node.Labels, *declaredFeatures(&s.Node.Status) = nil, []string{admission.FeatureHostNetworkUsers}
	in, err := s.Input()
	if err != nil || in.Place == nil || len(in.Place.Features) != 1 {
		t.Errorf("%+v, %v", in.Place, err)
	}
}

// TestAssumed tests that unknown facts are assumed and reported.
func TestAssumed(t *testing.T) {
	s := snapshot(t)
	s.Node.Status.NodeInfo.KubeletVersion = "v1.340.0"
	in, err := s.Input()
	if err != nil {
		t.Fatal(err)
	}
	said := strings.Join(in.Assumed, "\n")
	for _, want := range []string{"example.com/nic: number of devices as in the Node object", "the kubelet v1.340.0 behaves like Kubernetes 1.37"} {
		if !strings.Contains(said, want) {
			t.Errorf("not said: %s\n%s", want, said)
		}
	}
	if len(in.Devices) != 1 || len(in.Devices[0].Devices) != 2 {
		t.Errorf("devices: %+v", in.Devices)
	}
	s.Node, s.Pods = nil, nil
	s.KubeletDir = "/var/lib/other"
	if in, err = s.Input(); err != nil {
		t.Fatal(err)
	}
	said = strings.Join(in.Assumed, "\n")
	for _, want := range []string{"the node has no file /var/lib/other/cpu_manager_state", "all assignments in the managers' files are still held (pods on the node unknown)", "the node has room for the pod", "the node has no devices"} {
		if !strings.Contains(said, want) {
			t.Errorf("not said: %s\n%s", want, said)
		}
	}
	if in.State.Active != nil || in.Capacity != nil {
		t.Errorf("%+v, %+v", in.State.Active, in.Capacity)
	}
}

// TestDamagedState tests that a file that the kubelet would not read is an error.
func TestDamagedState(t *testing.T) {
	s := snapshot(t)
	at := filepath.Join(s.From, KubeletDir, "cpu_manager_state")
	text, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(strings.Replace(string(text), "1-3", "1-2", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Input(); err == nil || !strings.Contains(err.Error(), "checksum") || !strings.Contains(err.Error(), KubeletDir) {
		t.Error(err)
	}
}

// TestCopy tests that a record has the same content as the node, without its secrets.
func TestCopy(t *testing.T) {
	s := snapshot(t)
	s.Unasked = "there is no socket"
	s.Node.Labels, s.Node.Spec.Unschedulable = map[string]string{"disktype": "ssd"}, true
	s.Node.Spec.Taints = []core.Taint{{Key: "dedicated", Effect: core.TaintEffectNoSchedule}}
	s.Pods.Items[0].Spec.Containers[0].Ports = []core.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	dir := filepath.Join(t.TempDir(), "copy")
	if err := s.Save(dir); err != nil {
		t.Fatal(err)
	}
	got, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.Input()
	if err != nil {
		t.Fatal(err)
	}
	b, err := got.Input()
	if err != nil {
		t.Fatal(err)
	}
	for i := range b.Sources {
		b.Sources[i].From = strings.ReplaceAll(b.Sources[i].From, dir, s.From)
	}
	same := cmp.Options{cmp.Comparer(func(a, b unit.CPUSet) bool { return a.Equal(b) }), cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 }), cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".built" }, cmp.Ignore())}
	if p := b.Place; p == nil || len(p.Labels) != 1 || len(p.Taints) != 1 || !p.Cordoned || len(p.Ports) != 1 {
		t.Errorf("labels, taints and host ports of the copy: %+v", p)
	}
	if diff := cmp.Diff(a, b, same); diff != "" {
		t.Errorf("the node and its copy (-node +copy):\n%s", diff)
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		st, err := d.Info()
		if err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v %v", path, st.Mode(), err)
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "secret") {
			t.Errorf("%s has a secret:\n%s", path, text)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if err := s.Save(dir); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("into a directory that has something: %v", err)
	}
}

// TestCopyKnowsWhatWasAbsent tests that a file that the machine lacked counts as absent in the
// record, not as unrecorded. With the static policy this matters.
func TestCopyKnowsWhatWasAbsent(t *testing.T) {
	s := snapshot(t)
	if err := os.Remove(filepath.Join(s.From, KubeletDir, "cpu_manager_state")); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "copy")
	if err := s.Save(dir); err != nil {
		t.Fatal(err)
	}
	assumed := func() string {
		got, err := Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		in, err := got.Input()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(in.Assumed, "\n")
	}
	if said := assumed(); !strings.Contains(said, "the node has no file /var/lib/kubelet/cpu_manager_state") {
		t.Error(said)
	}
	if err := os.Remove(filepath.Join(dir, contentsFile)); err != nil {
		t.Fatal(err)
	}
	if said := assumed(); !strings.Contains(said, "is not in "+dir) {
		t.Error(said)
	}
	if err := os.Remove(filepath.Join(dir, configFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "kubectl fettle pod record") {
		t.Error(err)
	}
}

// TestResourcesByHand tests that an unknown key in podresources.json is an error with its line; if
// it were ignored, a device would lack its NUMA node.
func TestResourcesByHand(t *testing.T) {
	for text, want := range map[string]string{
		`{"allocatable":[{"resource":"example.com/nic","ids":["a"],"numa_nodes":[1]}]}`:                        "",
		"{\"allocatable\":[\n{\"resource\":\"example.com/nic\",\"ids\":[\"a\"],\n\"NUMA\":[1]}]}":              `podresources.json:3: unknown field "NUMA"; known are allocatable, pods; resource, ids, numa_nodes`,
		`{"pods":[{"namespace":"a","name":"b","container":[]}]}`:                                               `podresources.json:1: unknown field "container"`,
		`{"allocatable":[{"resource":"example.com/nic","ids":["a"],"numa_nodes":["1"]}]}`:                      "podresources.json",
		`{"allocatable":[{"resource":"example.com/nic","ids":["a"],"numa_nodes":null}],"pods":[{"name":"b"}]}`: "",
		"null": "",
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{configFile: staticConfig, resourcesFile: text} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, err := Load(dir)
		if want == "" && (err != nil || s.Resources == nil) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
