// kubeletoperator takes the settings that KubeletConfig objects want to the nodes
// of KubeletPools: it says in each node's NodeKubelet what its kubelet is to run with, to
// as many nodes at a time as a pool lets be unavailable, and in the status of the pools
// how far that is.
//
// What is done is decided by Of from plain values (kubeletconfig.WantOf, rollout.Members
// and rollout.Decide); Add puts the watches and the writes into the operator's process.
// All of it is one item of one queue: slots are counted by one goroutine.

package operator
