package agent

import "fettle.dev/fettle/kube/tuned"

// Situation is the input of Decide.
type Situation struct {
	// Boot is the ID of this boot. Decided is the boot in which the agent last carried out a
	// decision about its Profile object; "" if it never did.
	Boot, Decided string
	// Heard reports whether the API server has answered; if not, Wanted is unknown.
	Heard bool
	// Wanted is the profile requested for the node; nil if none exists.
	Wanted *Wanted
	// InForce is the selection in the node's journal; nil if none exists.
	InForce *InForce
}

// Wanted is the request in a node's Profile object.
type Wanted struct {
	Profile string
	// Origin identifies the name, the texts and the included profiles of fettle: equal requests
	// have equal origins.
	Origin   string
	Deferred tuned.DeferMode
	// Fault is the reason that the profile cannot be applied; "" if it can.
	Fault string
}

// InForce is a selection in force.
type InForce struct {
	Profile string
	// Origin is the Wanted.Origin that was applied; empty for a selection that a user made on the
	// node.
	Origin string
	// Boot is the boot in which it was last applied.
	Boot string
}

// Action is a step of the agent.
type Action string

// Actions of the agent.
const (
	// Leave changes nothing.
	Leave Action = "leave"
	// Apply switches to the requested profile.
	Apply Action = "apply"
	// Again applies the selection in force as it was accepted, because a new boot has begun.
	Again Action = "again"
	// Restore gives the node its former values back.
	Restore Action = "restore"
)

// Decision is the next step.
type Decision struct {
	Action Action
	// Waits reports whether the request waits for the next boot.
	Waits bool
	// Why is the reason that the request is not applied; empty if it is.
	Why string
}

// selectedLocally is the reason to leave a node with a selection of its own alone.
const selectedLocally = "a profile was selected on the node itself and stays; run fettle undo on the node to hand it to the cluster"

// Decide returns the next step. It is a pure function.
//
// A deferred request waits for a boot: the first decision of a boot applies any request,
// because nothing depends on the old values yet. An agent that restarts within a boot therefore
// applies nothing that waited before. A removed profile is undone at once, deferred or not.
func Decide(s Situation) Decision {
	stay := Decision{Action: Leave}
	if s.InForce != nil && s.InForce.Origin == "" {
		if s.Heard && s.Wanted != nil {
			stay.Why = selectedLocally
		}
		return stay
	}
	if s.InForce != nil && s.InForce.Boot != s.Boot {
		stay.Action = Again
	}
	switch {
	case !s.Heard:
		return stay
	case s.Wanted == nil && s.InForce == nil:
		return stay
	case s.Wanted == nil:
		return Decision{Action: Restore}
	case s.Wanted.Fault != "":
		stay.Why = s.Wanted.Fault
		return stay
	case s.InForce != nil && s.InForce.Origin == s.Wanted.Origin:
		return stay
	case s.waits():
		stay.Waits = true
		return stay
	}
	return Decision{Action: Apply}
}

// waits reports whether the change takes effect at the next boot.
func (s Situation) waits() bool {
	if s.Decided != "" && s.Decided != s.Boot {
		return false
	}
	switch s.Wanted.Deferred {
	case tuned.DeferAlways:
		return true
	case tuned.DeferUpdate:
		return s.InForce != nil && s.InForce.Profile == s.Wanted.Profile
	}
	return false
}
