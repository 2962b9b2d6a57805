// Package deploy holds what is applied to a cluster, as data.
package deploy

import "embed"

// FS has the definitions of the objects in crds, those that only a cluster without
// OpenShift's own needs in crds/plain, the operator's own Tuned object in
// default-tuned.yaml, and what the operator and the agents need in operator and
// agent; machines has what the operator needs to remedy OpenShift's machines.
//
//go:embed *.yaml crds/*.yaml crds/plain/*.yaml operator/*.yaml agent/*.yaml machines/*.yaml
var FS embed.FS
