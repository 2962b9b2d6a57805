//go:build !kubernetes_1_35 && !kubernetes_1_36 && !kubernetes_1_37

package upstream

import (
	_ "unsafe" // for go:linkname

	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// newDevices is the internal constructor that devicemanager.NewManagerImpl calls. NewManagerImpl
// puts its socket and its file into /var/lib/kubelet; this one puts them into the directory of
// socket.
//
//go:linkname newDevices k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newDevices(socket string, nodes []machineNode, affinity topologymanager.Store) (*devicemanager.ManagerImpl, error)
