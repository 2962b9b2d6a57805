//go:build !kubernetes_1_37

package upstream

import (
	cadvisor "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
)

type (
	machineInfo  = cadvisor.MachineInfo
	machineNode  = cadvisor.Node
	machineCore  = cadvisor.Core
	machineCache = cadvisor.Cache
	machinePages = cadvisor.HugePagesInfo
)

// defaultPodResources does nothing: this release fills in spec.resources with all else.
func defaultPodResources(*v1.Pod) {}
