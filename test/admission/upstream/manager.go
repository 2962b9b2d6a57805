package upstream

import (
	_ "unsafe" // for go:linkname

	cadvisor "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// newDeviceManager is the constructor beneath devicemanager.NewManagerImpl, which has
// its socket and its file in /var/lib/kubelet; this one has them where it is told.
//
//go:linkname newDeviceManager k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newDeviceManager(socket string, nodes []cadvisor.Node, affinity topologymanager.Store) (*devicemanager.ManagerImpl, error)

// PageSize is how an emptyDir of huge pages is mounted for a pod, or why it is not.
//
//go:linkname PageSize k8s.io/kubernetes/pkg/volume/emptydir.getPageSizeMountOption
func PageSize(medium v1.StorageMedium, pod *v1.Pod) (string, error)
