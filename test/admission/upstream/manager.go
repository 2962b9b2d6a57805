package upstream

import (
	_ "unsafe" // for go:linkname

	v1 "k8s.io/api/core/v1"
)

// PageSize is how an emptyDir of huge pages is mounted for a pod, or why it is not.
//
//go:linkname PageSize k8s.io/kubernetes/pkg/volume/emptydir.getPageSizeMountOption
func PageSize(medium v1.StorageMedium, pod *v1.Pod) (string, error)
