// podresources asks a kubelet on its own machine which devices it has and which
// container has what (the service PodResourcesLister, version 1, on a unix socket).

package node

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Socket is where a kubelet listens, below its root directory.
const Socket = "pod-resources/kubelet.sock"

const (
	// maxAnswer bounds an answer, in bytes: that of a node with thousands of devices has
	// a few megabytes.
	maxAnswer = 16 << 20
	patience  = 10 * time.Second
)

// Answer is what a kubelet says.
type Answer struct {
	// Allocatable are its healthy devices, in use or not.
	Allocatable []Devices   `json:"allocatable"`
	Pods        []ListedPod `json:"pods"`
}

// Devices are some of a resource that belong to the same NUMA nodes.
type Devices struct {
	Resource string   `json:"resource"`
	IDs      []string `json:"ids"`
	// NUMA is empty where the plug-in does not say.
	NUMA []int `json:"numa_nodes"`
}

// ListedPod is what the containers of a pod have.
type ListedPod struct {
	Namespace  string            `json:"namespace"`
	Name       string            `json:"name"`
	Containers []ListedContainer `json:"containers"`
}

// ListedContainer is what one has; CPUs are its own ones only.
type ListedContainer struct {
	Name    string    `json:"name"`
	CPUs    []int64   `json:"cpus"`
	Devices []Devices `json:"devices"`
}

// Ask asks the kubelet that listens on a socket.
func Ask(ctx context.Context, socket string) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// What grpc would make of a proxy of the environment, or of a resolver, is not for a
	// file.
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", socket, err)
	}
	defer conn.Close()
	client := v1.NewPodResourcesListerClient(conn)
	has, err := client.GetAllocatableResources(ctx, &v1.AllocatableResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("%s: asking what is allocatable: %w", socket, err)
	}
	list, err := client.List(ctx, &v1.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("%s: asking what pods have: %w", socket, err)
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
