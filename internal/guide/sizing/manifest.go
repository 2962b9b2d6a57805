package sizing

import "embed"

//go:embed templates
var templates embed.FS

var fill = Templates(templates)

// Manifest returns a document for a cluster, from the template with that name, with a comment
// above it. test/openshift-api decodes the results strictly into types of OpenShift and
// Kubernetes, which fettle itself does not link.
func Manifest(name, comment string, data map[string]any) string {
	return Comment(comment) + fill(name, data)
}
