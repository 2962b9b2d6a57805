// Package operator keeps each node's Profile object as the Tuned objects request. kube/tuned
// decides; this package watches and writes. It also runs the controllers for kubelet settings and
// machine health.
//
// Two queues do the work. The first has a single item, "objects": it compiles the rules from all
// Tuned objects and pools, detects other controllers, writes each object's validity, and maintains
// the object default. The second has the nodes: each node is decided by the rules and compared with
// its Profile. A queue has each name only once, so a thousand events of a node cause one decision.
package operator
