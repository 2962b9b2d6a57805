// Package admission predicts what a kubelet does with a pod on a node: what its
// device, CPU and memory managers answer to the topology manager, how those answers
// are merged, whether the pod is admitted, and which CPUs, memory and devices each
// container gets.
//
// The rules are those of the kubelet's own release, Kubernetes 1.29 to 1.37, read from
// k8s.io/kubernetes (pkg/kubelet/cm, pkg/kubelet/lifecycle, pkg/apis/core) and compared
// with those packages in test/admission. release.go has what changed when. Where a
// release has a defect that decides a pod's fate, the prediction has it too, and says so.
//
// Everything here is a function of plain values: package podfile reads pods, package
// state the files of the managers, package explain prints what came out.
package admission

// limits is what a prediction does not cover, for every document.
var limits = []string{
	"it holds for the state of the node that it was given: another pod may be admitted first",
	"of the scheduler: not affinity to other pods, topology spread and volumes",
	"resources of the cluster (dynamic resource allocation) give no hints here",
	"a device plug-in may prefer certain devices; which of equal devices it picks cannot be known",
	"LimitRanges, quotas and admission web hooks may change or refuse the pod before",
}
