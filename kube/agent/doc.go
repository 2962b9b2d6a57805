// Package agent brings the profile that a node's Profile object names into force on
// that node, and says what came of each value. It is the engine of `fettle tune` on
// the node's own journal: values stay when the agent ends, is killed or replaced, and
// go back when the node is to have no profile any more.
//
// What to do is decided by Decide from one plain value; Node does it; a report is made
// of what is found then; Watch has the API server's part.
//
// An agent is told by its Profile object alone, the one with its node's name. A node
// is to have no profile where there is no such object, or one that names none
// (spec.config.tunedProfile is empty): that is how an operator takes its tuning from a
// node, also for managementState Removed. As long as the API server has not answered,
// nothing is known, and what is in force stays.
package agent
