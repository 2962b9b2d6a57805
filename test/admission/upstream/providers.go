package upstream

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// recorder keeps what a manager answers.
type recorder struct {
	k    *Kubelet
	name string
	topologymanager.HintProvider
}

func (r recorder) GetTopologyHints(pod *v1.Pod, c *v1.Container) map[string][]topologymanager.TopologyHint {
	hints := r.HintProvider.GetTopologyHints(pod, c)
	r.k.calls = append(r.k.calls, Call{c.Name, r.name, hints})
	return hints
}

func (r recorder) GetPodTopologyHints(pod *v1.Pod) map[string][]topologymanager.TopologyHint {
	hints := r.HintProvider.GetPodTopologyHints(pod)
	r.k.calls = append(r.k.calls, Call{"", r.name, hints})
	return hints
}

type cpuProvider struct{ *Kubelet }

func (p cpuProvider) GetTopologyHints(pod *v1.Pod, c *v1.Container) map[string][]topologymanager.TopologyHint {
	return p.cpu.GetTopologyHints(p.CPU, pod, c)
}
func (p cpuProvider) GetPodTopologyHints(pod *v1.Pod) map[string][]topologymanager.TopologyHint {
	return p.cpu.GetPodTopologyHints(p.CPU, pod)
}
func (p cpuProvider) Allocate(pod *v1.Pod, c *v1.Container) error {
	return p.cpu.Allocate(p.CPU, pod, c)
}

type memoryProvider struct{ *Kubelet }

func (p memoryProvider) GetTopologyHints(pod *v1.Pod, c *v1.Container) map[string][]topologymanager.TopologyHint {
	return p.memory.GetTopologyHints(context.Background(), p.Memory, pod, c)
}
func (p memoryProvider) GetPodTopologyHints(pod *v1.Pod) map[string][]topologymanager.TopologyHint {
	return p.memory.GetPodTopologyHints(context.Background(), p.Memory, pod)
}
func (p memoryProvider) Allocate(pod *v1.Pod, c *v1.Container) error {
	return p.memory.Allocate(context.Background(), p.Memory, pod, c)
}
