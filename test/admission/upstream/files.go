package upstream

import (
	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"fettle.dev/fettle/kube/pod/admission"
)

// Files is a kubelet whose CPU and memory managers keep their state in files. Its active pods are
// Pods.
type Files struct {
	topology topologymanager.Manager
	CPU      cpumanager.Manager
	Memory   memorymanager.Manager
	Pods     []*v1.Pod
}

// StartFiles starts a Files with the state files of a directory.
func StartFiles(dir string, in *admission.Input, pods []*v1.Pod) (*Files, error) {
	klog.SetLogger(logr.Discard())
	f := &Files{Pods: pods}
	machine, reservation, s := Machine(&in.Node), reserved(in.Settings), in.Settings
	var err error
	if f.topology, err = newTopologyManager(machine, s); err != nil {
		return nil, err
	}
	if f.CPU, err = newCPUManager(s, machine, reservation, dir, f.topology); err != nil {
		return nil, err
	}
	if f.Memory, err = newMemoryManager(s, machine, reservation, dir, f.topology); err != nil {
		return nil, err
	}
	asked := make(chan struct{}, 2)
	active := func() []*v1.Pod {
		select {
		case asked <- struct{}{}:
		default:
		}
		return f.Pods
	}
	start := func(manager any) error {
		return failure(call(manager, active, config.NewSourcesReady(ready), noStatus{}, nil, containermap.NewContainerMap()))
	}
	if err := start(f.CPU.Start); err != nil {
		return nil, err
	}
	if s.CPUManagerPolicy == admission.PolicyStatic {
		// At its start the manager removes what pods had that are gone, in a goroutine that
		// asks for the pods once before and once after; the next time is in an hour.
		<-asked
		<-asked
	}
	if err := start(f.Memory.Start); err != nil {
		return nil, err
	}
	call(f.topology.AddHintProvider, f.CPU)
	call(f.topology.AddHintProvider, f.Memory)
	return f, nil
}

// Admit lets the managers have a pod.
func (f *Files) Admit(pod *v1.Pod) lifecycle.PodAdmitResult {
	f.Pods = append(f.Pods, pod)
	return admit(f.topology, pod)
}

// noStatus knows the status of no pod, so the managers do nothing to containers.
type noStatus struct{}

func (noStatus) GetPodStatus(types.UID) (v1.PodStatus, bool) { return v1.PodStatus{}, false }
