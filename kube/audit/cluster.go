// Package audit evaluates the catalog's rules on data read from a running cluster. It reads
// nothing itself.
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

// Cluster is the data read from a cluster.
type Cluster struct {
	Now time.Time
	// Version is the Kubernetes version; "" if the server reports none. OpenShift is the OpenShift
	// version, "" for another Kubernetes.
	Version, OpenShift string
	// Unread maps a part that was not read completely to the reason.
	Unread map[Part]string

	Nodes []Node
	// Controller are the arguments of the controller manager, which assigns the nodes their pod
	// CIDRs; nil if it has no visible pod.
	Controller []string
	Counts     []Count
	Claims     []Claim

	// Members are the etcd members that were queried. If there are none, Unread has the reason.
	Members []etcd.Look
	// EtcdPods are the pods of etcd members, by name.
	EtcdPods []product.Reported
	// Programs are the programs of the control plane whose command lines pods show.
	Programs []Program
	// Kubeadm has the flags with which kubeadm starts the control plane; nil if it was not read.
	Kubeadm *Kubeadm

	// Objects are the objects that rules of OpenShift's documents judge.
	Objects []openshift.Object

	MachineSets []machine.Set
	Machines    []machine.Machine
	Checks      []machine.HealthCheck
	CoreNodes   []core.Node // what health looks at of them

	as kuberelease.Release // that the cluster is taken for; 0 for its own
}

// Part is a part of a cluster that can be read or not.
type Part string

// Parts of a cluster.
const (
	OfEtcd     Part = "etcd"
	OfNodes    Part = "nodes"
	OfClaims   Part = "claims"
	OfMachines Part = "machines"
	OfObjects  Part = "configuration"
	OfKubeadm  Part = "kubeadm"
)

// Miss records why a part could not be read. Only the first reason is kept.
func (c *Cluster) Miss(p Part, format string, args ...any) {
	if c.Unread == nil {
		c.Unread = map[Part]string{}
	}
	if c.Unread[p] == "" {
		c.Unread[p] = fmt.Sprintf(format, args...)
	}
}

// Node is a node and the configuration of its kubelet.
type Node struct {
	Name  string
	Ready bool
	// CIDRs are the node's ranges of the cluster network, if it has any.
	CIDRs []string
	// MaxPods is the maximum number of its pods, Cores its number of CPUs.
	MaxPods int
	Cores   float64
	Kubelet string // its version
	// Config is the running KubeletConfiguration as JSON; nil if it could not be read, with the
	// reason in Unread.
	Config []byte
	Unread string
}

// Count is the number of objects of a kind, by the name of its maximum.
type Count struct {
	What string // pods_per_namespace
	// N is the number for the namespace, node or service that has most: Where.
	N     int
	Where string
	// Unread is the reason that they could not be counted; "" if they could.
	Unread string
}

// Claim is a PersistentVolumeClaim with its driver and its users.
type Claim struct {
	Namespace, Name string
	Modes           []string // ReadWriteOnce
	Raw             bool     // used as a device
	// Driver is the CSI driver, the provisioner, or "in-tree nfs"; "" if it has no volume and no
	// class yet.
	Driver string
	// Users are the running pods that mount it.
	Users []User
}

// User is a pod that mounts a claim.
type User struct {
	Pod string
	// Containers are the containers that mount it.
	Containers []Container
	// Owner is the UID of the object that made the pod; Replicas is the number of running pods of
	// that object.
	Owner    string
	Replicas int
}

// Container is a container by name and image.
type Container struct{ Name, Image string }

func (c *Claim) id() string { return c.Namespace + "/" + c.Name }

func (c *Claim) asks(mode core.PersistentVolumeAccessMode) bool {
	return slices.Contains(c.Modes, string(mode))
}
