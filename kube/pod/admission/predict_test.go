package admission

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/unit"
)

// TestOneNodeAsMeasured tests the observed behavior of a kubelet with two CPUs (chapter 6 of the
// OpenShift guide shows it too): 500m are reserved, which is CPU 0. A pod gets CPU 1, and nothing
// is left for a second one.
func TestOneNodeAsMeasured(t *testing.T) {
	in := Input{
		Node:     machine(1, 1, 2, 1),
		Settings: Settings{CPUManagerPolicy: PolicyStatic, KubeReserved: with("cpu=500m")},
		Pod:      pod(guaranteed("c", "cpu=1 memory=1G")),
	}
	p := mustPredict(t, in)
	if got := outcome(p); got != "admitted c=1" || p.Outcomes[0].Shared.String() != "0" {
		t.Errorf("%s, shared %s", got, p.Outcomes[0].Shared)
	}
	in.State = held(in.Node, "1")
	if got := outcome(mustPredict(t, in)); got != "refused (UnexpectedAdmissionError)" {
		t.Errorf("second pod: %s", got)
	}
}

// TestEligible tests which containers get exclusive CPUs.
func TestEligible(t *testing.T) {
	own := Container{Name: "c"}
	for name, c := range map[string]struct {
		pod    Pod
		policy string
		class  string
		want   string
		why    string
	}{
		"whole CPUs":           {pod(guaranteed("c", "cpu=2 memory=1Gi")), PolicyStatic, Guaranteed, "admitted c=1-2", "whole number of CPUs: 2"},
		"2000m are whole":      {pod(guaranteed("c", "cpu=2000m memory=1Gi")), PolicyStatic, Guaranteed, "admitted c=1-2", "whole number of CPUs: 2"},
		"a fraction":           {pod(guaranteed("c", "cpu=1500m memory=1Gi")), PolicyStatic, Guaranteed, "admitted c=shared", "not a whole number"},
		"one of two":           {pod(guaranteed("a", "cpu=1500m memory=1Gi"), guaranteed("b", "cpu=1 memory=1Gi")), PolicyStatic, Guaranteed, "admitted a=shared b=1", ""},
		"request below limit":  {pod(Container{Name: "c", Requests: with("cpu=1 memory=1Gi"), Limits: with("cpu=2 memory=1Gi")}), PolicyStatic, Burstable, "admitted c=shared", "only Guaranteed"},
		"no limit of memory":   {pod(Container{Name: "c", Requests: with("cpu=2"), Limits: with("cpu=2")}), PolicyStatic, Burstable, "admitted c=shared", "only Guaranteed"},
		"nothing asked for":    {pod(own), PolicyStatic, BestEffort, "admitted c=shared", "only Guaranteed"},
		"amounts of zero":      {pod(Container{Name: "c", Requests: with("cpu=0 memory=0"), Limits: with("cpu=0 memory=0")}), PolicyStatic, BestEffort, "admitted c=shared", "only Guaranteed"},
		"resources of the pod": {Pod{Containers: []Container{guaranteed("c", "cpu=2 memory=1Gi")}, Requests: with("cpu=2 memory=1Gi"), Limits: with("cpu=2 memory=1Gi")}, PolicyStatic, Guaranteed, "admitted c=shared", "spec.resources"},
		"policy none":          {pod(guaranteed("c", "cpu=2 memory=1Gi")), PolicyNone, Guaranteed, "admitted c=shared", "none"},
		"init container lacks": {Pod{Init: []Container{{Name: "i"}}, Containers: []Container{guaranteed("c", "cpu=2 memory=1Gi")}}, PolicyStatic, Burstable, "admitted i=shared c=shared", "only Guaranteed"},
	} {
		t.Run(name, func(t *testing.T) {
			p := mustPredict(t, Input{Node: machine(1, 1, 4, 1), Settings: Settings{CPUManagerPolicy: c.policy, ReservedSystemCPUs: unit.CPUs(0)}, Pod: c.pod})
			if got := outcome(p); got != c.want || p.QoS.Class != c.class || len(p.QoS.Why) == 0 {
				t.Errorf("%s, %+v; want %s, %s", got, p.QoS, c.want, c.class)
			}
			if why := p.Outcomes[0].Containers[0].Why; !strings.Contains(why, c.why) {
				t.Errorf("because %q, want %q", why, c.why)
			}
		})
	}
}

