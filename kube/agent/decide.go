package agent

import "fettle.dev/fettle/kube/tuned"

// Situation is the input of Decide: the node's state and its request.
type Situation struct {
	// Boot is the ID of the current boot. Decided is the ID of the boot in which the agent last
	// carried out a decision about its Profile object; "" if it never did.
	Boot, Decided string
	// Heard reports whether the API server has answered; otherwise Wanted is unknown.
	Heard bool
	// Wanted is the profile that the cluster requests for the node, or nil.
	Wanted *Wanted
	// InForce is the selection in force in the node's journal, or nil.
	InForce *InForce
}

// Wanted is the request in a node's Profile object.
type Wanted struct {
	Profile string
	// Origin is a hash of the profile's name, its texts and the included fettle profiles. Equal
	// requests have equal origins.
	Origin   string
	Deferred tuned.DeferMode
	// Fault is why the profile cannot be applied; "" if it can.
	Fault string
}

// InForce is the selection in force on a node.
type InForce struct {
	Profile string
	// Origin is the applied Wanted.Origin; "" for a selection that a user made on the node.
	Origin string
	// Boot is the boot in which the selection was last applied.
	Boot string
}

// Action is the agent's action after a decision.
type Action string

// Actions of the agent.
const (
	// Leave changes nothing.
	Leave Action = "leave"
	// Apply switches to the requested profile.
	Apply Action = "apply"
	// Again reapplies the selection in force, in its accepted form, after a boot.
	Again Action = "again"
	// Restore sets the node's former values again.
	Restore Action = "restore"
)

// Decision is the next action and its reason.
type Decision struct {
	Action Action
	// Waits reports whether the request waits for the next boot.
	Waits bool
	// Why is the reason that the request is not applied; "" if it is.
	Why string
}

// selectedLocally is the reason to leave a node alone whose profile was selected on the node
// itself.
const selectedLocally = "a profile was selected on the node itself and stays; to let the cluster select the profile, run fettle undo on the node"

// Decide returns the agent's next action. It is a pure function.
//
// A deferred request waits for a boot: the first decision of a boot applies any request, because
// nothing depends on the old values yet. After a restart within a boot, the agent therefore keeps
// waiting. A removed profile is undone at once, even if deferred.
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
