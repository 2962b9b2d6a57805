// Package deploy holds what is applied to a cluster, as data.
package deploy

import "embed"

// FS has the definitions of the objects in crds, the operator's own Tuned object in
// default-tuned.yaml, and what the agents of the nodes need in agent.
//
//go:embed crds/*.yaml default-tuned.yaml agent/*.yaml
var FS embed.FS
