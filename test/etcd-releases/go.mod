// The flags and configuration keys of etcd, read in the source of each release, and held
// against the real programs. A module of its own: it reads etcd's modules and links none.
module fettle.dev/fettle/test/etcd-releases

go 1.26.0
