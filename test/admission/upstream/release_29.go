//go:build kubernetes_1_29

package upstream

import "fettle.dev/fettle/kube/pod/admission"

// Release is the one whose managers run here.
const Release admission.Release = 29

// Suffix is that of the names of its example files.
const Suffix = ""
