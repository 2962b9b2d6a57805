package upstream

import (
	_ "unsafe" // for go:linkname

	cadvisor "github.com/google/cadvisor/info/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// newDeviceManager is the constructor beneath devicemanager.NewManagerImpl, which has
// its socket and its file in /var/lib/kubelet; this one has them where it is told.
//
//go:linkname newDeviceManager k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newDeviceManager(socket string, nodes []cadvisor.Node, affinity topologymanager.Store) (*devicemanager.ManagerImpl, error)
