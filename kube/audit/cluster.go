// Package audit makes of what was read of a running cluster the answers that the rules of
// the catalogue ask for, and asks them. It reads nothing itself.
package audit

import (
	"fmt"
	"slices"
	"time"

	core "k8s.io/api/core/v1"

	"fettle.dev/fettle/internal/guide/platform/openshift"
	"fettle.dev/fettle/internal/kuberelease"
	product "fettle.dev/fettle/internal/product/etcd"
	"fettle.dev/fettle/kube/etcd"
	"fettle.dev/fettle/kube/machine"
)

// Cluster is what was read of one.
type Cluster struct {
	Now time.Time
	// Version is that of Kubernetes; "" where the server says none. OpenShift is that of
	// OpenShift, "" for another Kubernetes.
	Version, OpenShift string
	// Unread says of parts why they, or some of them, could not be read.
	Unread map[Part]string

	Nodes []Node
	// Controller are the arguments of the controller manager, which gives nodes their
	// parts of the cluster network; none where no pod of it can be seen.
	Controller []string
	Counts     []Count
	Claims     []Claim

	// Members are those of etcd that were asked. Without any, Unread says why.
	Members []etcd.Look
	// EtcdPods are the pods of members, by their names.
	EtcdPods []product.Reported

	// Objects are those that rules of OpenShift's documents judge.
	Objects []openshift.Object

	MachineSets []machine.Set
	Machines    []machine.Machine
	Checks      []machine.HealthCheck
	CoreNodes   []core.Node // what health looks at of them

	as kuberelease.Release // that the cluster is taken for; 0 for its own
}

// Part is a part of a cluster that can be read or not.
type Part string

// The parts.
const (
	OfEtcd     Part = "etcd"
	OfNodes    Part = "nodes"
	OfClaims   Part = "claims"
	OfMachines Part = "machines"
	OfObjects  Part = "configuration"
)

// Miss notes why a part could not be read, if it is the first.
func (c *Cluster) Miss(p Part, format string, args ...any) {
	if c.Unread == nil {
		c.Unread = map[Part]string{}
	}
	if c.Unread[p] == "" {
		c.Unread[p] = fmt.Sprintf(format, args...)
	}
}

// Node is one, and what its kubelet runs with.
type Node struct {
	Name  string
	Ready bool
	// CIDRs are its parts of the cluster network; none where it has none.
	CIDRs []string
	// MaxPods is how many pods it takes, Cores its CPUs.
	MaxPods int
	Cores   float64
	Kubelet string // its version
	// Config is the KubeletConfiguration that it runs with, as JSON; nil with Unread,
	// which says why.
	Config []byte
	Unread string
}

// Count is how many objects of a sort there are, by the name of their maximum.
type Count struct {
	What string // pods_per_namespace
	// N is the number, of the namespace, node or service that has most: Where.
	N     int
	Where string
	// Unread is why they could not be counted; "" if they could.
	Unread string
}

// Claim is a PersistentVolumeClaim, what provides it and who uses it.
type Claim struct {
	Namespace, Name string
	Modes           []string // ReadWriteOnce
	Raw             bool     // used as a device
	// Driver is the CSI driver, the provisioner, or "in-tree nfs"; "" where it has no
	// volume and no class yet.
	Driver string
	// Users are the running pods that mount it.
	Users []User
}

// User is a pod that mounts a claim.
type User struct {
	Pod string
	// Containers are those that mount it.
	Containers []Container
	// Owner is the object that made the pod, by its uid; Replicas is how many running
	// pods that object has.
	Owner    string
	Replicas int
}

// Container is one by its name and image.
type Container struct{ Name, Image string }

func (c *Claim) id() string { return c.Namespace + "/" + c.Name }

func (c *Claim) asks(mode core.PersistentVolumeAccessMode) bool {
	return slices.Contains(c.Modes, string(mode))
}
