package agent

import "fettle.dev/fettle/kube/tuned"

// Situation is the input of Decide.
type Situation struct {
	// Boot is this boot's id. Decided is the boot in which the agent last carried out
	// a decision about its Profile object; "" where it never did.
	Boot, Decided string
	// Heard reports whether the API server has answered: else Wanted is not known.
	Heard bool
	// Wanted is what the node is to have; nil for no profile.
	Wanted *Wanted
	// InForce is the selection that the node's journal has; nil for none.
	InForce *InForce
}

// Wanted is what a node's Profile object asks for.
type Wanted struct {
	Profile string
	// Origin stands for the name and the texts, and for what of fettle's own profiles
	// they include: two that are alike have one.
	Origin   string
	Deferred tuned.DeferMode
	// Fault says why it cannot be applied; empty if it can.
	Fault string
}

// InForce is a selection that is in force.
type InForce struct {
	Profile string
	// Origin is Wanted's, as it was; empty for a selection that a user made on the
	// node.
	Origin string
	// Boot is the one in which it was last applied.
	Boot string
}

// Action is what an agent does.
type Action string

// The actions.
const (
	// Leave leaves everything as it is.
	Leave Action = "leave"
	// Apply switches to what is wanted.
	Apply Action = "apply"
	// Again applies what is in force as it was accepted: a boot has begun since.
	Again Action = "again"
	// Restore gives the node back what it had.
	Restore Action = "restore"
)

// Decision is the next step.
type Decision struct {
	Action Action
	// Waits reports whether what is wanted waits for the next boot.
	Waits bool
	// Why says what is in the way of what is wanted; empty for nothing.
	Why string
}

// selectedLocally is why a node with a selection of its own is left alone.
const selectedLocally = "a profile was selected on the node itself, and stays: fettle undo there gives the node to the cluster"

// Decide returns the next step. It is a pure function.
//
// What is deferred waits for a boot: the first decision of a boot applies whatever is
// wanted, because nothing runs yet on what was there before it; so an agent that is
// started anew within a boot applies nothing that waited before. What is removed goes
// at once, deferred or not.
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
