// visit is the whole of a change of one node's kubelet: cordon, drain where it
// takes one, the transaction on the node, uncordon. It may end at any point: the next
// visit goes on from there, or takes back.

package node

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/kubelet"
)

// Drained is the step of a visit before the transaction, in the words of a report.
const Drained Step = "drain the node"

// Visit is a node and what the API server has of it.
type Visit struct {
	Node *Node
	API  *cluster.Node
}

// Run makes the node's kubelet run with what is wanted. The error is of what could not
// be begun: then the node is as before. A node whose kubelet runs neither with the new
// nor with its former settings (node.Incomplete) stays cordoned.
func (v *Visit) Run(ctx context.Context, want kubelet.Want) (*Report, error) {
	r, err := v.Node.Recover(ctx)
	if err != nil || r != nil && r.Result == Incomplete {
		return r, err
	}
	p, err := v.Node.Plan(ctx, want, -1)
	if err != nil {
		return nil, v.back(ctx, err)
	}
	if p.Settled {
		if r == nil || r.Digest != want.Digest {
			r = &Report{Result: Unchanged, Digest: want.Digest, Has: p.Has}
		}
		return r, v.back(ctx, nil)
	}
	if p.Change.Class == kubelet.Reboot {
		return nil, v.back(ctx, reboot(p))
	}
	if err := v.API.Cordon(ctx, "kubelet settings "+want.Digest+": "+strings.Join(p.Change.Settings, ", ")); err != nil {
		return nil, v.back(ctx, err)
	}
	drained := p.Change.Class == kubelet.Drain
	if drained {
		if err := v.API.Drain(ctx); err != nil {
			return &Report{Result: RolledBack, Digest: want.Digest, Has: p.Has, Settings: p.Change.Settings, Step: Drained, Error: err.Error()}, v.back(ctx, nil)
		}
	}
	pods, err := v.API.Pods(ctx)
	if err != nil {
		return nil, v.back(ctx, err)
	}
	r, err = v.Node.Apply(ctx, want, len(pods), drained)
	if r != nil && r.Result == Incomplete {
		return r, err
	}
	return r, v.back(ctx, err)
}

func reboot(p *Plan) error {
	return fmt.Errorf("%w: it takes a reboot, which is not fettle's to do: %s", ErrRefused, p.Change.Why)
}

// Check says what Run would refuse now (node.ErrRefused); nil for nothing. It reads only.
func (v *Visit) Check(ctx context.Context, want kubelet.Want) error {
	p, err := v.Node.Plan(ctx, want, -1)
	if err != nil || p.Settled {
		return err
	}
	if p.Change.Class == kubelet.Reboot {
		return reboot(p)
	}
	pods, err := v.API.Pods(ctx)
	if err != nil {
		return err
	}
	if p.Change.Class == kubelet.Drain {
		pods = cluster.Sort(pods).Stay
	}
	_, err = v.Node.Plan(ctx, want, len(pods))
	return err
}

// Recover finishes or takes back, on the node, what a former process has begun; nil
// where there is nothing. It asks the API server only what the kubelet is held to, and
// leaves the cordon to Run and Uncordon.
func (v *Visit) Recover(ctx context.Context) (*Report, error) { return v.Node.Recover(ctx) }

// Has names the settings that fettle has given the node's kubelet; "" for none.
func (v *Visit) Has() (string, error) { return v.Node.Has() }

// Uncordon lets pods come to the node again, where a visit that was cut off has kept
// them away.
func (v *Visit) Uncordon(ctx context.Context) error { return v.API.Uncordon(ctx) }

// back lets pods come to the node again, where a visit has kept them away.
func (v *Visit) back(ctx context.Context, err error) error {
	return errors.Join(err, v.API.Uncordon(context.WithoutCancel(ctx)))
}
