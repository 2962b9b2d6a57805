package node

import core "k8s.io/api/core/v1"

// declaredFeatures points to the features that a node's status declares. The API of
// Kubernetes 1.29 to 1.33 does not have them: test/admission puts another file in the place
// of this one, to build with that API.
func declaredFeatures(s *core.NodeStatus) *[]string { return &s.DeclaredFeatures }
