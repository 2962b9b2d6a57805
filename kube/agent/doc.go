// Package agent applies the profile named in a node's Profile object to the node, and reports the
// result for each value. It uses the engine of `fettle tune` on the node's own journal: values stay
// when the agent ends, is killed or replaced. They are restored when the object no longer requests
// a profile.
//
// Decide chooses the next action from a Situation, Node carries it out, and agentClient watches and
// reports to the API server.
//
// The agent follows only the Profile object with its node's name. The node gets no profile if the
// object does not exist or its spec.config.tunedProfile is empty, which an operator uses to remove
// a node's tuning (also for managementState Removed). Until the API server answers, the values in
// force stay.
package agent
