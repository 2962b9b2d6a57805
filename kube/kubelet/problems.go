package kubelet

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	kjson "sigs.k8s.io/json"

	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
	"fettle.dev/fettle/kube/pod/admission"
)

// Machine is the topology of a node's machine; nil if not read yet.
type Machine = admission.Node

// On is the kubelet and the machine for which a configuration is judged.
type On struct {
	kuberelease.Kubelet
	// Machine is nil if unknown; Problems then returns only problems that any machine would have.
	Machine *Machine
}

// Problems returns why a kubelet would not start with an effective configuration (drop-ins merged).
// now is the running configuration, with which it started.
func Problems(effective, now Fields, on On) []string {
	problems, unread := notStarting(effective, now, on.Kubelet), false
	for _, s := range settings {
		if v, ok := effective[s.name]; ok && v != nil {
			if err := s.check(v); err != nil && !zero(v) {
				problems = append(problems, fmt.Sprintf("%s: %v", s.name, err))
				unread = true
			}
		}
	}
	if unread {
		return problems // the next checks need these values
	}
	if !same("reservedSystemCPUs", effective["reservedSystemCPUs"], nil) {
		for _, name := range []string{"systemReservedCgroup", "kubeReservedCgroup"} {
			if group, _ := effective[name].(string); group != "" {
				problems = append(problems, fmt.Sprintf("reservedSystemCPUs cannot be combined with %s (%q in the node's own configuration)", name, group))
			}
		}
	}
	s, err := admissionSettings(effective)
	if err != nil {
		return append(problems, err.Error())
	}
	s.Release = admission.Release(on.Release)
	if on.Machine == nil {
		return append(problems, s.Problems()...)
	}
	if err := on.Machine.Check(); err != nil {
		return append(problems, err.Error())
	}
	return append(problems, admission.StartProblems(*on.Machine, s)...)
}

// RefusedBy returns an error if kubelets do not start with the requested settings, whatever their
// nodes configure. kubelets maps kubelet versions to node names; invalid versions and those before
// the known releases are not judged.
func RefusedBy(want Fields, kubelets map[string][]string) error {
	var problems []error
	for _, version := range slices.Sorted(maps.Keys(kubelets)) {
		r, _ := admission.ParseRelease(version)
		if r < admission.Oldest {
			continue
		}
		if refused := anywhere(want, r); len(refused) > 0 {
			problems = append(problems, fmt.Errorf("%s (kubelet %s) would not start: %s", nodeNames(kubelets[version]), version, strings.Join(refused, "; ")))
		}
	}
	return errors.Join(problems...)
}

// anywhere returns the requested settings that a release rejects on every node. For settings that
// are not requested, it assumes the most favorable values: feature gates are on, CPUs are reserved,
// and memory is reserved as policy Static requires.
func anywhere(want Fields, r admission.Release) []string {
	s, err := admissionSettings(want)
	if err != nil {
		return []string{err.Error()}
	}
	s.Release, s.MemoryManagerPolicy = r, admission.MemoryPolicyNone
	s.FeatureGates = map[string]bool{}
	for _, of := range []string{"CPUManagerPolicy", "TopologyManagerPolicy"} {
		s.FeatureGates[of+"AlphaOptions"], s.FeatureGates[of+"BetaOptions"] = true, true
	}
	if s.ReservedSystemCPUs.IsEmpty() {
		s.ReservedSystemCPUs = unit.CPUs(0)
	}
	if s.CPUManagerPolicy == "" && len(s.CPUManagerPolicyOptions) > 0 {
		s.CPUManagerPolicy = admission.PolicyStatic // policy none accepts no options
	}
	return s.Problems()
}

