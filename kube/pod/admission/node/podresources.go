package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"fettle.dev/fettle/kube/pod/admission"
)

// podresources queries this machine's kubelet for its devices and their containers (service
// PodResourcesLister, version 1, on a unix socket).

// Socket is the path of the kubelet's socket below its root directory.
const Socket = "pod-resources/kubelet.sock"

const (
	// maxAnswer limits a response, in bytes; thousands of devices need a few megabytes.
	maxAnswer = 16 << 20
	patience  = 10 * time.Second
)

// Answer is the kubelet's response.
type Answer struct {
	// Allocatable are the kubelet's healthy devices, used or free.
	Allocatable []Devices   `json:"allocatable"`
	Pods        []ListedPod `json:"pods"`
}

// Devices are devices of a resource with the same NUMA nodes.
type Devices struct {
	Resource string   `json:"resource"`
	IDs      []string `json:"ids"`
	// NUMA is nil if the plug-in reports no nodes.
	NUMA []int `json:"numa_nodes"`
}

// ListedPod lists the resources of a pod's containers.
type ListedPod struct {
	Namespace  string            `json:"namespace"`
	Name       string            `json:"name"`
	Containers []ListedContainer `json:"containers"`
}

// ListedContainer lists a container's resources; CPUs are only exclusive ones.
type ListedContainer struct {
	Name    string    `json:"name"`
	CPUs    []int64   `json:"cpus"`
	Devices []Devices `json:"devices"`
}

// Ask queries the kubelet at a socket.
func Ask(ctx context.Context, socket string) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// No proxy or resolver must be used for a socket file.
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", socket, err)
	}
	defer conn.Close()
	client := v1.NewPodResourcesListerClient(conn)
	has, err := client.GetAllocatableResources(ctx, &v1.AllocatableResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("%s: cannot list allocatable resources: %w", socket, err)
	}
	list, err := client.List(ctx, &v1.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("%s: cannot list the pods' resources: %w", socket, err)
	}
	a := &Answer{Allocatable: podresourcesDevices(has.GetDevices()), Pods: []ListedPod{}}
	for _, p := range list.GetPodResources() {
		x := ListedPod{Namespace: p.GetNamespace(), Name: p.GetName(), Containers: []ListedContainer{}}
		for _, c := range p.GetContainers() {
			x.Containers = append(x.Containers, ListedContainer{Name: c.GetName(), CPUs: append([]int64{}, c.GetCpuIds()...), Devices: podresourcesDevices(c.GetDevices())})
		}
		a.Pods = append(a.Pods, x)
	}
	return a, nil
}

func podresourcesDevices(list []*v1.ContainerDevices) []Devices {
	out := []Devices{}
	for _, d := range list {
		x := Devices{Resource: d.GetResourceName(), IDs: append([]string{}, d.GetDeviceIds()...), NUMA: []int{}}
		for _, n := range d.GetTopology().GetNodes() {
			x.NUMA = append(x.NUMA, int(n.GetID()))
		}
		out = append(out, x)
	}
	return out
}

// devices converts the kubelet's response to the healthy devices of its plug-ins, and marks those
// in use.
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
	// A device with several NUMA nodes may be listed once per node.
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

// maxInvented limits the placeholder devices of one resource.
const maxInvented = 4096

// invented returns placeholder devices if only their number is known, from the Node object. They
// have no NUMA node; those requested by existing pods are in use.
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
