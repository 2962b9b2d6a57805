//go:build kubernetes_1_36

package upstream

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"fettle.dev/fettle/kube/pod/admission"
)

// Release is the one whose managers run here.
const Release admission.Release = 36

// Suffix is that of the names of its example files.
const Suffix = ""

func (p cpuProvider) AllocatePod(pod *v1.Pod) error {
	return p.cpu.AllocatePod(klog.Background(), p.CPU, pod)
}

func (p memoryProvider) AllocatePod(pod *v1.Pod) error {
	return p.memory.AllocatePod(klog.Background(), p.Memory, pod)
}
