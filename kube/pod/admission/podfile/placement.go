package podfile

import (
	"slices"

	core "k8s.io/api/core/v1"

	"fettle.dev/fettle/kube/pod/admission"
)

// placement is what of a pod's specification decides on which nodes it may run.
func placement(spec *core.PodSpec) admission.Placement {
	p := admission.Placement{
		Node: spec.NodeName, Selector: spec.NodeSelector, Tolerations: tolerations(spec.Tolerations, withAll), Ports: HostPorts(spec),
	}
	if spec.OS != nil {
		p.OS = spec.OS.Name
	}
	p.StrictGroups = strictGroups(spec)
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil {
		p.Affinity = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return p
}

// HostPorts are the ports of the node that a pod has for itself: those of its containers and
// sidecars, and with hostNetwork all that they name.
func HostPorts(spec *core.PodSpec) []admission.HostPort {
	var all []admission.HostPort
	add := func(c *core.Container) {
		for _, p := range c.Ports {
			port := admission.HostPort{Address: p.HostIP, Protocol: p.Protocol, Port: p.HostPort}
			if port.Port == 0 && spec.HostNetwork {
				port.Port = p.ContainerPort
			}
			if port.Address == "" {
				port.Address = "0.0.0.0"
			}
			if port.Protocol == "" {
				port.Protocol = core.ProtocolTCP
			}
			if port.Port > 0 {
				all = append(all, port)
			}
		}
	}
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == core.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	for i := range spec.Containers {
		add(&spec.Containers[i])
	}
	return all
}

// withAll are the taints that the API server has every pod tolerate for a while (plug-in
// DefaultTolerationSeconds), onDaemons those that the DaemonSet controller has its pods
// tolerate, and onHostNetwork those with the host's network.
// Source: k8s.io/kubernetes v1.34.4, plugin/pkg/admission/defaulttolerationseconds and
// pkg/controller/daemon/util, AddOrUpdateDaemonPodTolerations.
var (
	withAll = []core.Taint{
		{Key: core.TaintNodeNotReady, Effect: core.TaintEffectNoExecute}, {Key: core.TaintNodeUnreachable, Effect: core.TaintEffectNoExecute},
	}
	onDaemons = []core.Taint{
		{Key: core.TaintNodeDiskPressure, Effect: core.TaintEffectNoSchedule}, {Key: core.TaintNodeMemoryPressure, Effect: core.TaintEffectNoSchedule},
		{Key: core.TaintNodePIDPressure, Effect: core.TaintEffectNoSchedule}, {Key: core.TaintNodeUnschedulable, Effect: core.TaintEffectNoSchedule},
	}
	onHostNetwork = []core.Taint{{Key: core.TaintNodeNetworkUnavailable, Effect: core.TaintEffectNoSchedule}}
)

// tolerations are those of a pod and those that are added for taints.
func tolerations(own []core.Toleration, added []core.Taint) []core.Toleration {
	all := slices.Clone(own)
	for _, t := range added {
		all = append(all, core.Toleration{Key: t.Key, Operator: core.TolerationOpExists, Effect: t.Effect})
	}
	return all
}

// daemon adds what the DaemonSet controller adds to its pods.
func daemon(p *admission.Placement, spec *core.PodSpec) {
	p.Tolerations = tolerations(p.Tolerations, onDaemons)
	if spec.HostNetwork {
		p.Tolerations = tolerations(p.Tolerations, onHostNetwork)
	}
}
