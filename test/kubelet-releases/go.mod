// The fields and feature gates of a kubelet, read out of the source of each release. A
// module of its own: it reads Kubernetes' modules and links none.
module fettle.dev/fettle/test/kubelet-releases

go 1.26.0
