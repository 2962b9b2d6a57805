// Package operator keeps one Profile object for each node of a cluster as the Tuned
// objects want it. What is decided is decided by kube/tuned; here are the
// watches, what is written, and when nothing is.
//
// Two queues do the work. One has a single item, "the objects": it makes the rules of
// all Tuned objects and pools, looks who else is at work, says of each object whether
// it is valid, and keeps the object default. The other has the nodes: each is decided
// by the rules in force and compared with its Profile. An event puts a name into a
// queue, and a name is in it once: a thousand events of a node are one decision.
package operator
