package node

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// kubelet simulates a kubelet with two devices.
type kubelet struct {
	v1.UnimplementedPodResourcesListerServer
}

func (kubelet) GetAllocatableResources(context.Context, *v1.AllocatableResourcesRequest) (*v1.AllocatableResourcesResponse, error) {
	return &v1.AllocatableResourcesResponse{Devices: []*v1.ContainerDevices{
		{ResourceName: "example.com/nic", DeviceIds: []string{"a"}, Topology: &v1.TopologyInfo{Nodes: []*v1.NUMANode{{ID: 0}, {ID: 1}}}},
		{ResourceName: "example.com/nic", DeviceIds: []string{"b"}},
	}}, nil
}

func (kubelet) List(context.Context, *v1.ListPodResourcesRequest) (*v1.ListPodResourcesResponse, error) {
	return &v1.ListPodResourcesResponse{PodResources: []*v1.PodResources{{Namespace: "default", Name: "p", Containers: []*v1.ContainerResources{
		{Name: "c", CpuIds: []int64{2, 3}, Devices: []*v1.ContainerDevices{{ResourceName: "example.com/nic", DeviceIds: []string{"a"}}}},
	}}}}, nil
}

// serve starts the simulated kubelet on a socket, whose path must be short.
func serve(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pr")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "kubelet.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	v1.RegisterPodResourcesListerServer(s, kubelet{})
	go s.Serve(l)
	t.Cleanup(s.Stop)
	return socket
}

func TestAsk(t *testing.T) {
	got, err := Ask(t.Context(), serve(t))
	if err != nil {
		t.Fatal(err)
	}
	want := &Answer{
		Allocatable: []Devices{{"example.com/nic", []string{"a"}, []int{0, 1}}, {"example.com/nic", []string{"b"}, []int{}}},
		Pods:        []ListedPod{{"default", "p", []ListedContainer{{"c", []int64{2, 3}, []Devices{{"example.com/nic", []string{"a"}, []int{}}}}}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestNobody tests that without a listener an error with the socket's name is returned at once.
func TestNobody(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "none.sock")
	if _, err := Ask(t.Context(), socket); err == nil || !strings.Contains(err.Error(), socket) {
		t.Error(err)
	}
}
