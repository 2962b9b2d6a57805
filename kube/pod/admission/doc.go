// Package admission predicts how a kubelet treats a pod on a node: the hints that its device, CPU
// and memory managers give the topology manager, how these are merged, whether the pod is admitted,
// and which CPUs, memory and devices each container gets.
//
// The rules are those of the kubelet's own release, Kubernetes 1.29 to 1.37, read from
// k8s.io/kubernetes (pkg/kubelet/cm, pkg/kubelet/lifecycle, pkg/apis/core) and compared with those
// packages in test/admission. release.go lists the changes by release. If a defect of a release
// decides a pod's fate, the prediction reproduces and reports it.
//
// The package computes on plain values. Package podfile reads pods, package state the managers'
// files, and kube/pod prints the result.
package admission

// limits lists what predictions do not cover.
var limits = []string{
	"it applies to the recorded state of the node; another pod may be admitted first",
	"the scheduler's pod affinity, topology spread and volumes are not considered",
	"resources of the cluster (dynamic resource allocation) give no hints here",
	"a device plug-in may prefer certain devices; its choice among equal devices is unknown",
	"LimitRanges, quotas and admission webhooks may change or reject the pod first",
}
