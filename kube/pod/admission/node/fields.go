package node

import core "k8s.io/api/core/v1"

// declaredFeatures returns the address of the features that a node's status declares. The API
// of Kubernetes 1.29 to 1.33 lacks the field: test/admission replaces this file to build with
// that API (testdata/overlay.json).
func declaredFeatures(s *core.NodeStatus) *[]string { return &s.DeclaredFeatures }
