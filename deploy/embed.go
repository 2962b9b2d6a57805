// Package deploy holds what is applied to a cluster, as data.
package deploy

import "embed"

// FS has the definitions of the objects in crds, and the operator's own Tuned
// object in default-tuned.yaml.
//
//go:embed crds/*.yaml default-tuned.yaml
var FS embed.FS
