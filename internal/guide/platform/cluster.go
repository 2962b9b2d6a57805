package platform

import (
	"context"

	"fettle.dev/fettle/internal/fact"
)

// Name is the platform of running Kubernetes clusters.
const Name = "cluster"

// Sets of a cluster.
const (
	Members      = "cluster.member"       // of etcd, by their address
	Peers        = "cluster.peer"         // pairs of etcd members
	Objects      = "cluster.objects"      // kinds of objects, by the name of their maximum
	Nodes        = "cluster.node"         // by name
	Claims       = "cluster.claim"        // PersistentVolumeClaims of known applications
	Shared       = "cluster.shared_claim" // claims that several nodes use at once
	MachineSets  = "cluster.machine_set"
	HealthChecks = "cluster.health_check"
	Programs     = "cluster.program" // of the control plane, by pod or by part of kubeadm's configuration
)

// ClusterSource declares the inputs about a cluster. kubectl fettle check answers them; on a
// machine they are absent.
func ClusterSource() Source {
	s := Source{
		Prefix: "cluster", Sets: []string{Members, Peers, Objects, Nodes, Claims, Shared, MachineSets, HealthChecks, Programs},
		Open: func(context.Context, *Subject) Answers { return &Known{} },
	}
	for _, in := range []fact.Input{
		{Name: "version", Type: fact.Text, Doc: "version of Kubernetes that the API server reports"},
		{Name: "openshift", Type: fact.Text, Doc: "version of OpenShift; absent for other Kubernetes"},

		{Name: "member.*.fsync", Type: fact.Text, Doc: "bucket of the 99th percentile of WAL fsyncs, and their number"},
		{Name: "member.*.fsync_above_s", Type: fact.Number, Unit: "s", Doc: "lower bound of that bucket"},
		{Name: "member.*.fsync_at_most_s", Type: fact.Number, Unit: "s", Doc: "upper bound of that bucket; 0 without one"},
		{Name: "member.*.commit", Type: fact.Text, Doc: "bucket of the 99th percentile of database commits, and their number"},
		{Name: "member.*.commit_above_s", Type: fact.Number, Unit: "s"},
		{Name: "member.*.commit_at_most_s", Type: fact.Number, Unit: "s"},
		{Name: "peer.*.round_trip", Type: fact.Text, Doc: "bucket of the 99th percentile of round trips to another member, and their number"},
		{Name: "peer.*.above_s", Type: fact.Number, Unit: "s", Doc: "lower bound of that bucket"},
		{Name: "peer.*.at_most_s", Type: fact.Number, Unit: "s", Doc: "upper bound of that bucket; 0 without one"},

		{Name: "objects.*.count", Type: fact.Number, Doc: "objects of a kind, by the name of their maximum"},
		{Name: "objects.*.where", Type: fact.Text, Doc: "the namespace, node or service with most objects; absent for objects of the whole cluster"},

		{Name: "node_count", Type: fact.Number},
		{Name: "node_parts", Type: fact.Number, Doc: "parts of the cluster network, one per node"},
		{Name: "node.*.addresses", Type: fact.Number, Doc: "addresses for pods in the node's part of the cluster network"},
		{Name: "node.*.max_pods", Type: fact.Number, Doc: "maximum pods of the node"},
		{Name: "node.*.cores", Type: fact.Number, Unit: "cores"},
		{Name: "node.*.ready", Type: fact.Truth},

		{Name: "claim.*.role", Type: fact.Text, Doc: "the row of table openshift-storage: registry, scaled registry, metrics, logging, etcd or databases"},
		{Name: "claim.*.technology", Type: fact.Text, Doc: "block or file"},
		{Name: "claim.*.driver", Type: fact.Text, Doc: "driver that provides the volume"},
		{Name: "claim.*.family", Type: fact.Text, Doc: "nfs, ceph, or empty for others"},
		{Name: "claim.*.modes", Type: fact.List, Doc: "requested access modes"},
		{Name: "claim.*.users", Type: fact.Number, Doc: "running pods that use the claim"},

		{Name: "shared_claim.*.technology", Type: fact.Text},
		{Name: "shared_claim.*.driver", Type: fact.Text},
		{Name: "shared_claim.*.modes", Type: fact.List},
		{Name: "shared_claim.*.raw", Type: fact.Truth, Doc: "whether the claim is used as a device (volumeMode Block), not as a file system"},
		{Name: "shared_claim.*.many_readers", Type: fact.Truth, Doc: "whether many nodes may read the volume (footnote 4 of the table)"},

		{Name: "machine_set.*.wanted", Type: fact.Number, Doc: "desired machines"},
		{Name: "machine_set.*.ready", Type: fact.Number, Doc: "ready machines"},
		{Name: "machine_set.*.checks", Type: fact.List, Doc: "MachineHealthChecks that select the machines of the set"},
		{Name: "health_check.*.open", Type: fact.Truth, Doc: "whether the limit of the health check allows remediation now"},
		{Name: "health_check.*.limit", Type: fact.Text, Doc: "how that limit is calculated"},
		{Name: "health_check.*.hindrances", Type: fact.List, Doc: "what the health check waits for, and other controllers of its machines"},

		{Name: "program.*.refused_flags", Type: fact.List, Doc: "flags and feature gates with which a program of the control plane does not start"},
	} {
		in.Name = "cluster." + in.Name
		s.Inputs = append(s.Inputs, in)
	}
	return s
}
