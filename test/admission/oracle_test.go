// Package admission holds the prediction of an admission against the managers of the
// real kubelet, on machines, settings and pods that are thrown with fixed seeds.
package admission

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"
	"sigs.k8s.io/yaml"

	"fettle.dev/fettle/internal/unit"
	"fettle.dev/fettle/kube/pod/admission"
	"fettle.dev/fettle/kube/pod/admission/podfile"
	"fettle.dev/fettle/test/admission/upstream"
)

// machines is how many machines are thrown; each gets up to eight pods.
var machines = flag.Int("machines", 3000, "how many machines to compare")

// tally counts what was seen, so that a test that sees nothing fails.
type tally map[string]int

func (t tally) String() string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(t)) {
		out = append(out, fmt.Sprintf("%6d %s", t[k], k))
	}
	return strings.Join(out, "\n")
}

// TestAgainstUpstream lets pods come and go on machines, and compares every admission:
// whether the kubelet starts, what each manager answers, what is merged, the verdict
// with its reason, the CPUs, the memory, the devices, and what is left.
func TestAgainstUpstream(t *testing.T) {
	seen := tally{}
	failed := 0
	for seed := range uint64(*machines) {
		if err := oneMachine(t, seed, seen); err != nil {
			t.Errorf("seed %d: %v", seed, err)
			if failed++; failed == 5 {
				t.Fatal("more are not shown")
			}
		}
	}
	t.Logf("compared:\n%s", seen)
	for _, want := range []string{
		"admitted", "refused TopologyAffinityError", "refused SMTAlignmentError", "refused UnexpectedAdmissionError",
		"kubelet does not start", "kubelet crashes", "course depends on devices", "CPUs on several NUMA nodes",
		"init container", "sidecar", "resources of the pod", "huge pages", "scope pod", "scope container", "pods before",
		"option full-pcpus-only", "option distribute-cpus-across-numa", "option prefer-align-cpus-by-uncorecache", "option align-by-socket",
		"option distribute-cpus-across-cores", "option strict-cpu-reservation", "more than one memory block", "memory on several NUMA nodes",
	} {
		option, _ := strings.CutPrefix(want, "option ")
		if upstream.Release < optionsSince[option] || want == "resources of the pod" && upstream.Release < 34 {
			continue
		}
		if seen[want] < 10**machines/3000 {
			t.Errorf("%q was seen %d times: the throws do not reach it", want, seen[want])
		}
	}
	compared(t, "machines", *machines)
}

func oneMachine(t *testing.T, seed uint64, seen tally) error {
	d := newDice(seed)
	in := admission.Input{}
	in.Node = d.node()
	in.Settings = d.settings(&in.Node)
	in.Devices = d.devices(&in.Node)
	if d.chance(25) {
		in.Devices = d.many(&in.Node)
		in.Settings.TopologyManagerPolicy, in.Settings.TopologyManagerScope = one(d, admission.PolicyRestricted, admission.PolicyBestEffort), admission.ScopeContainer
	}
	for i := range in.Devices { // broken devices are not given away
		for j := range in.Devices[i].Devices {
			if in.Devices[i].Devices[j].Unhealthy {
				in.Devices[i].Devices[j].Used = false
			}
		}
	}
	in.Pod = admission.Pod{Containers: []admission.Container{{Name: "c"}}}
	first, err := admission.Predict(in)
	if err != nil {
		return err
	}
	if loops(first) {
		seen["kubelet loops"]++
		return nil
	}
	dir, err := os.MkdirTemp("", "a")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	k, err := upstream.Start(dir, &in)
	if k != nil {
		defer k.Stop()
	}
	if starts := first.Verdict.Outcome != admission.NodeFails; starts != (err == nil) {
		return fmt.Errorf("starting: predicted %+v; the kubelet: %v\n%+v", first.Verdict, err, in.Settings)
	}
	if err != nil {
		seen["kubelet does not start"]++
		return nil
	}
	for name := range in.Settings.CPUManagerPolicyOptions {
		seen["option "+name]++
	}
	var there []*v1.Pod
	for i := range d.between(2, 8) {
		if len(there) > 0 && d.chance(30) {
			gone := d.IntN(len(there))
			k.Remove(there[gone])
			there = slices.Delete(there, gone, gone+1)
		}
		if len(there) > 0 {
			seen["pods before"]++
		}
		in.State = stateOf(k, in.Settings)
		usedDevices(&in, k)
		raw := d.pod(fmt.Sprintf("pod-%d", i), &in.Node, in.Devices)
		pod, err := read(raw, &in)
		if err != nil {
			return err
		}
		p, err := admission.Predict(in)
		if err != nil {
			return fmt.Errorf("pod %d: %w", i, err)
		}
		if loops(p) {
			seen["kubelet loops"]++
			return nil
		}
		if slow(p) {
			seen["too many combinations for the kubelet"]++
			return nil
		}
		if len(p.Outcomes) == 0 {
			return fmt.Errorf("pod %d: %+v", i, p.Verdict)
		}
		before := shared(k)
		r := k.Admit(pod)
		if err := compare(k, &in, p, pod, r, seen); err != nil {
			text, _ := yaml.Marshal(raw.Spec)
			return fmt.Errorf("pod %d: %w\nthe kubelet: %+v\npredicted: %+v\n%s\nsettings %+v\nshared before %s\nCPUs %+v\nNUMA %+v\ndevices %+v", i, err, r, p.Verdict, text, in.Settings, before, in.Node.CPUs, in.Node.NUMA, in.Devices)
		}
		if r.Crash != "" {
			return nil
		}
		if r.Admit {
			there = append(there, pod)
		} else {
			k.Remove(pod)
		}
	}
	return nil
}

