package node

import core "k8s.io/api/core/v1"

// declaredFeatures returns a pointer to the features declared in a node's status. The API of
// Kubernetes 1.29 to 1.33 lacks the field; test/admission replaces this file for it
// (testdata/overlay.json).
func declaredFeatures(s *core.NodeStatus) *[]string { return &s.DeclaredFeatures }
