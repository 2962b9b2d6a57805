// Package deploy holds what is applied to a cluster, as data.
package deploy

import "embed"

// FS has the definitions of the objects in crds, those that only a cluster without
// OpenShift's own needs in crds/plain, the operator's own Tuned object in
// default-tuned.yaml, what the operator and the agents need in operator and agent, what
// the operator needs to remedy OpenShift's machines in machines, what who looks at their
// metrics needs in metrics, and Containerfile, their image.
//
//go:embed Containerfile *.yaml crds/*.yaml crds/plain/*.yaml operator/*.yaml agent/*.yaml machines/*.yaml metrics/*
var FS embed.FS
