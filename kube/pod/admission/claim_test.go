package admission

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/component-helpers/nodedeclaredfeatures/features"
	"k8s.io/component-helpers/nodedeclaredfeatures/types"
)

// TestFeaturesByRelease tests a pod that needs a feature of its node: kubelets that check this
// refuse it if the node is known not to declare the feature.
func TestFeaturesByRelease(t *testing.T) {
	on := map[string]bool{"NodeDeclaredFeatures": true}
	for _, c := range []struct {
		release  Release
		gates    map[string]bool
		needs    string
		declared []string
		outcome  string
	}{
		{34, nil, FeatureRestartAll, nil, Admitted},
		{35, nil, FeatureRestartAll, nil, Admitted}, // alpha
		{35, on, FeatureRestartAll, nil, Refused},   // the feature is alpha too
		{35, map[string]bool{"NodeDeclaredFeatures": true, FeatureRestartAll: true}, FeatureRestartAll, nil, Admitted},
		{35, on, FeatureHostNetworkUsers, nil, Admitted}, // 1.35 does not ask for it
		{36, nil, FeatureHostNetworkUsers, []string{"GuaranteedQoSPodCPUResize"}, Refused},
		{36, map[string]bool{"NodeDeclaredFeatures": false}, FeatureRestartAll, []string{"other"}, Admitted},
		{36, nil, FeatureBindMountOptions, nil, Admitted}, // 1.36 does not ask for it
		{37, nil, FeatureRestartAll, []string{FeatureRestartAll}, Admitted},
		{37, nil, FeatureRestartAll, []string{"other"}, Refused},
		{37, nil, FeatureRestartAll, nil, Admitted}, // by its gate, which is on
		{37, map[string]bool{FeatureRestartAll: false}, FeatureRestartAll, nil, Refused},
		{37, nil, FeatureHostNetworkUsers, nil, Refused}, // alpha: no node has it
		{37, map[string]bool{FeatureHostNetworkUsers: true}, FeatureHostNetworkUsers, nil, Unknown},
		{37, map[string]bool{FeatureBindMountOptions: true}, FeatureBindMountOptions, nil, Unknown},
		{37, map[string]bool{FeatureBindMountOptions: true}, FeatureBindMountOptions, []string{FeatureBindMountOptions}, Admitted},
		{0, nil, FeatureRestartAll, nil, Admitted},
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
		if v := in.unplaced(); (v != nil) != (c.outcome == Refused) {
			t.Errorf("%+v: the scheduler: %+v", c, v)
		}
	}
}

// TestDeclaredFeaturesUpstream compares the features that a node declares by its gates with the
// kubelet's own functions, for a container runtime that supports everything and for one that does
// not.
func TestDeclaredFeaturesUpstream(t *testing.T) {
	rnd := rand.New(rand.NewPCG(37, 1))
	for range 500 {
		gates, enabled := map[string]bool{}, types.FeatureGateMap{}
		for name := range podFeatures {
			if rnd.IntN(3) > 0 {
				gates[name] = rnd.IntN(2) == 0
			}
		}
		in := Input{Settings: Settings{Release: 37, FeatureGates: gates}, Place: &Place{}}
		for name := range podFeatures {
			enabled[name] = in.Settings.gateOn(name)
		}
		found := func(runtime bool) []string {
			return ndf.DefaultFramework.DiscoverNodeFeatures(&types.NodeConfiguration{FeatureGates: enabled, RuntimeFeatures: types.RuntimeFeatures{UserNamespacesHostNetwork: runtime, MountOptions: runtime}})
		}
		with, without := found(true), found(false)
		for name := range podFeatures {
			yes, known := in.declares(name)
			if yes != slices.Contains(with, name) || known && yes != slices.Contains(without, name) || !known && slices.Contains(without, name) {
				t.Fatalf("%v: %s: %t, known %t; the kubelet: %v, %v", gates, name, yes, known, with, without)
			}
		}
	}
	for _, f := range features.AllFeatures {
		if gates := f.Requirements().EnabledFeatureGates; podFeatures[f.Name()].since != 0 && !slices.Equal(gates, []string{f.Name()}) {
			t.Errorf("%s needs the gates %v", f.Name(), gates)
		}
	}
}

// TestClaimsByRelease tests that kubelets that know claims request an extended resource from a
// claim neither from device plug-ins nor from the node's capacity.
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

// TestClassMayGive tests a node whose plug-in is gone: it still reports the resource, with an
// amount of 0.
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
