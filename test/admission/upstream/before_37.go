//go:build !kubernetes_1_37

package upstream

import (
	"context"

	cadvisor "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

type (
	machineInfo  = cadvisor.MachineInfo
	machineNode  = cadvisor.Node
	machineCore  = cadvisor.Core
	machineCache = cadvisor.Cache
	machinePages = cadvisor.HugePagesInfo
)

// defaultPodResources does nothing: in this release the general defaults include spec.resources.
func defaultPodResources(*v1.Pod) {}

func (r recorder) GetTopologyHints(pod *v1.Pod, c *v1.Container) hints {
	return r.answer("GetTopologyHints", c.Name, pod, c)
}

func (r recorder) GetPodTopologyHints(pod *v1.Pod) hints {
	return r.answer("GetPodTopologyHints", "", pod)
}

func (r recorder) Allocate(pod *v1.Pod, c *v1.Container) error {
	return failure(r.call("Allocate", pod, c))
}

// AllocatePod is called since 1.36.
func (r recorder) AllocatePod(pod *v1.Pod) error { return failure(r.call("AllocatePod", pod)) }

// evictor returns a handler that evicts no pod. Its method takes a context since 1.34.
func evictor() any {
	if Release < 34 {
		return evictsNone{}
	}
	return evictsNoneWithContext{}
}

type (
	evictsNone            struct{}
	evictsNoneWithContext struct{}
)

func (evictsNone) HandleAdmissionFailure(_ *v1.Pod, why []lifecycle.PredicateFailureReason) ([]lifecycle.PredicateFailureReason, error) {
	return why, nil
}

func (evictsNoneWithContext) HandleAdmissionFailure(_ context.Context, _ *v1.Pod, why []lifecycle.PredicateFailureReason) ([]lifecycle.PredicateFailureReason, error) {
	return why, nil
}
