// Package deploy embeds the manifests that an administrator applies to a cluster.
package deploy

import "embed"

// FS contains, by directory:
//   - kinds: fettle's own kinds; kinds/plain: OpenShift's kinds and namespace, for other clusters
//   - default-tuned.yaml: the operator's Tuned object; Containerfile: the image
//   - operator, agent: what these need; kubelet: what agents need to change kubelets
//   - openshift: what both need on OpenShift; machines: what remediation needs there
//   - metrics: what a reader of the metrics needs
//   - Chart.yaml, values.yaml, values.schema.json, templates: the Helm chart, which renders the above
//
//go:embed Containerfile README.md values.schema.json *.yaml templates/* kinds/*.yaml kinds/plain/*.yaml operator/*.yaml agent/*.yaml kubelet/*.yaml machines/*.yaml openshift/*.yaml metrics/*
var FS embed.FS
