// Package audit reads a running cluster through its API server and evaluates the catalog's rules on
// the data. kubectl fettle check prints the findings.
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

// Cluster is the data read from a cluster, the input of the rules.
type Cluster struct {
	Now time.Time
	// Version is the Kubernetes version; "" if the server reports none. OpenShift is the OpenShift
	// version; "" for other Kubernetes.
	Version, OpenShift string
	// Unread maps each part that was not completely read to the reason.
	Unread map[Part]string

	Nodes []Node
	// Controller are the arguments of the controller manager, which assigns pod CIDRs to nodes; nil
	// if no pod shows them.
	Controller []string
	Counts     []Count
	Claims     []Claim

	// Members are the queried etcd members. If there are none, Unread has the reason.
	Members []etcd.Look
	// EtcdPods are the pods of etcd members.
	EtcdPods []product.Reported
	// Programs are the control-plane programs whose command lines are visible in pods.
	Programs []Program
	// Kubeadm has the flags that kubeadm gives the control plane; nil if not read.
	Kubeadm *Kubeadm

	// Objects are the objects that rules from OpenShift's documents check.
	Objects []openshift.Object

	MachineSets []machine.Set
	Machines    []machine.Machine
	Checks      []machine.HealthCheck
	CoreNodes   []core.Node // for the rules about health checks

	as kuberelease.Release // release for which the cluster is judged; 0 means its own
}

// Part is a part of the cluster's data.
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

// Miss records why a part was not read. Later reasons for the same part are ignored.
func (c *Cluster) Miss(p Part, format string, args ...any) {
	if c.Unread == nil {
		c.Unread = map[Part]string{}
	}
	if c.Unread[p] == "" {
		c.Unread[p] = fmt.Sprintf(format, args...)
	}
}

// Node is a node with its kubelet's configuration.
type Node struct {
	Name  string
	Ready bool
	// CIDRs are the node's ranges of the cluster network, or nil.
	CIDRs []string
	// MaxPods is the node's maximum number of pods, Cores its number of CPUs.
	MaxPods int
	Cores   float64
	Kubelet string // kubelet version
	// Config is the running KubeletConfiguration as JSON. If it is nil, Unread has the reason.
	Config []byte
	Unread string
}

// Count is the number of objects of one kind that has a maximum.
type Count struct {
	What string // name of the maximum, such as pods_per_namespace
	// N is the highest number for any namespace, node or service; Where names it.
	N     int
	Where string
	// Unread is why the objects could not be counted, or "".
	Unread string
}

// Claim is a PersistentVolumeClaim with its driver and the pods that use it.
type Claim struct {
	Namespace, Name string
	Modes           []string // access modes, such as ReadWriteOnce
	Raw             bool     // used as a block device
	// Driver is the CSI driver, the provisioner, or a name such as "in-tree nfs"; "" for a claim
	// without a volume and a class.
	Driver string
	// Users are the running pods that mount the claim.
	Users []User
}

// User is a pod that mounts a claim.
type User struct {
	Pod string
	// Containers are the containers that mount the claim.
	Containers []Container
	// Owner is the UID of the pod's controlling owner; Replicas is the number of the owner's
	// running pods.
	Owner    string
	Replicas int
}

// Container is a container by name and image.
type Container struct{ Name, Image string }

func (c *Claim) id() string { return c.Namespace + "/" + c.Name }

func (c *Claim) asks(mode core.PersistentVolumeAccessMode) bool {
	return slices.Contains(c.Modes, string(mode))
}
