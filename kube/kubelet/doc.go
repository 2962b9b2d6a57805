// Package kubelet decides about the settings of kubelets, from plain values: which of
// them may be set and which are refused, what several KubeletConfig objects want of a
// pool together, whether a kubelet would start with that, and what a change of them
// takes.
//
// The settings have the names of KubeletConfiguration (kubelet.config.k8s.io/v1beta1).
// What is refused is what OpenShift's Machine Config Operator refuses
// (pkg/controller/kubelet-config/helpers.go), and everything that fettle does not set.
// What a kubelet does with its configuration is that of Kubernetes 1.34
// (cmd/kubelet/app/server.go, pkg/kubelet/apis/config/validation).
package kubelet
