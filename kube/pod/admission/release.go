package admission

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/kuberelease"
)

// Release is a minor version of Kubernetes 1.x, which decides the rules of a kubelet and of the API
// server that created its pods. 0 means unknown.
type Release int

// Releases whose rules are known.
const (
	Oldest Release = 29
	Newest Release = 37
)

// Releases with changed rules. Source: k8s.io/kubernetes v1.29.14, v1.30.14, v1.31.14, v1.32.13,
// v1.33.13, v1.34.4, v1.35.4, v1.36.3 and v1.37.2, pkg/kubelet/cm, pkg/kubelet/lifecycle,
// pkg/apis/core.
const (
	// initExtended: the kubelet ignores extended resources that the node lacks in init containers,
	// too.
	initExtended Release = 31
	// groupsChecked: the static memory manager rejects a hint whose nodes differ from a group in
	// use. At start it compares the file's accounts by group rather than by node.
	groupsChecked Release = 32
	// groupsPolicy: a pod with supplementalGroupsPolicy Strict is refused unless the node reports
	// its runtime's support.
	groupsPolicy Release = 33
	// oddCores: prefer-align-cpus-by-uncorecache also takes an odd number of CPUs from cores with
	// two threads within one cache.
	oddCores Release = 34
	// podResources: spec.resources counts (feature gate PodLevelResources on).
	podResources Release = 34
	// declaredFeatures: a pod is refused if the node does not declare a feature it needs
	// (NodeDeclaredFeatures; on by default from 36 on). The device manager allocates nothing for
	// claims (DRAExtendedResource, likewise).
	declaredFeatures Release = 35
	claimsGive       Release = 35
	// claimsFit: the kubelet's last check ignores resources from claims, and a DeviceClass may
	// provide an extended resource that the node lacks.
	claimsFit Release = 36
	// nodesWithDevices: the device manager's hints name only NUMA nodes with devices of the
	// resource (pull request 138244).
	nodesWithDevices Release = 36
	// socketFirst: with align-by-socket, distribute-cpus-across-numa prefers NUMA nodes of
	// one socket.
	socketFirst Release = 37
	// emptyPodResources: spec.resources without an amount does not decide the pod's class
	// (PodLevelResourcesFixKubeletQOSClass).
	emptyPodResources Release = 37
	// podLimits: missing limits of the pod as a whole come from its containers
	// (PodLevelResourcesFixDefaulting).
	podLimits Release = 37
)

// String returns the release as Kubernetes writes it: 1.36.
func (r Release) String() string { return kuberelease.Release(r).String() }

// orNewest returns the release whose rules apply: Newest for an unknown or newer release.
func (r Release) orNewest() Release {
	if r == 0 || r > Newest {
		return Newest
	}
	return r
}

// ParseRelease parses the version of a kubelet, as kuberelease.Parse does.
func ParseRelease(version string) (Release, bool) {
	r, ok := kuberelease.Parse(version)
	return Release(r), ok
}

// unmodeled are the feature gates whose effect on admission is unknown, with the value that has the
// effect and the releases with the gate.
var unmodeled = []struct {
	gate        string
	value       bool
	first, last Release
}{
	{"PodLevelResourceManagers", true, 36, Newest},
	{"InPlacePodVerticalScalingExclusiveCPUs", true, 32, Newest},
	{"InPlacePodVerticalScalingExclusiveMemory", true, 34, Newest},
	{"PodLevelResources", true, 32, podResources - 1},
	{"PodLevelResources", false, podResources, Newest},
	{"PodLevelResourcesFixKubeletQOSClass", false, emptyPodResources, Newest},
	{"CPUManagerPolicyOptions", false, Oldest, 32},
	{"TopologyManagerPolicyOptions", false, Oldest, 35},
	{"SidecarContainers", false, Oldest, 32},
	{"CPUManager", false, Oldest, 32},
	{"MemoryManager", false, Oldest, 31},
}

// gateSet returns a gate's configured value, and the entry of featureGates that sets it: the gate's
// own, AllAlpha or AllBeta. ok is false if the gate has its default.
func gateSet(gates map[string]bool, name string, r Release) (value bool, by string, ok bool) {
	if value, ok := gates[name]; ok {
		return value, name, true
	}
	gate, exists := kuberelease.Known().Gate(name, kuberelease.Release(r))
	all := map[string]string{"alpha": "AllAlpha", "beta": "AllBeta"}[gate.Stage]
	if value, ok := gates[all]; ok && exists {
		return value, all, true
	}
	return false, "", false
}

// gateOn reports whether a feature gate is on.
func (s Settings) gateOn(name string) bool {
	r := s.Release.orNewest()
	gate, exists := kuberelease.Known().Gate(name, kuberelease.Release(r))
	if on, _, set := gateSet(s.FeatureGates, name, r); set && gate.Stage != "ga" {
		return on && exists
	}
	return exists && gate.Default
}

// ManagesPods reports whether a kubelet manages CPUs and memory of pods as a whole
// (PodLevelResourceManagers), so that its state files have podEntries.
func (s Settings) ManagesPods() bool {
	on, _, _ := gateSet(s.FeatureGates, "PodLevelResourceManagers", s.Release.orNewest())
	return on
}

// UnknownGate returns the first configured feature gate with an unknown effect on admission, with
// its value, or "".
func (s Settings) UnknownGate() string {
	r := s.Release.orNewest()
	for _, g := range unmodeled {
		value, by, ok := gateSet(s.FeatureGates, g.gate, r)
		if !ok || value != g.value || r < g.first || r > g.last {
			continue
		}
		if by != g.gate {
			return fmt.Sprintf("%s: %t (by %s: %[2]t)", g.gate, value, by)
		}
		return fmt.Sprintf("%s: %t", g.gate, value)
	}
	return ""
}

// optionTable has the options of a manager's policy.
type optionTable[T any] struct {
	field string // of the configuration
	known map[string]func(*T, string) error
}

// read parses options like a release's kubelet; the error says why the kubelet does not start.
func (o optionTable[T]) read(values map[string]string, gates map[string]bool, r Release) (T, error) {
	var out T
	for _, name := range slices.Sorted(maps.Keys(values)) {
		set, ok := o.known[name]
		stage, exists := kuberelease.Known().Option(o.field, name, kuberelease.Release(r))
		if !ok || !exists {
			return out, fmt.Errorf("%s: Kubernetes %s has no option %q (want one of %s)", o.field, r, name, strings.Join(kuberelease.Known().Options(o.field, kuberelease.Release(r)), ", "))
		}
		gate, open := kuberelease.OptionGate(o.field, stage), stage != "alpha"
		if on, _, ok := gateSet(gates, gate, r); ok {
			open = on
		}
		if !open {
			return out, fmt.Errorf("%s: the option %s needs the feature gate %s", o.field, name, gate)
		}
		if err := set(&out, values[name]); err != nil {
			return out, fmt.Errorf("%s: %s is %w", o.field, name, err)
		}
	}
	return out, nil
}

// switchOf returns a function that sets a boolean option.
func switchOf[T any](field func(*T) *bool) func(*T, string) error {
	return func(to *T, value string) error {
		on, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("%q, want true or false", value)
		}
		*field(to) = on
		return nil
	}
}
