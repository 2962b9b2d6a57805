package admission

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/internal/unit"
)

func TestParseRelease(t *testing.T) {
	for text, want := range map[string]Release{
		"v1.36.3": 36, "1.31": 31, "v1.35.4+k3s1": 35, "v1.29.14-eks-1": 29, "v1.38.0-alpha.1": 38, "v1.340.0": 340,
		"": 0, "v2.1.0": 0, "v1": 0, "v1.": 0, "v1.x": 0, "v1.3x": 0, "v1.36_3": 0, "v1.99999999999999999999": 0,
	} {
		if r, ok := ParseRelease(text); r != want || ok != (want != 0) {
			t.Errorf("%q: %s, %t", text, r, ok)
		}
	}
}

// TestOptionsByRelease tests by release whether a kubelet starts with an option and without feature
// gates.
func TestOptionsByRelease(t *testing.T) {
	for _, c := range []struct {
		field, name, value string
		starts             Release // first release that takes it; 0 none
		withAlpha          Release // with the gate of alpha options
		withoutBeta        Release // with the gate of beta options off
	}{
		{"cpu", "full-pcpus-only", "true", 29, 29, 33},
		{"cpu", "strict-cpu-reservation", "true", 33, 32, 35},
		{"cpu", "distribute-cpus-across-numa", "true", 33, 29, 0},
		{"cpu", "prefer-align-cpus-by-uncorecache", "true", 34, 32, 36},
		{"cpu", "align-by-socket", "true", 0, 29, 0},
		{"cpu", "distribute-cpus-across-cores", "true", 0, 31, 0},
		{"topology", "prefer-closest-numa-nodes", "true", 29, 29, 32},
		{"topology", "max-allowable-numa-nodes", "9", 31, 31, 35},
	} {
		for r := Oldest; r <= Newest; r++ {
			starts := func(gates map[string]bool) bool {
				s := Settings{Release: r, FeatureGates: gates, CPUManagerPolicy: PolicyStatic, ReservedSystemCPUs: unit.CPUs(0), TopologyManagerPolicy: PolicyBestEffort}
				if c.field == "cpu" {
					s.CPUManagerPolicyOptions = map[string]string{c.name: c.value}
				} else {
					s.TopologyManagerPolicyOptions = map[string]string{c.name: c.value}
				}
				return len(s.Problems()) == 0
			}
			for what, x := range map[string]struct {
				got   bool
				first Release
			}{
				"no gate":  {starts(nil), c.starts},
				"alpha on": {starts(map[string]bool{"CPUManagerPolicyAlphaOptions": true, "TopologyManagerPolicyAlphaOptions": true}), c.withAlpha},
				"beta off": {starts(map[string]bool{"CPUManagerPolicyBetaOptions": false, "TopologyManagerPolicyBetaOptions": false}), c.withoutBeta},
			} {
				if want := x.first != 0 && r >= x.first; x.got != want {
					t.Errorf("%s, Kubernetes %s, %s: starts %t, want %t", c.name, r, what, x.got, want)
				}
			}
		}
	}
}

