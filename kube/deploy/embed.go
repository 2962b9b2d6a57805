// Package deploy embeds the manifests that are applied to a cluster.
package deploy

import "embed"

// FS has the definitions of fettle's own kinds in crds, those of OpenShift's kinds and its
// namespace, for clusters without OpenShift, in crds/plain, the operator's own Tuned
// object in default-tuned.yaml, what the operator and the agents need in operator and
// agent, what agents need to change kubelets in kubelet, what both need on OpenShift in
// openshift, what the operator needs to remediate OpenShift's machines in machines, what a
// reader of their metrics needs in metrics, and Containerfile, their image.
//
//go:embed Containerfile *.yaml crds/*.yaml crds/plain/*.yaml operator/*.yaml agent/*.yaml kubelet/*.yaml machines/*.yaml openshift/*.yaml metrics/*
var FS embed.FS
