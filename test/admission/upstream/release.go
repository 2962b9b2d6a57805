package upstream

import "fettle.dev/fettle/kube/pod/admission"

// Release is the one whose managers run here.
const Release admission.Release = release