// TestDeviceHintsByRelease tests a device on node 0 and six CPUs that need both nodes: from 1.36 on
// the hint is node 0, so the CPUs of node 0 are used first.
func TestDeviceHintsByRelease(t *testing.T) {
	two := resource.MustParse("6")
	gib := resource.MustParse("1Gi")
	nic := resource.MustParse("1")
	for r, want := range map[Release]string{29: "1-2,4-7", 35: "1-2,4-7", 36: "1-6", 37: "1-6", 38: "1-6"} {
		in := Input{
			Settings: Settings{Release: r, CPUManagerPolicy: PolicyStatic, ReservedSystemCPUs: unit.CPUs(0), TopologyManagerPolicy: PolicyBestEffort},
			Devices:  []DeviceResource{{Name: "example.com/nic", Devices: []Device{{ID: "n0", NUMA: []int{0}}, {ID: "n1", NUMA: []int{0}}}}},
		}
		for i := range 8 {
			in.Node.CPUs = append(in.Node.CPUs, Processor{ID: i, Core: i, Socket: i / 4, NUMA: i / 4, Uncore: -1})
		}
		in.Node.NUMA = []NUMANode{{ID: 0, MemoryBytes: 8 << 30}, {ID: 1, MemoryBytes: 8 << 30}}
		amounts := Resources{CPU: two, Memory: gib, "example.com/nic": nic}
		in.Pod.Containers = []Container{{Name: "c", Requests: amounts, Limits: amounts}}
		p, err := Predict(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Outcomes[0].Containers[0].CPUs.String(); p.Verdict.Outcome != Admitted || got != want {
			t.Errorf("Kubernetes %s: %+v, CPUs %s, want %s", r, p.Verdict, got, want)
		}
		if newer := p.Document().Newer; (newer != "") != (r > Newest) {
			t.Errorf("Kubernetes %s: newer %q", r, newer)
		}
	}
}

// TestPodResourcesByRelease tests the class of pods with their own resources, after the API
// server's defaults.
func TestPodResourcesByRelease(t *testing.T) {
	list := func(cpu, memory string) Resources {
		return Resources{CPU: resource.MustParse(cpu), Memory: resource.MustParse(memory)}
	}
	for name, c := range map[string]struct {
		requests, limits Resources // of the pod
		classes          map[Release]string
	}{
		"none":          {nil, nil, map[Release]string{29: Guaranteed, 34: Guaranteed, 37: Guaranteed}},
		"empty":         {Resources{}, nil, map[Release]string{33: Guaranteed, 34: BestEffort, 36: BestEffort, 37: Guaranteed}},
		"only requests": {list("2", "1Gi"), nil, map[Release]string{33: Guaranteed, 34: Burstable, 36: Burstable, 37: Guaranteed}},
		"more":          {list("3", "1Gi"), nil, map[Release]string{33: Guaranteed, 36: Burstable, 37: Guaranteed}},
		"limits":        {nil, list("4", "2Gi"), map[Release]string{33: Guaranteed, 34: Burstable, 37: Burstable}},
	} {
		for r, want := range c.classes {
			p := Pod{Release: r, Requests: c.requests.clone(), Limits: c.limits.clone(), Containers: []Container{{Name: "c", Limits: list("2", "1Gi")}}}
			p.Default()
			if got := p.QoS().Class; got != want {
				t.Errorf("%s, Kubernetes %s: %s, want %s (%v, %v)", name, r, got, want, p.Requests, p.Limits)
			}
		}
	}
}

func TestNotDecided(t *testing.T) {
	in := Input{Node: Node{CPUs: []Processor{{}}, NUMA: []NUMANode{{}}}, Pod: Pod{Containers: []Container{{Name: "c"}}}}
	for want, set := range map[string]func(*Settings){
		Admitted:  func(s *Settings) { s.Release = 29 },
		Undecided: func(s *Settings) { s.Release = 28 },
		Unknown:   func(s *Settings) { s.FeatureGates = map[string]bool{"PodLevelResourceManagers": true} },
	} {
		in.Settings = Settings{}
		set(&in.Settings)
		p, err := Predict(in)
		if err != nil {
			t.Fatal(err)
		}
		if p.Answer().Outcome != want {
			t.Errorf("%+v: %+v, want %s", in.Settings, p.Answer(), want)
		}
		if d := p.Document(); (d.Kubernetes == "") != (want == Undecided) {
			t.Errorf("%s by the rules of %q", want, d.Kubernetes)
		}
	}
}

// TestGatesOfStage tests that AllAlpha and AllBeta set the gates of their stage, except those that
// are set explicitly.
func TestGatesOfStage(t *testing.T) {
	for _, c := range []struct {
		release Release
		gates   map[string]bool
		unknown string // outcome is Unknown and names this; "" if the pod is admitted
	}{
		{36, map[string]bool{"AllAlpha": true}, "PodLevelResourceManagers: true (by AllAlpha: true)"},
		{36, map[string]bool{"AllBeta": true}, ""},
		{37, map[string]bool{"AllBeta": true}, "PodLevelResourceManagers: true (by AllBeta: true)"},
		{37, map[string]bool{"AllBeta": true, "PodLevelResourceManagers": false}, ""},
		{37, map[string]bool{"AllAlpha": false}, ""},
		{33, map[string]bool{"AllAlpha": true}, "InPlacePodVerticalScalingExclusiveCPUs: true (by AllAlpha: true)"},
		{34, map[string]bool{"AllBeta": false}, "PodLevelResources: false (by AllBeta: false)"},
		{34, map[string]bool{"AllBeta": false, "PodLevelResources": true}, ""},
		{31, map[string]bool{"AllAlpha": true}, ""},
		{32, map[string]bool{"InPlacePodVerticalScalingExclusiveCPUs": true}, "InPlacePodVerticalScalingExclusiveCPUs: true"},
		{35, map[string]bool{"TopologyManagerPolicyOptions": false}, "TopologyManagerPolicyOptions: false"},
		{32, map[string]bool{"SidecarContainers": false}, "SidecarContainers: false"},
	} {
		in := Input{Node: Node{CPUs: []Processor{{}}, NUMA: []NUMANode{{}}}, Pod: Pod{Containers: []Container{{Name: "c"}}}}
		in.Settings = Settings{Release: c.release, FeatureGates: c.gates}
		p, err := Predict(in)
		if err != nil {
			t.Fatal(err)
		}
		v := p.Answer()
		if want := c.unknown != ""; want != (v.Outcome == Unknown) || want && !strings.Contains(v.Message, "gate "+c.unknown+",") {
			t.Errorf("%s, %v: %+v, want %q", c.release, c.gates, v, c.unknown)
		}
	}
	for gates, want := range map[string]bool{"AllAlpha": true, "AllBeta": false} {
		s := Settings{Release: 34, CPUManagerPolicy: PolicyStatic, ReservedSystemCPUs: unit.CPUs(0), FeatureGates: map[string]bool{gates: want}}
		s.CPUManagerPolicyOptions = map[string]string{map[bool]string{true: "align-by-socket", false: "distribute-cpus-across-numa"}[want]: "true"}
		if got := len(s.Problems()) == 0; got != want {
			t.Errorf("%s: %t: starts %t: %q", gates, want, got, s.Problems())
		}
	}
}

// TestUnmodeledGates tests that each entry is a gate of its listed releases.
func TestUnmodeledGates(t *testing.T) {
	for _, g := range unmodeled {
		for r := g.first; r <= g.last; r++ {
			if _, ok := kuberelease.Known().Gate(g.gate, kuberelease.Release(r)); !ok {
				t.Errorf("Kubernetes %s has no gate %s", r, g.gate)
			}
		}
	}
}

// TestMemoryOfUsedNodesByRelease tests a pod that needs CPUs and memory of two NUMA nodes, each of
// which is used alone: a kubelet before 1.32 uses the memory of both, a later one does not.
func TestMemoryOfUsedNodesByRelease(t *testing.T) {
	const gib = 1 << 30
	for r, want := range map[Release]string{29: Admitted, 31: Admitted, 32: Refused, 37: Refused} {
		in := Input{Settings: Settings{Release: r, CPUManagerPolicy: PolicyStatic, ReservedSystemCPUs: unit.CPUs(0),
			TopologyManagerPolicy: PolicyBestEffort, MemoryManagerPolicy: MemoryPolicyStatic,
			SystemReserved: Resources{Memory: resource.MustParse("1Gi")},
			ReservedMemory: []MemoryReservation{{NUMANode: 0, Limits: Resources{Memory: resource.MustParse("1Gi")}}}}}
		in.State.Memory = &MemoryState{Policy: MemoryPolicyStatic, Nodes: map[int]*MemoryNode{}, Entries: map[string]map[string][]MemoryBlock{"uid": {}}}
		for i := range 8 {
			in.Node.CPUs = append(in.Node.CPUs, Processor{ID: i, Core: i, Socket: i / 4, NUMA: i / 4, Uncore: -1})
		}
		for i := range 2 {
			reserved := uint64(1-i) * gib
			in.Node.NUMA = append(in.Node.NUMA, NUMANode{ID: i, MemoryBytes: 8 * gib})
			in.State.Memory.Nodes[i] = &MemoryNode{Assignments: 1, Group: maskOf(i), Tables: map[string]*MemoryTable{Memory: {
				TotalBytes: 8 * gib, SystemReservedBytes: reserved, AllocatableBytes: 8*gib - reserved, ReservedBytes: 3 * gib, FreeBytes: 5*gib - reserved}}}
			in.State.Memory.Entries["uid"][string(rune('a'+i))] = []MemoryBlock{{Nodes: maskOf(i), Resource: Memory, SizeBytes: 3 * gib}}
		}
		amounts := Resources{CPU: resource.MustParse("6"), Memory: resource.MustParse("7Gi")}
		in.Pod.Containers = []Container{{Name: "c", Requests: amounts, Limits: amounts}}
		p, err := Predict(in)
		if err != nil {
			t.Fatal(err)
		}
		if p.Verdict.Outcome != want {
			t.Errorf("Kubernetes %s: %+v, want %s", r, p.Verdict, want)
		}
	}
}

// TestMemoryStateByRelease tests that from 1.32 on the memory given by a group may be on another of
// its nodes than the file says.
func TestMemoryStateByRelease(t *testing.T) {
	account := func(first, second uint64) memoryAccounts {
		out := memoryAccounts{}
		for i, given := range []uint64{first, second} {
			out[i] = &MemoryNode{Assignments: 1, Group: maskOf(0, 1), Tables: map[string]*MemoryTable{Memory: {TotalBytes: 8, AllocatableBytes: 8, ReservedBytes: given, FreeBytes: 8 - given}}}
		}
		return out
	}
	for r := Oldest; r <= Newest; r++ {
		if err := account(8, 2).same(account(6, 4), r); (err == nil) != (r >= 32) {
			t.Errorf("Kubernetes %s: %v", r, err)
		}
		if err := account(8, 2).same(account(8, 2), r); err != nil {
			t.Errorf("Kubernetes %s: %v", r, err)
		}
	}
}

// TestMemoryStartByChance tests a NUMA node in two groups: the kubelet calculates the file's values
// only for some orders of its map.
func TestMemoryStartByChance(t *testing.T) {
	blocks := map[string]MemoryBlock{"a": {Nodes: maskOf(0) | maskOf(1) | maskOf(2), Resource: Memory, SizeBytes: 3 << 30}, "b": {Nodes: maskOf(0) | maskOf(1), Resource: Memory, SizeBytes: 1 << 30}}
	n := Node{CPUs: []Processor{{}}}
	for id := range 3 {
		n.NUMA = append(n.NUMA, NUMANode{ID: id, MemoryBytes: 8 << 30})
	}
	gib := Resources{Memory: resource.MustParse("1Gi")}
	s := Settings{MemoryManagerPolicy: MemoryPolicyStatic, KubeReserved: gib, ReservedMemory: []MemoryReservation{{NUMANode: 0, Limits: gib}}}
	for _, c := range []struct {
		release Release
		order   string // in which the blocks were given
		given   uint64 // changes what the file says is given away
		running bool
		outcome string
		note    bool
	}{
		{31, "ab", 0, false, Undecided, false},
		{31, "ba", 0, false, Undecided, false},
		{31, "ab", 0, true, Admitted, true},
		{31, "ab", 1, false, NodeFails, false},
		{31, "a", 0, false, Admitted, false},
		{33, "ab", 0, false, Undecided, false},
	} {
		in := Input{Node: n, Settings: s, Pod: Pod{Containers: []Container{{Name: "c"}}}}
		in.Settings.Release = c.release
		reserved, err := in.Settings.reservedMemory(&n)
		if err != nil {
			t.Fatal(err)
		}
		accounts, err := emptyAccounts(&n, reserved)
		if err != nil {
			t.Fatal(err)
		}
		in.State = State{Running: c.running, Memory: &MemoryState{Policy: MemoryPolicyStatic, Nodes: accounts, Entries: map[string]map[string][]MemoryBlock{"p": {}}}}
		for _, name := range strings.Split(c.order, "") {
			accounts.assign(blocks[name])
			in.State.Memory.Entries["p"][name] = []MemoryBlock{blocks[name]}
		}
		accounts[0].Tables[Memory].ReservedBytes += c.given
		accounts[0].Tables[Memory].FreeBytes -= c.given
		p := mustPredict(t, in)
		if noted := strings.Contains(strings.Join(p.Notes, "\n"), "by chance"); p.Verdict.Outcome != c.outcome || noted != c.note {
			t.Errorf("%+v: %+v, %q", c, p.Verdict, p.Notes)
		}
	}
}

// TestInitExtendedByRelease tests an init container that requests a resource that the node lacks.
func TestInitExtendedByRelease(t *testing.T) {
	for r, want := range map[Release]string{29: "OutOfexample.com/x", 30: "OutOfexample.com/x", 31: "", 37: ""} {
		in := Input{Node: Node{CPUs: []Processor{{}}, NUMA: []NUMANode{{}}}, Settings: Settings{Release: r}, Capacity: CapacityOf(Resources{CPU: resource.MustParse("1")}, nil)}
		amounts := Resources{"example.com/x": resource.MustParse("1")}
		in.Pod.Init = []Container{{Name: "i", Requests: amounts, Limits: amounts}}
		in.Pod.Containers = []Container{{Name: "c", Requests: amounts, Limits: amounts}}
		p, err := Predict(in)
		if err != nil {
			t.Fatal(err)
		}
		if p.Verdict.Reason != want {
			t.Errorf("Kubernetes %s: %+v, want %q", r, p.Verdict, want)
		}
		pending := Verdict{Outcome: Pending, Reason: "Insufficient example.com/x"}
		if r >= claimsFit { // a DeviceClass may give it
			pending = Verdict{Outcome: Unknown}
		}
		if v := p.Scheduler; v == nil || v.Outcome != pending.Outcome || v.Reason != pending.Reason || strings.Count(v.Reason+v.Message, "example.com/x") != 1 {
			t.Errorf("Kubernetes %s: %+v", r, p.Scheduler)
		}
	}
}

// TestStrictGroupsByRelease tests a pod with supplementalGroupsPolicy Strict.
func TestStrictGroupsByRelease(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		release Release
		node    *Place
		reason  string
		note    bool
	}{
		{32, &Place{StrictGroups: &no}, "", false},
		{33, &Place{StrictGroups: &no}, ReasonGroups, false},
		{37, &Place{StrictGroups: &no}, ReasonGroups, false},
		{37, &Place{StrictGroups: &yes}, "", false},
		{37, &Place{}, "", true},
		{37, nil, "", true},
	} {
		in := Input{Node: Node{CPUs: []Processor{{}}, NUMA: []NUMANode{{}}}, Settings: Settings{Release: c.release}, Place: c.node}
		in.Pod.Placement.StrictGroups = true
		in.Pod.Containers = []Container{{Name: "c"}}
		p, err := Predict(in)
		if err != nil {
			t.Fatal(err)
		}
		if noted := strings.Contains(strings.Join(p.Notes, "\n"), ReasonGroups); p.Verdict.Reason != c.reason || noted != c.note {
			t.Errorf("Kubernetes %s, %+v: %+v, %q", c.release, c.node, p.Verdict, p.Notes)
		}
	}
}
