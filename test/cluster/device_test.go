package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	plugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// deviceName is the resource of the test's device plug-in.
const deviceName = "fettle.test/device"

// devices is a device plug-in with two devices on NUMA node 0 and one that is broken.
// What it gives to a container is nothing but a variable.
type devices struct {
	plugin.UnimplementedDevicePluginServer
}

func (devices) GetDevicePluginOptions(context.Context, *plugin.Empty) (*plugin.DevicePluginOptions, error) {
	return &plugin.DevicePluginOptions{}, nil
}

func (devices) ListAndWatch(_ *plugin.Empty, s grpc.ServerStreamingServer[plugin.ListAndWatchResponse]) error {
	list := &plugin.ListAndWatchResponse{}
	for id, health := range map[string]string{"a": plugin.Healthy, "b": plugin.Healthy, "broken": plugin.Unhealthy} {
		list.Devices = append(list.Devices, &plugin.Device{ID: id, Health: health, Topology: &plugin.TopologyInfo{Nodes: []*plugin.NUMANode{{ID: 0}}}})
	}
	if err := s.Send(list); err != nil {
		return err
	}
	<-s.Context().Done()
	return nil
}

func (devices) Allocate(_ context.Context, r *plugin.AllocateRequest) (*plugin.AllocateResponse, error) {
	out := &plugin.AllocateResponse{}
	for _, c := range r.ContainerRequests {
		out.ContainerResponses = append(out.ContainerResponses, &plugin.ContainerAllocateResponse{Envs: map[string]string{"DEVICES": fmt.Sprint(c.DevicesIds)}})
	}
	return out, nil
}

// serve registers the plug-in with the kubelet.
func (d devices) serve(t *testing.T, c *Cluster) {
	t.Helper()
	dir := filepath.Join(c.Kubelet.Dir, "device-plugins")
	const endpoint = "fettle.sock"
	kubelet := filepath.Join(dir, "kubelet.sock")
	// Before it listens it removes all that is in the directory.
	c.Wait("the kubelet to take device plug-ins", time.Minute, func(context.Context) error {
		conn, err := net.Dial("unix", kubelet)
		if err == nil {
			conn.Close()
		}
		return err
	})
	l, err := net.Listen("unix", filepath.Join(dir, endpoint))
	c.must(err)
	server := grpc.NewServer()
	plugin.RegisterDevicePluginServer(server, d)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("unix:"+kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()))
	c.must(err)
	defer conn.Close()
	_, err = plugin.NewRegistrationClient(conn).Register(t.Context(), &plugin.RegisterRequest{Version: plugin.Version, Endpoint: endpoint, ResourceName: deviceName, Options: &plugin.DevicePluginOptions{}})
	c.must(err)
}

// TestDevices: pod explain knows the devices of a real kubelet, where they are and who has
// them; a pod for which there are too few is refused with the reason that was predicted.
func TestDevices(t *testing.T) {
	if !Inside(t, Setup{Node: true, Nightly: true, Programs: []string{"./kube/cmd/kubectl-fettle"}}) {
		return
	}
	c := Start(t, Options{Node: "node1"})
	c.Kubelet.DropIn("90-topology", `{"topologyManagerPolicy": "single-numa-node"}`)
	c.must(c.Kubelet.Restart())
	c.Wait("the node to be Ready with a topology manager", time.Minute, c.Kubelet.Ready)
	devices{}.serve(t, c)
	c.Wait("the node to have two devices", time.Minute, func(ctx context.Context) error {
		n, err := c.Client.CoreV1().Nodes().Get(ctx, "node1", meta.GetOptions{})
		if err != nil {
			return err
		}
		if has := n.Status.Allocatable[deviceName]; has.Value() != 2 {
			return fmt.Errorf("it has %s", &has)
		}
		return nil
	})
	with := func(number string) func(*core.Pod) {
		return func(p *core.Pod) {
			p.Spec.Containers[0].Resources.Limits = core.ResourceList{deviceName: resource.MustParse(number)}
		}
	}
	explain := func(number string) (p prediction) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "pod.yaml")
		c.must(os.WriteFile(file, []byte(`{apiVersion: v1, kind: Pod, metadata: {name: next}, spec: {containers: [{name: workload, image: any, resources: {limits: {`+deviceName+`: `+number+`}}}]}}`), 0o644))
		c.fettle(t, 0, &p, "pod", "explain", file)
		if len(p.Assumed) > 0 {
			t.Errorf("on the node itself something was assumed: %q", p.Assumed)
		}
		return p
	}

	p := explain("2")
	if p.Verdict.Outcome != "admitted" || len(p.Courses[0].Containers[0].Devices) != 1 {
		t.Fatalf("two of two devices: %+v", p)
	}
	if d := p.Courses[0].Containers[0].Devices[0]; d.Resource != deviceName || !slices.Equal(d.Devices, []string{"a", "b"}) || !d.Certain {
		t.Errorf("two of two devices: %+v", d)
	}
	one := c.pod(t, "one", with("1"))
	if p = explain("1"); p.Verdict.Outcome != "admitted" || !p.Courses[0].Containers[0].Devices[0].Certain {
		t.Errorf("the last of two devices: %+v", p)
	}
	if p = explain("2"); p.kubelet().Outcome != "refused" {
		t.Fatalf("two devices, of which one is taken: %+v", p)
	}
	c.refused(t, "two", p.kubelet().Reason, with("2"))
	c.must(c.Client.CoreV1().Pods("default").Delete(t.Context(), "one", meta.DeleteOptions{}))
	c.Kubelet.Away(one.UID, time.Minute)
	c.Wait("the devices to be free again", time.Minute, func(context.Context) error {
		if p := explain("2"); p.Verdict.Outcome != "admitted" {
			return errors.New(p.Verdict.Outcome)
		}
		return nil
	})
}
