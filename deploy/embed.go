// Package deploy holds what is applied to a cluster, as data.
package deploy

import "embed"

// FS has the definitions of the objects in crds, the operator's own Tuned object in
// default-tuned.yaml, and what the operator and the agents need in operator and agent.
//
//go:embed *.yaml crds/*.yaml operator/*.yaml agent/*.yaml
var FS embed.FS
