// visit is the whole of a change of one node's kubelet: cordon, drain where it
// takes one, the transaction on the node, uncordon. It may end at any point: the next
// visit goes on from there, or takes back.

package node

import (
	"context"
	"errors"
	"strings"

	"fettle.dev/fettle/internal/engine/journal"
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

// Run makes the node's kubelet run with what is wanted. What a former process has begun is
// finished or taken back first. The error is of what could not be begun (ErrRefused,
// journal.ErrBusy): then the node is as before. A node whose kubelet runs neither with the
// new nor with its former settings (Incomplete) stays cordoned.
func (v *Visit) Run(ctx context.Context, want kubelet.Want) (*Report, error) {
	j, err := v.Node.lock()
	if err != nil {
		return nil, err
	}
	defer j.Close()
	r, err := v.Node.recover(ctx, j)
	if err != nil || r != nil && r.Result == Incomplete {
		return r, err
	}
	if r, err = v.change(ctx, j, want, r); r != nil && r.Result == Incomplete {
		return r, err
	}
	return r, errors.Join(err, v.API.Uncordon(context.WithoutCancel(ctx)))
}

// change plans, moves pods away where that is needed, and carries out. recovered is what
// became of the change before.
func (v *Visit) change(ctx context.Context, j *journal.Journal, want kubelet.Want, recovered *Report) (*Report, error) {
	if err := j.Rotate(); err != nil {
		return nil, err
	}
	p, err := v.Node.plan(ctx, j.State, want)
	if err != nil {
		return nil, err
	}
	if p.Settled {
		if recovered != nil && recovered.Digest == want.Digest {
			return recovered, nil
		}
		return &Report{Result: Unchanged, Digest: want.Digest, Has: p.Has}, nil
	}
	if err := p.noReboot(); err != nil {
		return nil, err
	}
	if err := v.API.Cordon(ctx, "kubelet settings "+want.Digest+": "+strings.Join(p.Change.Settings, ", ")); err != nil {
		return nil, err
	}
	drained := p.Change.Class == kubelet.Drain
	if drained {
		if err := v.API.Drain(ctx); err != nil {
			return &Report{Result: RolledBack, Digest: want.Digest, Has: p.Has, Settings: p.Change.Settings, Step: Drained, Error: err.Error()}, nil
		}
		// That may have taken an hour, and the kubelet's other files are not fettle's.
		if p, err = v.Node.plan(ctx, j.State, want); err != nil {
			return nil, err
		}
	}
	pods, err := v.API.Pods(ctx)
	if err != nil {
		return nil, err
	}
	return v.Node.carryOut(ctx, j, p, len(pods), drained)
}

// Check says what Run would refuse now (ErrRefused); nil for nothing. It reads only.
func (v *Visit) Check(ctx context.Context, want kubelet.Want) error {
	p, err := v.Node.Plan(ctx, want)
	if err != nil || p.Settled {
		return err
	}
	if err := p.noReboot(); err != nil {
		return err
	}
	pods, err := v.API.Pods(ctx)
	if err != nil {
		return err
	}
	if p.Change.Class == kubelet.Drain {
		pods = cluster.Sort(pods).Stay
	}
	return v.Node.allow(p, len(pods), true)
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
