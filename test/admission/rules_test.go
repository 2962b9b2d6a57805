package admission

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"fettle.dev/fettle/kube/pod/admission"
	"fettle.dev/fettle/kube/pod/admission/podfile"
	"fettle.dev/fettle/test/admission/upstream"
)

// wild is a pod that the API server takes or not.
func (d dice) wild(name string) *v1.Pod {
	p := &v1.Pod{TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: meta.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}}
	amounts := func(names ...string) v1.ResourceList {
		if d.chance(15) {
			return nil
		}
		out := v1.ResourceList{}
		for _, n := range names {
			if !d.chance(55) {
				continue
			}
			value := one(d, "1", "2", "500m", "0", "2Gi", "1Gi", "100M")
			switch {
			case n == "cpu":
				value = one(d, "1", "1", "1", "2", "500m", "0", "1e0", "100u")
			case strings.HasPrefix(n, "hugepages"):
				value = one(d, "2Mi", "2Mi", "4Mi", "4Mi", "3Mi", "1Gi", "0")
			case strings.Contains(n, "/"):
				value = one(d, "1", "1", "1", "2", "500m")
			}
			if d.chance(1) {
				value = "-1"
			}
			out[v1.ResourceName(n)] = resource.MustParse(value)
		}
		return out
	}
	requirements := func() v1.ResourceRequirements {
		names := []string{"cpu", "memory"}
		if d.chance(25) {
			names = append(names, one(d, "hugepages-2Mi", "hugepages-1Gi", "hugepages-", "hugepages-2M"))
		}
		if d.chance(20) {
			names = append(names, one(d, "example.com/nic", "ephemeral-storage", "cpus", "kubernetes.io/thing"))
		}
		r := v1.ResourceRequirements{Limits: amounts(names...), Requests: amounts(names...)}
		if d.chance(50) {
			r.Requests = maps.Clone(r.Limits)
		}
		return r
	}
	for i := range d.between(1, 2) {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: fmt.Sprint("c", i), Image: "pause", Resources: requirements()})
	}
	if d.chance(30) {
		c := v1.Container{Name: "i", Image: "pause", Resources: requirements()}
		if d.chance(50) {
			always := v1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	if d.chance(25) {
		r := requirements()
		if d.chance(80) && r.Limits != nil { // enough for its containers
			for name := range r.Limits {
				if !strings.HasPrefix(string(name), "hugepages") || d.chance(50) {
					r.Limits[name] = resource.MustParse("8Gi")
				}
			}
			r.Requests = maps.Clone(r.Limits)
			if d.chance(40) {
				r.Requests = nil
			}
		}
		upstream.SetResources(p, &r)
	}
	if d.chance(15) {
		v := v1.Volume{Name: "v"}
		v.EmptyDir = &v1.EmptyDirVolumeSource{Medium: one(d, v1.StorageMediumHugePages, "HugePages-2Mi", "HugePages-1Gi")}
		p.Spec.Volumes = append(p.Spec.Volumes, v)
	}
	return p
}

// pods is how many pods TestRules throws.
var pods = flag.Int("pods", 30000, "how many pods to compare")

// TestRules compares, of pods as people write them, what the API server fills in and
// refuses, the class, and how volumes of huge pages are mounted.
func TestRules(t *testing.T) {
	seen := tally{}
	node := nodes(1, 2, 1)
	for seed := range uint64(*pods) {
		raw := newDice(seed).wild(fmt.Sprintf("p-%d", seed))
		body, err := yaml.Marshal(raw)
		if err != nil {
			t.Fatal(err)
		}
		f, err := podfile.Read("p.yaml", body)
		if err != nil {
			t.Fatalf("%v\n%s", err, body)
		}
		pod := raw.DeepCopy()
		upstream.Default(pod)
		f.Pods[0].Pod.Release = upstream.Release
		f.Pods[0].Pod.Default()
		p, err := admission.Predict(admission.Input{Node: node, Pod: f.Pods[0].Pod, Settings: admission.Settings{Release: upstream.Release}})
		if err != nil {
			t.Fatal(err)
		}
		wrong, err := upstream.Validate(pod)
		if err != nil {
			t.Fatal(err)
		}
		if invalid := p.Verdict.Outcome == admission.Invalid; invalid != (len(wrong) > 0) {
			t.Fatalf("seed %d: %v; the API server: %v\n%s", seed, p.Problems, wrong, body)
		}
		mark := func(what string, ok bool) {
			if ok {
				seen[what]++
			}
		}
		mark("refused by the API server", len(wrong) > 0)
		mark("taken by the API server", len(wrong) == 0)
		if len(wrong) > 0 {
			mark("repaired", len(p.Advice) > 0)
			continue
		}
		if class := upstream.Class(pod); class != p.QoS.Class {
			t.Fatalf("seed %d: %s, predicted %+v\n%s", seed, class, p.QoS, body)
		}
		seen[p.QoS.Class]++
		mark("resources of the pod", upstream.Resources(raw) != nil)
		sameResources(t, seed, pod, &f.Pods[0].Pod)
		for _, v := range pod.Spec.Volumes {
			_, err := upstream.PageSize(v.EmptyDir.Medium, pod)
			fails := ""
			for _, r := range p.HugePages {
				if strings.Contains(r.Rule, "the medium of an emptyDir") && r.Result == "fail" {
					fails = r.Why
				}
			}
			if (err != nil) != (fails != "") {
				t.Fatalf("seed %d: the volume: %v; predicted %q\n%s", seed, err, fails, body)
			}
			mark("volume mounted", err == nil)
			mark("volume not mounted", err != nil)
		}
	}
	t.Logf("compared:\n%s", seen)
	for _, want := range []string{"refused by the API server", "taken by the API server", "repaired", "Guaranteed", "Burstable", "BestEffort", "resources of the pod", "volume mounted", "volume not mounted"} {
		if seen[want] < 30**pods/30000 && (want != "resources of the pod" || upstream.Release >= 34) {
			t.Errorf("%q was seen %d times", want, seen[want])
		}
	}
	compared(t, "pods", *pods)
}

// sameResources compares the amounts after defaults.
func sameResources(t *testing.T, seed uint64, pod *v1.Pod, got *admission.Pod) {
	t.Helper()
	same := func(who string, want v1.ResourceList, got admission.Resources) {
		if len(want) != len(got) {
			t.Fatalf("seed %d: %s: %v, read %v", seed, who, want, got)
		}
		for name, q := range want {
			if mine, ok := got[string(name)]; !ok || q.Cmp(mine) != 0 {
				t.Fatalf("seed %d: %s: %s %s, read %s", seed, who, name, q.String(), mine.String())
			}
		}
	}
	for i, c := range pod.Spec.Containers {
		same(c.Name+" requests", c.Resources.Requests, got.Containers[i].Requests)
		same(c.Name+" limits", c.Resources.Limits, got.Containers[i].Limits)
	}
	for i, c := range pod.Spec.InitContainers {
		same(c.Name+" requests", c.Resources.Requests, got.Init[i].Requests)
	}
	if r := upstream.Resources(pod); r != nil {
		same("pod requests", r.Requests, got.Requests)
		same("pod limits", r.Limits, got.Limits)
	}
}

// TestOutOf compares the kubelet's last check, whether the node has room at all.
func TestOutOf(t *testing.T) {
	dir, err := os.MkdirTemp("", "a")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	in := rare(nodes(1, 4, 1), "0", "")
	in.State.CPU = nil
	in.Settings.CPUManagerPolicy = admission.PolicyNone
	in.Settings.CPUManagerPolicyOptions = nil
	in.Devices = []admission.DeviceResource{{Name: "example.com/nic", Devices: []admission.Device{{ID: "a"}, {ID: "b"}}}}
	k, err := upstream.Start(dir, &in)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Stop()
	seen := tally{}
	for seed := range uint64(6000) {
		d := newDice(seed)
		raw := d.wild(fmt.Sprintf("p-%d", seed))
		pod, err := read(raw, &in)
		if err != nil {
			t.Fatal(err)
		}
		upstream.Default(pod)
		if wrong, err := upstream.Validate(pod); err != nil || len(wrong) > 0 {
			continue
		}
		node := &v1.Node{}
		node.Status.Allocatable = v1.ResourceList{"cpu": resource.MustParse(one(d, "4", "2", "8")), "memory": resource.MustParse(one(d, "4Gi", "16Gi")), "pods": resource.MustParse(one(d, "2", "10"))}
		for _, more := range []string{"hugepages-2Mi", "ephemeral-storage", "example.com/nic"} {
			if d.chance(60) {
				node.Status.Allocatable[v1.ResourceName(more)] = resource.MustParse(one(d, "0", "1", "2", "1Gi"))
			}
		}
		in.Capacity = &admission.Capacity{Allocatable: admission.Resources{}, Requested: admission.Resources{}}
		for name, q := range node.Status.Allocatable {
			in.Capacity.Allocatable[string(name)] = q
		}
		var others []*v1.Pod
		for i := range d.IntN(3) {
			other := d.wild(fmt.Sprintf("other-%d", i))
			upstream.Default(other)
			if wrong, err := upstream.Validate(other); err != nil || len(wrong) > 0 {
				continue
			}
			others = append(others, other)
			for name, q := range upstream.Requests(other) {
				sum := in.Capacity.Requested[string(name)]
				sum.Add(q)
				in.Capacity.Requested[string(name)] = sum
			}
		}
		in.Capacity.Pods = len(others)
		p, err := admission.Predict(in)
		if err != nil {
			t.Fatal(err)
		}
		first := k.Admit(pod)
		if !first.Admit {
			if p.Verdict.Reason != first.Reason {
				t.Fatalf("seed %d: %+v; the kubelet: %+v", seed, p.Verdict, first)
			}
			k.Remove(pod)
			continue
		}
		r := k.Predicate(node, others, pod)
		k.Remove(pod)
		// Of several huge pages and extended resources the kubelet names any.
		any := strings.ContainsAny(p.Verdict.Reason, "/-") && p.Verdict.Reason != "OutOfephemeral-storage"
		named := r.Reason == p.Verdict.Reason || any && strings.Contains(p.Verdict.Message, " "+strings.TrimPrefix(r.Reason, "OutOf")+": ")
		if admit := p.Verdict.Outcome == admission.Admitted; admit != r.Admit || !named {
			body, _ := yaml.Marshal(raw.Spec)
			t.Fatalf("seed %d: %+v; the kubelet: %+v\nallocatable %v, requested %v, %d pods\n%s", seed, p.Verdict, r, node.Status.Allocatable, in.Capacity.Requested, len(others), body)
		}
		seen[fmt.Sprint(r.Admit, " ", r.Reason)]++
	}
	t.Logf("compared:\n%s", seen)
	for _, want := range []string{"true ", "false OutOfcpu", "false OutOfmemory", "false OutOfpods", "false OutOfhugepages-2Mi", "false OutOfkubernetes.io/thing"} {
		if seen[want] < 10 {
			t.Errorf("%q was seen %d times", want, seen[want])
		}
	}
	compared(t, "nodes with room or without", 6000)
}
