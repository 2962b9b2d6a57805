package admission

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/internal/unit"
	"fettle.dev/fettle/kube/pod/admission"
	"fettle.dev/fettle/test/admission/upstream"
)

// nodes is a machine with one socket and NUMA nodes of as many cores with threads each;
// the first threads of all cores are numbered first.
func nodes(number, cores, threads int) admission.Node {
	var n admission.Node
	for core := range number * cores {
		for thread := range threads {
			n.CPUs = append(n.CPUs, admission.Processor{ID: thread*number*cores + core, Core: core, NUMA: core / cores, Uncore: -1})
		}
	}
	for id := range number {
		n.NUMA = append(n.NUMA, admission.NUMANode{ID: id, MemoryBytes: 8 * gib})
	}
	return n
}

// rare is a kubelet in a state in which a defect of its version shows.
func rare(n admission.Node, reserved, held string, options ...string) admission.Input {
	list := func(text string) unit.CPUSet {
		s, err := unit.ParseCPUList(text)
		if err != nil {
			panic(err)
		}
		return s
	}
	in := admission.Input{Node: n, Settings: admission.Settings{Release: upstream.Release,
		CPUManagerPolicy: admission.PolicyStatic, CPUManagerPolicyOptions: map[string]string{}, ReservedSystemCPUs: list(reserved),
		TopologyManagerPolicy: admission.PolicyNone, TopologyManagerScope: admission.ScopeContainer, MemoryManagerPolicy: admission.MemoryPolicyNone,
		KubeReserved: admission.Resources{admission.Memory: resource.MustParse("1Gi")},
		FeatureGates: map[string]bool{"CPUManagerPolicyAlphaOptions": true}, // what is beta today was alpha once
	}}
	for _, o := range options {
		in.Settings.CPUManagerPolicyOptions[o] = "true"
	}
	in.State.CPU = &admission.CPUState{Policy: admission.PolicyStatic, Default: online(&n).Minus(list(held)), Entries: map[string]map[string]unit.CPUSet{"other": {"c": list(held)}}}
	return in
}

func plain(cpus int) *v1.Pod {
	list := v1.ResourceList{"cpu": *resource.NewQuantity(int64(cpus), resource.DecimalSI), "memory": resource.MustParse("1Gi")}
	return &v1.Pod{
		TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: meta.ObjectMeta{Name: "p", UID: "p"},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "pause", Resources: v1.ResourceRequirements{Limits: list, Requests: list.DeepCopy()}}}},
	}
}

// both predicts and admits a pod and compares the two.
func both(t *testing.T, in admission.Input, cpus int) (*admission.Prediction, upstream.Result) {
	t.Helper()
	dir, err := os.MkdirTemp("", "a")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	k, err := upstream.Start(dir, &in)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Stop()
	pod, err := read(plain(cpus), &in)
	if err != nil {
		t.Fatal(err)
	}
	p, err := admission.Predict(in)
	if err != nil {
		t.Fatal(err)
	}
	r := k.Admit(pod)
	if err := compare(k, &in, p, pod, r, tally{}); err != nil {
		t.Fatalf("%v\nthe kubelet: %+v", err, r)
	}
	return p, r
}

// From four NUMA nodes on, the kubelet does not distribute CPUs over the nodes that it
// has judged to be the best: its slices share memory. Well judged, these would be CPUs
// 6-11 and 15-20.
func TestSharedSlices(t *testing.T) {
	p, _ := both(t, rare(nodes(8, 3, 1), "0", "2,4,14", "distribute-cpus-across-numa"), 12)
	if got := p.Outcomes[0].Containers[0].CPUs.String(); got != "6-11,15-17,21-23" {
		t.Errorf("CPUs %s", got)
	}
}

// A cache that lies on two NUMA nodes is taken twice, so that the container gets half
// of what it asks for.
func TestCacheTwice(t *testing.T) {
	if upstream.Release < optionsSince["prefer-align-cpus-by-uncorecache"] {
		t.Log("the release does not have the option")
		return
	}
	n := nodes(2, 4, 2)
	for i := range n.CPUs {
		n.CPUs[i].Uncore = n.CPUs[i].Core / 3
	}
	p, r := both(t, rare(n, "0", "15", "prefer-align-cpus-by-uncorecache"), 12)
	if got := p.Outcomes[0].Containers[0].CPUs; got.Len() != 6 || !r.Admit {
		t.Errorf("CPUs %s, %+v", got, r)
	}
	if !strings.Contains(strings.Join(p.Notes, "\n"), "more than once") {
		t.Errorf("it is not said: %q", p.Notes)
	}
}

// Where CPUs are offline, a core of which one thread is free passes for a free core:
// the container gets the other thread too, which is another container's.
func TestCoreOfAnother(t *testing.T) {
	n := nodes(1, 4, 2)
	n.CPUs = n.CPUs[:len(n.CPUs)-1] // CPU 7
	p, r := both(t, rare(n, "0", "5"), 2)
	if got := p.Outcomes[0].Containers[0].CPUs; !r.Admit || got.String() != "0,4" {
		t.Errorf("CPUs %s, %+v", got, r) // 0 is reserved
	}
	if !strings.Contains(strings.Join(p.Notes, "\n"), "reserved or another container's") {
		t.Errorf("it is not said: %q", p.Notes)
	}
}

