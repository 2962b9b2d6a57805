// kubeletagent carries out on its node what the node's NodeKubelet object says of
// the kubelet, and answers in the object's status what became of it.
//
// It acts when it has its turn (spec.turn is not status.turn), and once for each. What a
// process before it has begun, which was killed, it finishes or takes back first. All
// that is done to the node is done by package visit.

package agent
