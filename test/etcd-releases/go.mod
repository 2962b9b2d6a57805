// The flags and configuration keys of etcd, read in the source of each release, and held
// against the real programs. A module of its own: it reads etcd's modules and links none.
module fettle.dev/fettle/test/etcd-releases

go 1.26.0

require fettle.dev/fettle/test/kubelet-releases v0.0.0

replace fettle.dev/fettle/test/kubelet-releases => ../kubelet-releases