// loops says that the kubelet would not come back.
func loops(p *admission.Prediction) bool {
	for _, o := range p.Outcomes {
		if o.Verdict.Outcome == admission.NodeFails && strings.Contains(o.Verdict.Message, "for ever") {
			return true
		}
	}
	return p.Verdict.Outcome == admission.NodeFails && strings.Contains(p.Verdict.Message, "for ever")
}

// slow says that the kubelet would go through too many combinations of hints to wait
// for.
func slow(p *admission.Prediction) bool {
	var most float64
	for _, o := range p.Outcomes {
		if o.Pod != nil {
			most = max(most, o.Pod.Combinations)
		}
		for _, c := range o.Containers {
			if c.Alignment != nil {
				most = max(most, c.Alignment.Combinations)
			}
		}
	}
	return most > 300_000
}

// read takes a pod the way that it takes to us, as text, and the way that it takes to
// a kubelet, with the API server's defaults.
func read(raw *v1.Pod, in *admission.Input) (*v1.Pod, error) {
	text, err := yaml.Marshal(raw)
	if err != nil {
		return nil, err
	}
	f, err := podfile.Read("pod.yaml", text)
	if err != nil {
		return nil, err
	}
	in.Pod = f.Pods[0].Pod
	in.Pod.Release = upstream.Release
	in.Pod.Default()
	pod := raw.DeepCopy()
	upstream.Default(pod)
	return pod, nil
}

func shared(k *upstream.Kubelet) string { return k.CPU.GetDefaultCPUSet().String() }

// stateOf is what the managers hold.
func stateOf(k *upstream.Kubelet, s admission.Settings) admission.State {
	st := admission.State{Running: true}
	if s.CPUManagerPolicy == admission.PolicyStatic {
		st.CPU = &admission.CPUState{Policy: s.CPUManagerPolicy, Default: set(k.CPU.GetDefaultCPUSet()), Entries: map[string]map[string]unit.CPUSet{}}
		for pod, containers := range k.CPU.GetCPUAssignments() {
			st.CPU.Entries[pod] = map[string]unit.CPUSet{}
			for name, cpus := range containers {
				st.CPU.Entries[pod][name] = set(cpus)
			}
		}
	}
	if s.MemoryManagerPolicy == admission.MemoryPolicyStatic {
		st.Memory = &admission.MemoryState{Policy: s.MemoryManagerPolicy, Nodes: accounts(k), Entries: map[string]map[string][]admission.MemoryBlock{}}
		for pod, containers := range k.Memory.GetMemoryAssignments() {
			st.Memory.Entries[pod] = map[string][]admission.MemoryBlock{}
			for name, blocks := range containers {
				for _, b := range blocks {
					st.Memory.Entries[pod][name] = append(st.Memory.Entries[pod][name], admission.MemoryBlock{Nodes: admission.NodesOf(b.NUMAAffinity), Resource: string(b.Type), SizeBytes: b.Size})
				}
			}
		}
	}
	return st
}

func accounts(k *upstream.Kubelet) map[int]*admission.MemoryNode {
	out := map[int]*admission.MemoryNode{}
	for id, n := range k.Memory.GetMachineState() {
		x := &admission.MemoryNode{Assignments: n.NumberOfAssignments, Group: admission.NodesOf(n.Cells), Tables: map[string]*admission.MemoryTable{}}
		for name, m := range n.MemoryMap {
			x.Tables[string(name)] = &admission.MemoryTable{TotalBytes: m.TotalMemSize, SystemReservedBytes: m.SystemReserved, AllocatableBytes: m.Allocatable, ReservedBytes: m.Reserved, FreeBytes: m.Free}
		}
		out[id] = x
	}
	return out
}

func set(s cpuset.CPUSet) unit.CPUSet { return unit.CPUs(s.List()...) }

// usedDevices marks the devices that pods have.
func usedDevices(in *admission.Input, k *upstream.Kubelet) {
	used := map[string]bool{}
	for _, pod := range k.Active() {
		for _, c := range append(slices.Clone(pod.Spec.InitContainers), pod.Spec.Containers...) {
			for name, ids := range k.DevicesOf(string(pod.UID), c.Name) {
				for _, id := range ids {
					used[name+" "+id] = true
				}
			}
		}
	}
	for i := range in.Devices {
		r := &in.Devices[i]
		r.Devices = slices.Clone(r.Devices)
		for j := range r.Devices {
			r.Devices[j].Used = used[r.Name+" "+r.Devices[j].ID]
		}
	}
}
