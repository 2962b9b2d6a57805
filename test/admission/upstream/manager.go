package upstream

import (
	_ "unsafe" // for go:linkname

	v1 "k8s.io/api/core/v1"
)

// PageSize returns the mount option of an emptyDir of huge pages for a pod, or an error if it
// cannot be mounted.
//
//go:linkname PageSize k8s.io/kubernetes/pkg/volume/emptydir.getPageSizeMountOption
func PageSize(medium v1.StorageMedium, pod *v1.Pod) (string, error)
