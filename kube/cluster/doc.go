// Package cluster has what all parts of kubectl-fettle need of a cluster: requests to the
// API server, the cache of nodes, draining a node, coalesced events, metrics, and copies of
// objects.
package cluster
