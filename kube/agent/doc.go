// Package agent applies the profile that a node's Profile object names to that node, and
// reports the result for each value. It uses the engine of `fettle tune` on the node's own
// journal: values stay when the agent ends, is killed or replaced, and are restored when the
// node is to have no profile any more.
//
// Decide chooses the next step from one plain value, Node carries it out, a report is made from
// the result, and Watch talks to the API server.
//
// The agent follows only the Profile object with its node's name. The node gets no profile if
// that object does not exist, or if its spec.config.tunedProfile is empty: an operator removes
// the tuning of a node that way, also for managementState Removed. Until the API server has
// answered, the values in force stay.
package agent