// Which of equal devices a container gets is chance, and here it decides: both courses
// are predicted, and both are seen.
func TestItDependsOnDevices(t *testing.T) {
	n := nodes(2, 4, 1)
	for i := range n.CPUs {
		n.CPUs[i].Socket = n.CPUs[i].NUMA
	}
	pod := plain(5)
	second := *pod.Spec.Containers[0].DeepCopy()
	second.Name = "d"
	pod.Spec.Containers = append(pod.Spec.Containers, second)
	for i, amounts := range [][2]int64{{5, 3}, {2, 1}} {
		for _, list := range []v1.ResourceList{pod.Spec.Containers[i].Resources.Limits, pod.Spec.Containers[i].Resources.Requests} {
			list["cpu"], list["example.com/nic"] = *resource.NewQuantity(amounts[0], resource.DecimalSI), *resource.NewQuantity(amounts[1], resource.DecimalSI)
		}
	}
	seen := tally{}
	for round := range 200 {
		in := rare(n, "0", "")
		in.State.CPU = nil
		in.Settings.TopologyManagerPolicy = admission.PolicyRestricted
		in.Devices = []admission.DeviceResource{{Name: "example.com/nic", Devices: []admission.Device{{ID: "v", NUMA: []int{0}}, {ID: "w", NUMA: []int{0}}, {ID: "x", NUMA: []int{1}}, {ID: "y", NUMA: []int{1}}}}}
		dir, err := os.MkdirTemp("", "a")
		if err != nil {
			t.Fatal(err)
		}
		k, err := upstream.Start(dir, &in)
		if err != nil {
			t.Fatal(err)
		}
		full, err := read(pod, &in)
		if err != nil {
			t.Fatal(err)
		}
		p, err := admission.Predict(in)
		if err != nil {
			t.Fatal(err)
		}
		r := k.Admit(full)
		err = compare(k, &in, p, full, r, tally{})
		k.Stop()
		os.RemoveAll(dir)
		if err != nil || p.Verdict.Outcome != admission.Undecided {
			t.Fatalf("%+v: %v", p.Verdict, err)
		}
		seen[fmt.Sprint(r.Admit, r.Reason)]++
		if len(seen) == 2 {
			t.Logf("after %d rounds: %v", round+1, map[string]int(seen))
			return
		}
	}
	t.Errorf("only one course was seen: %v", map[string]int(seen))
}

// Two plug-ins may serve one resource, from 1.37 on both at a time: the kubelet has the
// devices of the one that reported last, and so its service of pod resources answers.
func TestAnotherPlugin(t *testing.T) {
	in := rare(nodes(2, 4, 1), "0", "")
	in.State.CPU = nil
	in.Settings.TopologyManagerPolicy = admission.PolicySingleNUMANode
	nic := func(id string, node int) admission.DeviceResource {
		return admission.DeviceResource{Name: "example.com/nic", Devices: []admission.Device{{ID: id, NUMA: []int{node}}}}
	}
	in.Devices = []admission.DeviceResource{nic("a", 0)}
	k, err := upstream.Start(t.TempDir(), &in)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Stop()
	if err := k.Another(nic("b", 1)); err != nil {
		t.Fatal(err)
	}
	raw := plain(2)
	for _, list := range []v1.ResourceList{raw.Spec.Containers[0].Resources.Limits, raw.Spec.Containers[0].Resources.Requests} {
		list["example.com/nic"] = resource.MustParse("1")
	}
	pod, err := read(raw, &in)
	if err != nil {
		t.Fatal(err)
	}
	in.Devices = []admission.DeviceResource{nic("b", 1)}
	p, err := admission.Predict(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := compare(k, &in, p, pod, k.Admit(pod), tally{}); err != nil || p.Verdict.Outcome != admission.Admitted {
		t.Errorf("%+v: %v", p.Verdict, err)
	}
}

// endless is a kubelet that does not come back: whole cores are to be spread over NUMA
// nodes on which single threads are free.
func endless() admission.Input {
	return rare(nodes(6, 3, 2), "2", "12,17,19,21-22,25,28,31-32", "distribute-cpus-across-numa", "full-pcpus-only")
}

// endlessVariable is the number of CPUs that a process of TestEndless asks for.
const endlessVariable = "FETTLE_TEST_ENDLESS"

// TestEndless lets the real kubelet loop in a process of its own, and looks that one
// that does not loop comes back there.
func TestEndless(t *testing.T) {
	if cpus := os.Getenv(endlessVariable); cpus != "" { // in the process of its own
		var number int
		fmt.Sscan(cpus, &number)
		in := endless()
		dir := t.TempDir()
		k, err := upstream.Start(dir, &in)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("asks for", number)
		fmt.Println("came back:", k.Admit(plain(number)).Admit)
		return
	}
	for cpus, wantLoop := range map[int]bool{2: false, 14: true} {
		in := endless()
		if _, err := read(plain(cpus), &in); err != nil {
			t.Fatal(err)
		}
		p, err := admission.Predict(in)
		if err != nil {
			t.Fatal(err)
		}
		if loops(p) != wantLoop {
			t.Errorf("%d CPUs: %+v", cpus, p.Verdict)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		c := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestEndless$", "-test.v")
		c.Env = append(os.Environ(), fmt.Sprintf("%s=%d", endlessVariable, cpus))
		out, err := c.CombinedOutput()
		cancel()
		if !strings.Contains(string(out), "asks for") {
			t.Fatalf("%d CPUs: it did not come so far: %v\n%s", cpus, err, out)
		}
		back := strings.Contains(string(out), "came back: true")
		if back == wantLoop || wantLoop && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("%d CPUs: back: %v, %v\n%s", cpus, back, err, out)
		}
	}
}
