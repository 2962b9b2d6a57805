// Package operator keeps one Profile object for each node of a cluster as the Tuned objects
// request it. kube/tuned decides; this package has the watches and the writes.
//
// Two queues do the work. One has a single item, "the objects": it makes the rules of all Tuned
// objects and pools, detects other controllers, writes whether each object is valid, and keeps
// the object default. The other has the nodes: each is decided by the rules in force and
// compared with its Profile. An event adds a name to a queue, and a name is in it once: a
// thousand events of a node cause one decision.
package operator
