package kubelet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/unit"
)

// defaultEviction is the kubelet's threshold without evictionHard
// (pkg/kubelet/apis/config/v1beta1/defaults_linux.go).
const defaultEviction = "100Mi"

// sumOfReservations returns the total per resource of reservedMemory, as "memory=1Gi+1Gi". It
// returns "" for a list that a kubelet rejects for other reasons.
func sumOfReservations(list *yaml.Node, left *int) string {
	sums := map[string][]string{}
	for _, item := range list.Content {
		pairs, err := conf.Pairs(conf.Aliased(item), left)
		if err != nil {
			return ""
		}
		for _, p := range pairs {
			limits := conf.Aliased(p.Value)
			if p.Key.Value != "limits" || limits.Kind != yaml.MappingNode {
				continue
			}
			of, err := conf.Pairs(limits, left)
			if err != nil {
				return ""
			}
			for _, limit := range of {
				sums[limit.Key.Value] = append(sums[limit.Key.Value], conf.Aliased(limit.Value).Value)
			}
		}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		parts = append(parts, name+"="+strings.Join(sums[name], "+"))
	}
	return strings.Join(parts, ",")
}

// memoryFaults answers with the resources whose reservedMemory differs from the node's reservation.
// With such a difference the memory manager's policy Static prevents the kubelet from starting. The
// reservation is kubeReserved + systemReserved and, for memory, the hard eviction threshold
// (k8s.io/kubernetes v1.29.14 and v1.37.2, pkg/kubelet/cm/memorymanager/memory_manager.go,
// validateReservedMemory, and policy_static.go).
func (i *installed) memoryFaults() fact.Answer {
	if t, ok := i.flag("reserved-memory"); ok {
		return fact.Answer{Unknown: "the flag --reserved-memory is not added up; set reservedMemory in the configuration", At: t.at}
	}
	given := i.document.members["reservedMemory"]
	at := cmp.Or(given.at, i.config.at)
	sum, err := totals(given.value)
	node, err2 := i.reservations()
	if err = cmp.Or(err, err2); err != nil {
		return fact.Answer{Unknown: err.Error(), At: at}
	}
	names := slices.Collect(maps.Keys(sum))
	for name := range node {
		if name == "memory" || strings.HasPrefix(name, "hugepages-") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	out := []string{}
	if sum["memory"] == 0 {
		out = append(out, "no memory in reservedMemory")
	}
	for _, name := range slices.Compact(names) {
		if sum[name] != node[name] && (name != "memory" || sum[name] != 0) {
			out = append(out, fmt.Sprintf("%s: %s in reservedMemory, %s reserved", name, unit.Size(sum[name]), unit.Size(node[name])))
		}
	}
	return fact.Answer{Value: out, At: at}
}

// reservations returns what the node reserves of each resource in bytes, or an error if that is
// unknown without the machine's memory.
func (i *installed) reservations() (map[string]float64, error) {
	node := map[string]float64{}
	for _, name := range []string{"kubeReserved", "systemReserved"} {
		text, _ := i.Option(name).Effective().Get()
		of, err := totals(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for resource, n := range of {
			node[resource] += n
		}
	}
	threshold := defaultEviction
	if text, ok := i.Option("evictionHard").Effective().Get(); ok {
		pairs, err := readPairs(text)
		if err != nil {
			return nil, fmt.Errorf("evictionHard: %w", err)
		}
		hard, _ := pairs.(map[string]string)
		if set, has := hard["memory.available"]; has || i.document.members["mergeDefaultEvictionSettings"].value != "true" {
			threshold = cmp.Or(set, "0")
		}
	}
	if percent, ok := strings.CutSuffix(threshold, "%"); ok {
		if strings.Trim(percent, "0.") != "" {
			return nil, fmt.Errorf("evictionHard: memory.available is %s; want bytes, so that the reserved memory can be added up", threshold)
		}
		threshold = "0"
	}
	n, err := unit.ParseQuantity(threshold)
	node["memory"] += n
	return node, err
}

// totals parses "memory=1Gi+1Gi,hugepages-2Mi=4Mi" to bytes by resource, without CPUs and other
// resources that are not memory.
func totals(text string) (map[string]float64, error) {
	pairs, err := readPairs(text)
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	of, _ := pairs.(map[string]string)
	for name, sum := range of {
		if name != "memory" && !strings.HasPrefix(name, "hugepages-") {
			continue
		}
		for part := range strings.SplitSeq(sum, "+") {
			n, err := unit.ParseQuantity(part)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			out[name] += n
		}
	}
	return out, nil
}