// nodeNames formats the first sorted names and the number of further ones.
func nodeNames(names []string) string {
	const most = 3
	names = slices.Clone(names)
	slices.SortFunc(names, natural)
	if more := len(names) - most; more > 0 {
		names = append(names[:most], text.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// notStarting returns the problems for which the kubelet's release rejects the effective
// configuration, except those that the running configuration has too.
func notStarting(effective, now Fields, k kuberelease.Kubelet) []string {
	has := kuberelease.Judge(now, k).Refused
	var out []string
	for _, f := range kuberelease.Judge(effective, k).Refused {
		if !slices.Contains(has, f) {
			out = append(out, f.String())
		}
	}
	return out
}

// zero reports whether a value means the kubelet's default.
func zero(v any) bool { return v == "" || v == "0s" || v == int64(0) }

// defaultEviction is the default threshold of memory.available in evictionHard
// (pkg/kubelet/apis/config/v1beta1/defaults_linux.go).
const defaultEviction = "100Mi"

// admissionSettings converts the settings that the kubelet's managers read.
func admissionSettings(f Fields) (admission.Settings, error) {
	s := admission.Settings{
		CPUManagerPolicy: kubeletText(f["cpuManagerPolicy"]), CPUManagerPolicyOptions: textsOf(f["cpuManagerPolicyOptions"]),
		TopologyManagerPolicy: kubeletText(f["topologyManagerPolicy"]), TopologyManagerScope: kubeletText(f["topologyManagerScope"]),
		TopologyManagerPolicyOptions: textsOf(f["topologyManagerPolicyOptions"]),
		MemoryManagerPolicy:          kubeletText(f["memoryManagerPolicy"]),
	}
	var err error
	if list := kubeletText(f["reservedSystemCPUs"]); list != "" {
		if s.ReservedSystemCPUs, err = unit.ParseCPUList(list); err != nil {
			return s, fmt.Errorf("reservedSystemCPUs: %w", err)
		}
	}
	for name, into := range map[string]*admission.Resources{"kubeReserved": &s.KubeReserved, "systemReserved": &s.SystemReserved} {
		for resourceName, amount := range textsOf(f[name]) {
			q, err := parseAmount(amount)
			if err != nil {
				return s, fmt.Errorf("%s: %s: %w", name, resourceName, err)
			}
			if *into == nil {
				*into = admission.Resources{}
			}
			(*into)[resourceName] = q
		}
	}
	if s.ReservedMemory, err = memoryReservations(f["reservedMemory"]); err != nil {
		return s, fmt.Errorf("reservedMemory: %w", err)
	}
	eviction := defaultEviction
	if hard, ok := f["evictionHard"].(map[string]any); ok {
		if threshold, set := hard["memory.available"]; set || f["mergeDefaultEvictionSettings"] != true {
			eviction = kubeletText(threshold)
		}
	}
	if s.MemoryManagerPolicy == admission.MemoryPolicyStatic { // only this policy needs the threshold
		if s.EvictionHardMemoryBytes, err = evictionBytes(eviction); err != nil {
			return s, err
		}
	}
	if gates, ok := f["featureGates"].(map[string]any); ok {
		s.FeatureGates = map[string]bool{}
		for name, v := range gates {
			s.FeatureGates[name] = v == true
		}
	}
	return s, nil
}

// evictionBytes parses a threshold to bytes. A percentage is an error because the machine is
// unknown; "0%" means no threshold.
func evictionBytes(threshold string) (uint64, error) {
	if percent, ok := strings.CutSuffix(threshold, "%"); ok || threshold == "" {
		if n, err := strconv.ParseFloat(percent, 64); threshold != "" && (err != nil || n != 0) {
			return 0, fmt.Errorf("evictionHard: memory.available is %q; want bytes, so that fettle can add up the reserved memory", threshold)
		}
		return 0, nil
	}
	q, err := parseAmount(threshold)
	if err != nil {
		return 0, fmt.Errorf("evictionHard: memory.available: %w", err)
	}
	return uint64(q.Value()), nil
}

func kubeletText(v any) string {
	s, _ := v.(string)
	return s
}

func textsOf(v any) map[string]string {
	m, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	out := map[string]string{}
	for name, v := range m {
		out[name] = kubeletText(v)
	}
	return out
}

// memoryReservations parses the value of reservedMemory.
func memoryReservations(v any) ([]admission.MemoryReservation, error) {
	if v == nil {
		return nil, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var items []struct {
		NUMANode *int64         `json:"numaNode"`
		Limits   map[string]any `json:"limits"` // texts or whole numbers
	}
	strict, err := kjson.UnmarshalStrict(b, &items)
	if err == nil {
		err = errors.Join(strict...)
	}
	if err != nil {
		return nil, fmt.Errorf("want a list of numaNode and limits: %w", err)
	}
	var out []admission.MemoryReservation
	for i, item := range items {
		if item.NUMANode == nil || *item.NUMANode < 0 || *item.NUMANode > math.MaxInt32 {
			return nil, fmt.Errorf("item %d: want numaNode, the number of a NUMA node", i)
		}
		if len(item.Limits) == 0 {
			return nil, fmt.Errorf("item %d: want limits, such as {memory: 1Gi}", i)
		}
		r := admission.MemoryReservation{NUMANode: int(*item.NUMANode), Limits: admission.Resources{}}
		for _, name := range slices.Sorted(maps.Keys(item.Limits)) {
			q, err := parseAmount(fmt.Sprint(item.Limits[name]))
			if err != nil {
				return nil, fmt.Errorf("item %d: %s: %w", i, name, err)
			}
			if name != admission.Memory && !strings.HasPrefix(name, "hugepages-") || q.Sign() == 0 {
				return nil, fmt.Errorf("item %d: %s: %s: only memory and hugepages-SIZE can be reserved, with an amount above zero", i, name, q.String())
			}
			r.Limits[name] = q
		}
		out = append(out, r)
	}
	return out, nil
}

// podsThatFit returns the maximum number of pods: maxPods, or podsPerCore times cpus if less
// (pkg/kubelet/kubelet_node_status_others.go and nodestatus/setters.go).
func podsThatFit(effective Fields, cpus int) int64 {
	most, ok := effective["maxPods"].(int64)
	if !ok || most == 0 {
		most = 110
	}
	if perCore, _ := effective["podsPerCore"].(int64); perCore > 0 && cpus > 0 {
		most = min(most, perCore*int64(cpus))
	}
	return most
}

func orUnset(v any) any { return cmp.Or(v, any("unset")) }

// TooManyPods returns an error if a node runs more pods than its kubelet would accept after a
// restart, when it would end the surplus. running is the number of pods that have not ended; cpus
// is the number of CPUs, 0 if unknown.
func TooManyPods(effective Fields, cpus, running int) error {
	if fit := podsThatFit(effective, cpus); int64(running) > fit {
		return text.Errorf("%s on the node, but the new limit is %d (maxPods %v, podsPerCore %v); move pods away first, or raise the limit", text.Count(running, "pod")+map[bool]string{true: " runs", false: " run"}[running == 1], fit, orUnset(effective["maxPods"]), orUnset(effective["podsPerCore"]))
	}
	return nil
}
