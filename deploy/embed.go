// Package deploy holds what is applied to a cluster, as data.
package deploy

import "embed"

// FS has the definitions of the objects in crds, those that only a cluster without
// OpenShift's own needs in crds/plain, and the operator's own Tuned object in
// default-tuned.yaml.
//
//go:embed crds/*.yaml crds/plain/*.yaml default-tuned.yaml
var FS embed.FS
