//go:build kubernetes_1_35 || kubernetes_1_36 || kubernetes_1_37

package upstream

import (
	_ "unsafe" // for go:linkname

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// newDevices is the same constructor as in devices_34.go. Since 1.35 it takes a logger.
//
//go:linkname newDevices k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newDevices(logger klog.Logger, socket string, nodes []machineNode, affinity topologymanager.Store) (*devicemanager.ManagerImpl, error)
