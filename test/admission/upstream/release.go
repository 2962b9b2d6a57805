package upstream

import "fettle.dev/fettle/kube/pod/admission"

// Release is the Kubernetes release of the managers in this process.
const Release admission.Release = release