// TestPolicies tests two nodes with four CPUs each: CPU 0 is reserved, and others are in use.
func TestPolicies(t *testing.T) {
	two := machine(2, 1, 4, 1)
	four := pod(guaranteed("c", "cpu=4 memory=1Gi"))
	for name, c := range map[string]struct {
		policy string
		held   string
		pod    Pod
		want   string
	}{
		// Three CPUs of node 0 are free and all of node 1.
		"fits a node":                        {PolicySingleNUMANode, "", four, "admitted c=4-7"},
		"restricted, fits a node":            {PolicyRestricted, "", four, "admitted c=4-7"},
		"packed without alignment":           {PolicyNone, "", four, "admitted c=4-7"},
		"a larger one needs both":            {PolicyRestricted, "", pod(guaranteed("c", "cpu=5 memory=1Gi")), "admitted c=1,4-7"},
		"no single node has it":              {PolicySingleNUMANode, "", pod(guaranteed("c", "cpu=5 memory=1Gi")), "refused (TopologyAffinityError)"},
		"restricted counts an empty machine": {PolicyRestricted, "7", four, "refused (TopologyAffinityError)"},
		"best-effort takes both nodes":       {PolicyBestEffort, "7", four, "admitted c=1-4"},
		"too many altogether":                {PolicyBestEffort, "", pod(guaranteed("c", "cpu=8 memory=1Gi")), "refused (UnexpectedAdmissionError)"},
		"too many, restricted":               {PolicyRestricted, "", pod(guaranteed("c", "cpu=8 memory=1Gi")), "refused (TopologyAffinityError)"},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Node: two, Settings: static(c.policy), Pod: c.pod}
			if c.held != "" {
				in.State = held(two, c.held)
			}
			if got := outcome(mustPredict(t, in)); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// TestInitContainerTrapsThePod tests an init container that gets CPUs of the node with the fewest
// free ones. The container must use the same CPUs, and does not fit on that node (kubernetes
// #123816).
func TestInitContainerTrapsThePod(t *testing.T) {
	in := Input{Node: machine(2, 1, 4, 1), Settings: static(PolicySingleNUMANode), Pod: pod(guaranteed("c", "cpu=4 memory=1Gi"))}
	in.Pod.Init = []Container{guaranteed("i", "cpu=1 memory=1Gi")}
	p := mustPredict(t, in)
	if got := outcome(p); got != "refused (TopologyAffinityError)" || p.Verdict.Container != "c" {
		t.Errorf("%s at %s", got, p.Verdict.Container)
	}
	var advised bool
	for _, a := range p.Advice {
		advised = advised || a.Where == "kubelet" && a.Change == "topologyManagerScope: pod" && strings.Contains(a.Then, "c on CPUs 4-7")
	}
	if !advised {
		t.Errorf("scope pod is not advised: %+v", p.Advice)
	}
	in.Settings.TopologyManagerScope = ScopePod
	if got := outcome(mustPredict(t, in)); got != "admitted i=4 c=4-7" {
		t.Errorf("scope pod: %s", got)
	}
	// A sidecar keeps its CPUs, so that the pod needs five.
	in.Pod.Init[0].Sidecar = true
	if got := outcome(mustPredict(t, in)); got != "refused (TopologyAffinityError)" {
		t.Errorf("with a sidecar: %s", got)
	}
}

// TestCPUOptions tests the options of the static policy, on one socket with two NUMA nodes of four
// cores with two threads: node 0 is 0-3,8-11, node 1 is 4-7,12-15.
func TestCPUOptions(t *testing.T) {
	n := machine(1, 2, 4, 2)
	for i := range n.CPUs {
		n.CPUs[i].Uncore = n.CPUs[i].Core / 2 // two cores share a cache
	}
	of := func(cpus string) Pod { return pod(guaranteed("c", "cpu="+cpus+" memory=1Gi")) }
	for name, c := range map[string]struct {
		options string
		pod     Pod
		want    string
		shared  string
	}{
		"whole cores first":         {"", of("3"), "admitted c=1,9,8", "0,2-7,10-15"},
		"a node":                    {"", of("8"), "admitted c=4-7,12-15", "0-3,8-11"},
		"full cores":                {"full-pcpus-only", of("4"), "admitted c=1-2,9-10", ""},
		"no multiple":               {"full-pcpus-only", of("3"), "refused (SMTAlignmentError)", ""},
		"not on a reserved core":    {"full-pcpus-only", of("14"), "admitted c=1-7,9-15", "0,8"},
		"more than the whole cores": {"full-pcpus-only", of("16"), "refused (SMTAlignmentError)", ""},
		"spread over nodes":         {"distribute-cpus-across-numa", of("10"), "admitted c=1-2,8-10,4-6,12-13", ""},
		"whole cores spread":        {"distribute-cpus-across-numa full-pcpus-only", of("10"), "admitted c=1-2,9-10,4-6,12-14", ""},
		"within a cache":            {"prefer-align-cpus-by-uncorecache", of("4"), "admitted c=2-3,10-11", ""},
		"part of a cache":           {"prefer-align-cpus-by-uncorecache", of("2"), "admitted c=2,10", ""},
		"threads spread":            {"distribute-cpus-across-cores", of("3"), "admitted c=1-3", ""},
		"strict reservation":        {"strict-cpu-reservation", of("2"), "admitted c=1,9", "2-8,10-15"},
	} {
		t.Run(name, func(t *testing.T) {
			p := mustPredict(t, Input{Node: n, Settings: static(PolicyNone, strings.Fields(c.options)...), Pod: c.pod})
			want := c.want
			if _, list, ok := strings.Cut(want, "c="); ok {
				want = "admitted c=" + cpuList(list).String()
			}
			if got := outcome(p); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if c.shared != "" && p.Outcomes[0].Shared.String() != c.shared {
				t.Errorf("shared %s, want %s", p.Outcomes[0].Shared, c.shared)
			}
		})
	}
}

// TestMemory tests memory on two nodes of 16 GiB, with 1 GiB of node 0 reserved.
func TestMemory(t *testing.T) {
	n := machine(2, 1, 4, 1)
	in := func(policy string, st State, memory string) Input {
		return Input{Node: n, Settings: withMemory(static(policy)), State: st, Pod: pod(guaranteed("c", "cpu=1 memory="+memory))}
	}
	p := mustPredict(t, in(PolicyRestricted, State{}, "15Gi"))
	if got := outcome(p); got != "admitted c=1" || p.Outcomes[0].Containers[0].Memory[0].Nodes != 1 {
		t.Errorf("%s on %v", got, p.Outcomes[0].Containers[0].Memory)
	}
	// The CPU alone would come from node 0.
	if p = mustPredict(t, in(PolicyRestricted, State{}, "16Gi")); outcome(p) != "admitted c=4" {
		t.Errorf("16 GiB are only on node 1: %s", outcome(p))
	}
	if p = mustPredict(t, in(PolicyRestricted, State{}, "20Gi")); outcome(p) != "refused (TopologyAffinityError)" {
		t.Errorf("memory on two nodes and a CPU on one do not name the same nodes: %s", outcome(p))
	}
	if p = mustPredict(t, in(PolicyBestEffort, State{}, "20Gi")); outcome(p) != "admitted c=1" || p.Outcomes[0].Containers[0].Memory[0].Nodes != 3 {
		t.Errorf("20 GiB are on both nodes: %s, %v", outcome(p), p.Outcomes[0].Containers[0].Memory)
	}
	// Once the nodes are used together, neither is used alone (kubernetes #128669).
	var together State
	accounts, err := emptyAccounts(&n, map[int]map[string]uint64{0: {Memory: 1 << 30}, 1: {}})
	if err != nil {
		t.Fatal(err)
	}
	block := MemoryBlock{Nodes: 3, Resource: Memory, SizeBytes: 20 << 30}
	accounts.assign(block)
	together.Memory = &MemoryState{Policy: MemoryPolicyStatic, Nodes: accounts, Entries: map[string]map[string][]MemoryBlock{"uid": {"c": {block}}}}
	p = mustPredict(t, in(PolicySingleNUMANode, together, "1Gi"))
	if got := outcome(p); got != "refused (TopologyAffinityError)" || !strings.Contains(p.Verdict.Message, "used together") {
		t.Errorf("%s: %s", got, p.Verdict.Message)
	}
	if len(p.Advice) == 0 || p.Advice[0].Where != "node" || !strings.Contains(p.Advice[0].Change, "uid") {
		t.Errorf("advice: %+v", p.Advice)
	}
	// A removed pod does not count.
	together.Active = []ActivePod{}
	if p = mustPredict(t, in(PolicySingleNUMANode, together, "1Gi")); outcome(p) != "admitted c=1" {
		t.Errorf("after the pod has gone: %s", outcome(p))
	}
}

// TestUnknownPagesCrash tests that a huge page size that the node lacks crashes this version.
func TestUnknownPagesCrash(t *testing.T) {
	in := Input{Node: machine(1, 1, 4, 1), Settings: withMemory(static(PolicyNone)), Pod: pod(guaranteed("c", "cpu=1 memory=1Gi hugepages-1Gi=1Gi"))}
	p := mustPredict(t, in)
	if p.Verdict.Outcome != NodeFails || !strings.Contains(p.Verdict.Message, "would crash") {
		t.Errorf("%+v", p.Verdict)
	}
	in.Settings.MemoryManagerPolicy, in.Settings.ReservedMemory = "", nil
	in.Capacity = &Capacity{Allocatable: with("cpu=3 memory=14Gi pods=10 hugepages-2Mi=0")}
	if got := outcome(mustPredict(t, in)); got != "refused (OutOfhugepages-1Gi)" {
		t.Error(got)
	}
}

// TestDevices tests a device near node 1 with free CPUs only on node 0.
func TestDevices(t *testing.T) {
	n := machine(2, 1, 4, 1)
	nic := []DeviceResource{{Name: "example.com/nic", Devices: []Device{{ID: "a", NUMA: []int{1}}, {ID: "b", NUMA: []int{1}, Used: true}, {ID: "x", NUMA: []int{0}, Unhealthy: true}}}}
	in := func(policy, busy, devices string) Input {
		return Input{Node: n, Settings: static(policy), Devices: nic, State: held(n, busy), Pod: pod(guaranteed("c", "cpu=2 memory=1Gi example.com/nic="+devices))}
	}
	p := mustPredict(t, in(PolicySingleNUMANode, "1", "1"))
	if got := outcome(p); got != "admitted c=4-5" || !p.Outcomes[0].Containers[0].Devices[0].Certain {
		t.Errorf("%s, %+v", got, p.Outcomes[0].Containers[0].Devices)
	}
	for policy, want := range map[string]string{
		PolicySingleNUMANode: "refused (TopologyAffinityError)",
		PolicyRestricted:     "refused (TopologyAffinityError)",
		PolicyBestEffort:     "admitted c=1-2",
		PolicyNone:           "admitted c=1-2",
	} {
		if got := outcome(mustPredict(t, in(policy, "4-7", "1"))); got != want {
			t.Errorf("%s, node 1 without CPUs: %s, want %s", policy, got, want)
		}
		if got := outcome(mustPredict(t, in(policy, "4", "2"))); !strings.HasPrefix(got, "refused") {
			t.Errorf("%s, two devices: %s", policy, got)
		}
	}
}

// TestItDependsOnDevices tests a first container that needs both nodes and leaves one device. The
// node of that device decides whether the second container is aligned, which cannot be known.
func TestItDependsOnDevices(t *testing.T) {
	in := Input{Node: machine(2, 1, 4, 1), Settings: static(PolicyRestricted), Pod: pod(guaranteed("a", "cpu=5 memory=1Gi example.com/nic=3"), guaranteed("b", "cpu=2 memory=1Gi example.com/nic=1"))}
	in.Devices = []DeviceResource{{Name: "example.com/nic", Devices: []Device{{ID: "v", NUMA: []int{0}}, {ID: "w", NUMA: []int{0}}, {ID: "x", NUMA: []int{1}}, {ID: "y", NUMA: []int{1}}}}}
	p := mustPredict(t, in)
	if p.Verdict.Outcome != Undecided || len(p.Outcomes) != 2 || !strings.Contains(p.Verdict.Message, "refused (TopologyAffinityError)") || p.Outcomes[0].Containers[0].Devices[0].Certain {
		t.Errorf("%d courses, %+v", len(p.Outcomes), p.Verdict)
	}
	// No container follows, or nothing is aligned: then it does not matter.
	in.Settings = static(PolicyNone)
	if p := mustPredict(t, in); len(p.Outcomes) != 1 || p.Verdict.Outcome != Admitted {
		t.Errorf("policy none: %d courses, %+v", len(p.Outcomes), p.Verdict)
	}
	in.Settings, in.Pod.Containers = static(PolicyRestricted), in.Pod.Containers[:1]
	if p := mustPredict(t, in); len(p.Outcomes) != 1 || p.Verdict.Outcome != Admitted {
		t.Errorf("one container: %d courses, %+v", len(p.Outcomes), p.Verdict)
	}
}

// TestKubeletDoesNotStart tests the reasons for which a kubelet does not start.
func TestKubeletDoesNotStart(t *testing.T) {
	two := machine(2, 1, 4, 2)
	good := func() Input {
		return Input{Node: two, Settings: static(PolicyRestricted), Pod: pod(guaranteed("c", "cpu=2 memory=1Gi"))}
	}
	if p := mustPredict(t, good()); p.Verdict.Outcome != Admitted {
		t.Fatalf("%+v", p.Verdict)
	}
	for name, c := range map[string]struct {
		spoil func(*Input)
		want  string
	}{
		"nothing reserved":    {func(in *Input) { in.Settings.ReservedSystemCPUs = unit.CPUSet{} }, "the static CPU manager needs reserved CPUs; set reservedSystemCPUs, or cpu in kubeReserved or systemReserved"},
		"reserved not online": {func(in *Input) { in.Settings.ReservedSystemCPUs = unit.CPUs(0, 99) }, "not online: CPU 99"},
		"options with none": {func(in *Input) {
			in.Settings.CPUManagerPolicy = PolicyNone
			in.Settings.CPUManagerPolicyOptions = map[string]string{"full-pcpus-only": "true"}
		}, "cpuManagerPolicyOptions need cpuManagerPolicy static; set that, or leave the options out"},
		"unknown policy": {func(in *Input) { in.Settings.CPUManagerPolicy = "Static" }, `"Static"`},
		"unknown option": {func(in *Input) { in.Settings.CPUManagerPolicyOptions = map[string]string{"full-cpus": "true"} }, `no option "full-cpus"`},
		"no boolean":     {func(in *Input) { in.Settings.CPUManagerPolicyOptions = map[string]string{"full-pcpus-only": "on"} }, "want true or false"},
		"closed gate": {func(in *Input) {
			in.Settings = static(PolicyRestricted, "align-by-socket")
			in.Settings.FeatureGates = nil
		}, "CPUManagerPolicyAlphaOptions"},
		"exclusive options": {func(in *Input) {
			in.Settings = static(PolicyRestricted, "full-pcpus-only", "distribute-cpus-across-cores")
		}, "exclude each other"},
		"socket and single":   {func(in *Input) { in.Settings = static(PolicySingleNUMANode, "align-by-socket") }, "cpuManagerPolicyOptions: align-by-socket and topologyManagerPolicy single-numa-node exclude each other"},
		"topology policy":     {func(in *Input) { in.Settings.TopologyManagerPolicy = "single" }, "topologyManagerPolicy"},
		"topology scope":      {func(in *Input) { in.Settings.TopologyManagerScope = "node" }, "topologyManagerScope"},
		"too many nodes":      {func(in *Input) { in.Node = machine(3, 3, 1, 1) }, "9 NUMA nodes"},
		"memory not reserved": {func(in *Input) { in.Settings.MemoryManagerPolicy = MemoryPolicyStatic }, "the static memory manager needs reservedMemory; set it"},
		"memory sums": {func(in *Input) {
			in.Settings = withMemory(in.Settings)
			in.Settings.EvictionHardMemoryBytes = 100 << 20
		}, "of all NUMA nodes must add up to the node's reservation (kubeReserved + systemReserved, for memory + evictionHard),"},
		"memory of no node":    {func(in *Input) { in.Settings = withMemory(in.Settings); in.Settings.ReservedMemory[0].NUMANode = 5 }, "no NUMA node 5"},
		"policy of the file":   {func(in *Input) { in.State.CPU = &CPUState{Policy: PolicyNone} }, "was written with none"},
		"memory file":          {func(in *Input) { in.State.Memory = &MemoryState{Policy: MemoryPolicyStatic} }, "memoryManagerPolicy is None"},
		"CPUs have changed":    {func(in *Input) { in.State = held(machine(2, 1, 2, 2)) }, "cpu_manager_state is from a machine with CPUs"},
		"reserved has changed": {func(in *Input) { in.State = held(two, "0-1") }, "lacks the reserved CPU 0: "},
		"CPUs twice":           {func(in *Input) { in.State = held(two, "4"); in.State.CPU.Default = newTopology(&two).all }, "both in the shared pool"},
		"strictly reserved now": {func(in *Input) {
			in.Settings = static(PolicyRestricted, "strict-cpu-reservation")
			in.State = held(two)
		}, "strictly reserved"},
	} {
		t.Run(name, func(t *testing.T) {
			in := good()
			c.spoil(&in)
			p := mustPredict(t, in)
			if p.Verdict.Outcome != NodeFails || !strings.Contains(strings.Join(p.Problems, "\n"), c.want) {
				t.Errorf("%+v: %v; want %q", p.Verdict, p.Problems, c.want)
			}
		})
	}
}

// TestWhole tests that a request larger than the machine fits on no number of NUMA nodes.
func TestWhole(t *testing.T) {
	for cpus, want := range map[string]string{
		"cpu=7 memory=1Gi": "7 CPUs requested; free: 3 on node 0, 4 on node 1; on an empty machine it would fit on 2 NUMA nodes",
		"cpu=8 memory=1Gi": "8 CPUs requested; free: 3 on node 0, 4 on node 1; on an empty machine it would fit on 2 NUMA nodes",
		"cpu=9 memory=1Gi": "9 CPUs requested; free: 3 on node 0, 4 on node 1; the machine has only 8 CPUs",
	} {
		p := mustPredict(t, Input{Node: machine(2, 1, 4, 1), Settings: static(PolicySingleNUMANode), Pod: pod(guaranteed("c", cpus))})
		if got := p.Outcomes[0].alignments()[0].Answers[1].Why; got != want {
			t.Errorf("%s: %s", cpus, got)
		}
	}
}

func TestHuman(t *testing.T) {
	for _, c := range []struct{ name, quantity, want string }{
		{Memory, "16165912Ki", "15.4 GiB"}, {Memory, "52428800", "50 MiB"}, {"hugepages-2Mi", "-4Mi", "-4 MiB"}, {Memory, "0", "0 B"},
		{CPU, "1500m", "1500m"}, {"example.com/nic", "2", "2"}, {"pods", "-1", "-1"},
	} {
		if got := Human(c.name, c.quantity); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.name, c.quantity, got, c.want)
		}
	}
}
