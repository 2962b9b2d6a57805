package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"fettle.dev/fettle/kube/pod/admission"
)

// devices are those of the kubelet's device plug-ins, as it tells them: the healthy ones
// and which of them are in use.
func devices(r *Answer) []admission.DeviceResource {
	used := map[string]map[string]bool{}
	for _, p := range r.Pods {
		for _, c := range p.Containers {
			for _, d := range c.Devices {
				for _, id := range d.IDs {
					if used[d.Resource] == nil {
						used[d.Resource] = map[string]bool{}
					}
					used[d.Resource][id] = true
				}
			}
		}
	}
	// A device that belongs to several NUMA nodes may be listed once for each.
	nodes := map[string]map[string][]int{}
	for _, d := range r.Allocatable {
		if nodes[d.Resource] == nil {
			nodes[d.Resource] = map[string][]int{}
		}
		for _, id := range d.IDs {
			of := append(nodes[d.Resource][id], d.NUMA...)
			slices.Sort(of)
			nodes[d.Resource][id] = slices.Compact(of)
		}
	}
	var out []admission.DeviceResource
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		x := admission.DeviceResource{Name: name}
		for _, id := range slices.Sorted(maps.Keys(nodes[name])) {
			x.Devices = append(x.Devices, admission.Device{ID: id, NUMA: nodes[name][id], Used: used[name][id]})
		}
		out = append(out, x)
	}
	return out
}

// maxInvented bounds how many devices are made up for one resource.
const maxInvented = 4096

// invented are devices of which only the number is known, from the Node object: they
// belong to no NUMA node, and those of the pods that are there are in use.
func invented(allocatable, requested admission.Resources) []admission.DeviceResource {
	var out []admission.DeviceResource
	for _, name := range slices.Sorted(maps.Keys(allocatable)) {
		if !strings.Contains(name, "/") || strings.Contains(name, "kubernetes.io/") {
			continue
		}
		have, taken := allocatable[name], requested[name]
		x := admission.DeviceResource{Name: name}
		for i := range min(have.Value(), maxInvented) {
			x.Devices = append(x.Devices, admission.Device{ID: fmt.Sprintf("unknown-%d", i), Used: i < taken.Value()})
		}
		if len(x.Devices) > 0 {
			out = append(out, x)
		}
	}
	return out
}
