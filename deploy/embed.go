// Package deploy holds what is applied to a cluster, as data.
package deploy

import "embed"

// FS has the definitions of the objects in crds, the operator's own Tuned object in
// default-tuned.yaml, and what runs it in the cluster.
//
//go:embed crds/*.yaml *.yaml
var FS embed.FS
