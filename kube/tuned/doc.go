// Package tuned has the objects of tuned.openshift.io/v1, Tuned and Profile, as
// Go types, and reads them strictly from files. The fields, their JSON names and
// what is allowed in them are those of the CustomResourceDefinitions that
// OpenShift publishes, so that objects written for its Node Tuning Operator are
// taken unmodified. kube/deploy/crds/plain has the same as YAML; a test holds one against
// the other.
//
// A field whose JSON name has no omitempty or omitzero must be there. The tags
// enum, min, minLength and pattern are OpenAPI's constraints, for the test and
// for Read.
package tuned
