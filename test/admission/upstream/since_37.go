//go:build kubernetes_1_37

package upstream

import (
	"context"

	cadvisor "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podapi "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

type (
	machineInfo  = cadvisor.MachineInfo
	machineNode  = cadvisor.Node
	machineCore  = cadvisor.Core
	machineCache = cadvisor.Cache
	machinePages = cadvisor.HugePagesInfo
)

// defaultPodResources sets the defaults of spec.resources, which the API server sets when a pod is
// created.
func defaultPodResources(pod *v1.Pod) {
	var in core.Pod
	if err := legacyscheme.Scheme.Convert(pod, &in, nil); err != nil {
		panic(err)
	}
	podapi.DefaultPodLevelResources(&in)
	var out v1.Pod
	if err := legacyscheme.Scheme.Convert(&in, &out, nil); err != nil {
		panic(err)
	}
	pod.Spec.Resources = out.Spec.Resources
}

func (r recorder) GetTopologyHints(_ klog.Logger, pod *v1.Pod, c *v1.Container, _ lifecycle.Operation) hints {
	return r.answer("GetTopologyHints", c.Name, pod, c)
}

func (r recorder) GetPodTopologyHints(_ klog.Logger, pod *v1.Pod, _ lifecycle.Operation) hints {
	return r.answer("GetPodTopologyHints", "", pod)
}

func (r recorder) Allocate(_ context.Context, pod *v1.Pod, c *v1.Container, _ lifecycle.Operation) error {
	return failure(r.call("Allocate", pod, c))
}

func (r recorder) AllocatePod(_ klog.Logger, pod *v1.Pod, _ lifecycle.Operation) error {
	return failure(r.call("AllocatePod", pod))
}

// evictor evicts no pod.
func evictor() any { return evictsNone{} }

type evictsNone struct{}

func (evictsNone) HandleAdmissionFailure(_ context.Context, _ *v1.Pod, why []lifecycle.PredicateFailureReason, _ lifecycle.Operation) ([]lifecycle.PredicateFailureReason, error) {
	return why, nil
}
