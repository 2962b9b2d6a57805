package admission

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// A pod that needs a feature of its node: refused where the node is known not to declare it,
// by the kubelets that look.
func TestFeaturesByRelease(t *testing.T) {
	on := map[string]bool{"NodeDeclaredFeatures": true}
	for _, c := range []struct {
		release  Release
		gates    map[string]bool
		needs    string
		declared []string
		outcome  string
	}{
		{34, nil, FeatureRestartAll, []string{}, Admitted},
		{35, nil, FeatureRestartAll, []string{}, Admitted}, // alpha
		{35, on, FeatureRestartAll, []string{}, Refused},
		{35, on, FeatureHostNetworkUsers, []string{}, Admitted}, // 1.35 does not have it
		{36, nil, FeatureHostNetworkUsers, []string{"GuaranteedQoSPodCPUResize"}, Refused},
		{36, map[string]bool{"NodeDeclaredFeatures": false}, FeatureRestartAll, []string{}, Admitted},
		{37, nil, FeatureRestartAll, []string{FeatureRestartAll}, Admitted},
		{37, nil, FeatureRestartAll, []string{}, Refused},
		{37, nil, FeatureRestartAll, nil, Unknown},
		{0, nil, FeatureRestartAll, nil, Unknown},
		{37, nil, "", nil, Admitted},
	} {
		in := Input{Node: Node{CPUs: []Processor{{}}, NUMA: []NUMANode{{}}}, Settings: Settings{Release: c.release, FeatureGates: c.gates}, Place: &Place{Features: c.declared}}
		in.Pod.Containers = []Container{{Name: "c"}}
		if c.needs != "" {
			in.Pod.Features = []string{c.needs}
		}
		v := mustPredict(t, in).Verdict
		if v.Outcome != c.outcome || (v.Reason == ReasonFeature) != (c.outcome == Refused) || v.Outcome != Admitted && !strings.Contains(v.Message, c.needs) {
			t.Errorf("%+v: %+v", c, v)
		}
	}
}

// An extended resource that a claim gives is not asked of the device plug-ins, nor of the
// node's room, by the kubelets that know of it.
func TestClaimsByRelease(t *testing.T) {
	on := map[string]bool{"DRAExtendedResource": true}
	for _, c := range []struct {
		release Release
		gates   map[string]bool
		reason  string
	}{
		{34, nil, ReasonUnexpected},
		{34, on, ReasonUnexpected}, // its kubelet does not look
		{35, nil, ReasonUnexpected},
		{35, on, "OutOfexample.com/nic"}, // its device manager looks, its last check does not
		{36, nil, ""},
		{36, map[string]bool{"DRAExtendedResource": false}, ReasonUnexpected},
		{37, nil, ""},
	} {
		one := Resources{"example.com/nic": resource.MustParse("1")}
		in := Input{Node: Node{CPUs: []Processor{{}}, NUMA: []NUMANode{{}}}, Settings: Settings{Release: c.release, FeatureGates: c.gates}}
		in.Devices = []DeviceResource{{Name: "example.com/nic", Devices: []Device{{ID: "a", Used: true}}}}
		in.Capacity = CapacityOf(Resources{"pods": resource.MustParse("10"), "example.com/nic": resource.MustParse("0")}, nil)
		in.Pod.Placement.Node = "n"
		in.Pod.Containers = []Container{{Name: "c", Requests: one, Limits: one, Claimed: []string{"example.com/nic"}}}
		p := mustPredict(t, in)
		if p.Verdict.Reason != c.reason {
			t.Errorf("Kubernetes %s, %v: %+v, want %q", c.release, c.gates, p.Verdict, c.reason)
		}
		in.Pod.Containers[0].Claimed = nil
		if p := mustPredict(t, in); p.Verdict.Reason != ReasonUnexpected {
			t.Errorf("Kubernetes %s without a claim: %+v", c.release, p.Verdict)
		}
	}
}

// A node whose plug-in is gone still reports the resource, with none of it.
func TestClassMayGive(t *testing.T) {
	one := Resources{"example.com/nic": resource.MustParse("1")}
	for r, want := range map[Release]string{35: Pending, 36: Unknown, 37: Unknown, 0: Pending} {
		for _, allocatable := range []Resources{{}, {"example.com/nic": resource.MustParse("0")}} {
			in := Input{Node: Node{CPUs: []Processor{{}}, NUMA: []NUMANode{{}}}, Settings: Settings{Release: r}, Capacity: CapacityOf(allocatable, nil)}
			in.Pod.Containers = []Container{{Name: "c", Requests: one, Limits: one}}
			if v := mustPredict(t, in).Answer(); v.Outcome != want {
				t.Errorf("Kubernetes %s, %v: %+v", r, allocatable, v)
			}
		}
	}
	in := Input{Node: Node{CPUs: []Processor{{}}, NUMA: []NUMANode{{}}}, Settings: Settings{Release: 37}, Capacity: CapacityOf(Resources{"example.com/nic": resource.MustParse("1")}, nil)}
	in.Capacity.Requested["example.com/nic"] = resource.MustParse("1")
	in.Pod.Containers = []Container{{Name: "c", Requests: one, Limits: one}}
	if v := mustPredict(t, in).Answer(); v.Outcome != Pending { // the plug-in has some, and the scheduler stays with it
		t.Errorf("%+v", v)
	}
}
