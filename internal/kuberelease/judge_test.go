package kuberelease

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestJudge: verdicts of the releases 1.29 to 1.37 on one configuration. The kubelets'
// own validation of 1.34.4 and 1.37.2 agrees (test/admission TestConfigValidation).
func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		config  string
		kubelet Kubelet
		want    string // refused | ignored | changed | unknown fields
	}{
		{"{maxPods: 20}", Kubelet{Release: 29}, "|||"},
		{"{maxPods: 20, defaultPodSysctls: {vm.swappiness: '1'}}", Kubelet{Release: 28}, "|||"},
		{"{featureGates: {MemoryManager: true}}", Kubelet{Release: 35}, "|||"},
		{"{featureGates: {MemoryManager: true}}", Kubelet{Release: 36}, "featureGates.MemoryManager|||"},
		{"{featureGates: {MemoryManager: true}}", Kubelet{Release: 36, OpenShift: true}, "|||"},
		{"{featureGates: {KubeletPSI: false}}", Kubelet{Release: 36}, "featureGates.KubeletPSI|||"},
		{"{featureGates: {MemoryQos: true}}", Kubelet{Release: 37}, "featureGates.MemoryQos|||"},
		{"{featureGates: {MemoryQos: true}}", Kubelet{Release: 38}, "|||featureGates.MemoryQos"},
		{"{featureGates: {MemoryManager: true}}", Kubelet{Release: 38}, "featureGates.MemoryManager|||"},
		{"{featureGates: {MemoryQoS: maybe}}", Kubelet{Release: 37}, "featureGates.MemoryQoS|||"},
		{"{featureGates: {ProcMountType: true, UserNamespacesSupport: false}}", Kubelet{Release: 34}, "|||"},
		{"{featureGates: {ProcMountType: true, UserNamespacesSupport: false}}", Kubelet{Release: 35}, "featureGates.ProcMountType|||"},
		{"{defaultPodSysctls: {net.core.somaxconn: '1024'}}", Kubelet{Release: 36}, "|defaultPodSysctls||"},
		{"{defaultPodSysctls: {net.core.somaxconn: '1024'}}", Kubelet{Release: 37}, "defaultPodSysctls|||"},
		{"{defaultPodSysctls: {net.core.somaxconn: '1024'}, featureGates: {DefaultPodSysctls: true}}", Kubelet{Release: 37}, "|||"},
		{"{defaultPodSysctls: {net.core.somaxconn: '1024'}, featureGates: {AllAlpha: true, GenericWorkload: true}}", Kubelet{Release: 37}, "|||"},
		// Alpha gates that need a beta gate that is off: with AllAlpha alone the
		// kubelet does not start.
		{"{featureGates: {AllAlpha: true}}", Kubelet{Release: 37}, "featureGates.CompositePodGroup featureGates.PodGroupPreemptionPolicy featureGates.TopologyAwareWorkloadScheduling featureGates.WorkloadWithJob|||"},
		{"{defaultPodSysctls: {vm.swappiness: '1'}, featureGates: {DefaultPodSysctls: true}}", Kubelet{Release: 37}, "defaultPodSysctls|||"},
		{"{memoryThrottlingFactor: 0.9}", Kubelet{Release: 36}, "|||"},
		{"{memoryThrottlingFactor: 0.9}", Kubelet{Release: 37}, "||memoryThrottlingFactor|"},
		{"{memoryThrottlingFactor: 0.8, featureGates: {MemoryQoS: false}}", Kubelet{Release: 37}, "memoryThrottlingFactor|||"},
		{"{memoryThrottlingFactor: 0.9, featureGates: {AllBeta: false}}", Kubelet{Release: 37}, "|||"},
		{"{memoryThrottlingFactor: 1.5}", Kubelet{Release: 30}, "memoryThrottlingFactor|||"},
		{"{memorySwap: {swapBehavior: UnlimitedSwap}, featureGates: {NodeSwap: true}}", Kubelet{Release: 29}, "|||"},
		{"{memorySwap: {swapBehavior: UnlimitedSwap}}", Kubelet{Release: 34}, "memorySwap.swapBehavior|||"},
		{"{memorySwap: {swapBehavior: LimitedSwap}}", Kubelet{Release: 29}, "memorySwap.swapBehavior|||"},
		{"{}", Kubelet{Release: 34, Cgroup: 1}, "|||"},
		{"{}", Kubelet{Release: 35, Cgroup: 1}, "failCgroupV1|||"},
		{"{}", Kubelet{Release: 35, Cgroup: 2}, "|||"},
		{"{}", Kubelet{Release: 35}, "|||"},
		{"{failCgroupV1: false}", Kubelet{Release: 37, Cgroup: 1}, "|||"},
		{"{failCgroupV1: true}", Kubelet{Release: 30, Cgroup: 1}, "|failCgroupV1||"},
		{"{enforceNodeAllocatable: [pods, system-reserved-compressible], systemReservedCgroup: /s}", Kubelet{Release: 31}, "enforceNodeAllocatable|||"},
		{"{enforceNodeAllocatable: [pods, system-reserved-compressible], systemReservedCgroup: /s}", Kubelet{Release: 32}, "|||"},
		{"{crashLoopBackOff: {maxContainerRestartPeriod: 60s}}", Kubelet{Release: 34}, "crashLoopBackOff.maxContainerRestartPeriod|||"},
		{"{imagePullCredentialsVerificationPolicy: AlwaysVerify}", Kubelet{Release: 34}, "imagePullCredentialsVerificationPolicy|||"},
		{"{imagePullCredentialsVerificationPolicy: AlwaysVerify}", Kubelet{Release: 35}, "|||"},
		{"{runOnce: true}", Kubelet{Release: 31}, "|||"},
		{"{runOnce: true}", Kubelet{Release: 32}, "runOnce|||"},
		{"{containerLogMaxFiles: 1}", Kubelet{Release: 32}, "|||"},
		{"{containerLogMaxFiles: 1}", Kubelet{Release: 33}, "containerLogMaxFiles|||"},
		{"{maxpods: 1, newThing: 1}", Kubelet{Release: 37}, "|maxpods newThing||"},
		{"{newThing: 1}", Kubelet{Release: 39}, "|||newThing"},
		{"{enableSystemLogQuery: true}", Kubelet{Release: 35}, "enableSystemLogQuery|||"},
		{"{enableSystemLogQuery: true}", Kubelet{Release: 36}, "|||"},
	} {
		var config map[string]any
		if err := yaml.Unmarshal([]byte(tt.config), &config); err != nil {
			t.Fatal(err)
		}
		j := Judge(config, tt.kubelet)
		var got []string
		for _, all := range [][]Finding{j.Refused, j.Ignored, j.Changed, j.Unknown} {
			var names []string
			for _, f := range all {
				names = append(names, f.Field)
				if f.Why == "" {
					t.Errorf("%s has no reason", f.Field)
				}
			}
			got = append(got, strings.Join(names, " "))
		}
		if s := strings.Join(got, "|"); s != tt.want {
			t.Errorf("%s of %+v: %s, want %s (%v)", tt.config, tt.kubelet, s, tt.want, j)
		}
	}
}

// TestDefaultsAreTaken: no release rejects its own defaults.
func TestDefaultsAreTaken(t *testing.T) {
	for r := Known().Oldest; r <= Known().Newest; r++ {
		if j := Judge(map[string]any{}, Kubelet{Release: r, Cgroup: 2}); fmt.Sprint(j) != fmt.Sprint(Verdict{}) {
			t.Errorf("%s: %v", r, j)
		}
	}
}

// TestLoader: how each release reads its files, and which gates require others.
func TestLoader(t *testing.T) {
	for way, want := range map[string][]Release{
		LoaderGate: {29}, LoaderVersioned: {32, 33, 34, 35, 36, 37}, LoaderKinds: {32, 33, 34, 35, 36, 37}, LoaderEviction: {33, 34, 35, 36, 37}, LoaderSkipped: {36, 37},
	} {
		var got []Release
		for r := Known().Oldest; r <= Known().Newest; r++ {
			if Known().Loads(way, r) {
				got = append(got, r)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", way, got, want)
		}
	}
	if got := Known().Needs("InPlacePodVerticalScalingInitContainers", 37); !slices.Equal(got, []string{"InPlacePodVerticalScaling", "NodeDeclaredFeatures"}) {
		t.Errorf("%v", got)
	}
}
