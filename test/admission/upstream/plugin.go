package upstream

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// plugin is a device plug-in in this process. It allocates every requested device, and prefers the
// devices in prefer.
type plugin struct {
	resource string
	socket   string
	prefer   []string
}

func (p *plugin) API() v1beta1.DevicePluginClient { return p }
func (p *plugin) Resource() string                { return p.resource }
func (p *plugin) SocketPath() string              { return p.socket }

func (p *plugin) GetDevicePluginOptions(context.Context, *v1beta1.Empty, ...grpc.CallOption) (*v1beta1.DevicePluginOptions, error) {
	return &v1beta1.DevicePluginOptions{GetPreferredAllocationAvailable: true}, nil
}

func (p *plugin) ListAndWatch(context.Context, *v1beta1.Empty, ...grpc.CallOption) (v1beta1.DevicePlugin_ListAndWatchClient, error) {
	return nil, errors.New("the devices are handed over directly")
}

func (p *plugin) GetPreferredAllocation(context.Context, *v1beta1.PreferredAllocationRequest, ...grpc.CallOption) (*v1beta1.PreferredAllocationResponse, error) {
	return &v1beta1.PreferredAllocationResponse{ContainerResponses: []*v1beta1.ContainerPreferredAllocationResponse{{DeviceIDs: p.prefer}}}, nil
}

func (p *plugin) Allocate(context.Context, *v1beta1.AllocateRequest, ...grpc.CallOption) (*v1beta1.AllocateResponse, error) {
	return &v1beta1.AllocateResponse{ContainerResponses: []*v1beta1.ContainerAllocateResponse{{}}}, nil
}

func (p *plugin) PreStartContainer(context.Context, *v1beta1.PreStartContainerRequest, ...grpc.CallOption) (*v1beta1.PreStartContainerResponse, error) {
	return &v1beta1.PreStartContainerResponse{}, nil
}
