// Package pod reads what a node promises and gives its pods: topology, devices, control
// groups, and the CPUs that a pod is pinned to, which it judges.
package pod
