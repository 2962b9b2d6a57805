package upstream

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podapi "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // the API's types and defaults
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	_ "k8s.io/kubernetes/pkg/volume/emptydir"
)

// Default sets a pod's defaults as the API server does. The API server drops the resources of the
// pod as a whole if their gate is off.
func Default(pod *v1.Pod) {
	if Release < 34 {
		SetResources(pod, nil)
	}
	legacyscheme.Scheme.Default(pod)
	defaultPodResources(pod)
}

// Class is the class of a pod.
func Class(pod *v1.Pod) string { return string(qos.ComputePodQOS(pod)) }

// Validate returns the API server's errors about the pod.
func Validate(pod *v1.Pod) (field.ErrorList, error) {
	var internal core.Pod
	if err := legacyscheme.Scheme.Convert(pod, &internal, nil); err != nil {
		return nil, err
	}
	return validation.ValidatePodCreate(&internal, podapi.GetValidationOptionsFromPodSpecAndMeta(&internal.Spec, nil, &internal.ObjectMeta, nil)), nil
}
