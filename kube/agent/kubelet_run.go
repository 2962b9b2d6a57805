package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/kubelet"
	"fettle.dev/fettle/kube/kubelet/node"
)

// Visitor changes the kubelet of a node; Machine implements it.
type Visitor interface {
	Recover(context.Context) (*node.Report, error)
	Check(context.Context, kubelet.Want) error
	Run(context.Context, kubelet.Want) (*node.Report, error)
	Uncordon(context.Context) error
	Has() (string, error)
	// Mark records on the Node object which fettle settings the kubelet has; "" means none.
	Mark(ctx context.Context, has string) error
}

// KubeletOptions configure the kubelet part of an agent.
type KubeletOptions struct {
	// Node is the node's name.
	Node    string
	Visitor Visitor
	// Client accesses the API server without caching.
	Client client.WithWatch
	// Interval is the time between two checks while the object does not change.
	Interval time.Duration
	Log      *slog.Logger
}

// FieldManager is the field manager of the agent's writes.
const FieldManager = "kubectl-fettle-agent"

// RunKubelet carries out the node's NodeKubelet object until ctx ends. It then rolls back a change
// in progress, and the next process carries out that turn.
func RunKubelet(ctx context.Context, o KubeletOptions) error {
	a := &agent{KubeletOptions: o, began: true, cordoned: true}
	changed := make(chan struct{}, 1)
	go a.follow(ctx, func() {
		select {
		case changed <- struct{}{}:
		default: // a check is already pending
		}
	})
	said, retry := "", firstRetry
	for {
		wait := o.Interval
		if err := a.look(ctx); err != nil && ctx.Err() == nil {
			if text := err.Error(); text != said {
				said = text
				o.Log.Warn("retrying the kubelet's settings", "error", err)
			}
			wait, retry = retry, min(2*retry, o.Interval)
		} else {
			said, retry = "", firstRetry
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// agent is the running kubelet part of an agent.
type agent struct {
	KubeletOptions
	// began reports whether an earlier process may have left an unfinished change.
	began bool
	// ended is that change's result until it is reported.
	ended *node.Report
	// cordoned reports whether the agent may have left the node cordoned.
	cordoned bool
	// marked is the value last written to the Node object; nil before the first write.
	marked *string
}

// mark records on the Node object which fettle settings the kubelet has.
func (a *agent) mark(ctx context.Context) error {
	has, err := a.Visitor.Has()
	if err != nil || a.marked != nil && *a.marked == has {
		return err
	}
	if err := a.Visitor.Mark(ctx, has); err != nil {
		return fmt.Errorf("the node's annotation %s: %w", kubelet.SettingsAnnotation, err)
	}
	a.marked = &has
	return nil
}

// look checks the node and its object once, and carries out due actions.
func (a *agent) look(ctx context.Context) error {
	left := a.recover(ctx)
	unmarked := a.mark(ctx)
	err := a.follows(ctx, left)
	return errors.Join(err, unmarked)
}

// follows carries out the node's object. left is why an earlier process's change is still
// unfinished, or nil.
func (a *agent) follows(ctx context.Context, left error) error {
	var k kubelet.NodeKubelet
	switch err := a.Client.Get(ctx, client.ObjectKey{Name: a.Node}, &k); {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return left // nothing is requested
	case err != nil:
		return errors.Join(left, err)
	case left != nil:
		return a.waits(ctx, &k, left)
	}
	if k.Changing() {
		return a.turn(ctx, &k)
	}
	has, err := a.Visitor.Has()
	if err != nil {
		return err
	}
	status := k.Status
	status.Waiting = ""
	switch {
	case a.ended != nil:
		status = recovered(k.Status, a.ended, has)
	case status.Phase == kubelet.ConditionBlocked && a.free(ctx, k.Spec):
		status.Phase, status.Message = kubelet.Settled, ""
	case status.Phase == "":
		status.Phase = kubelet.Settled
	}
	status.Has = has // report the real state: the machine may have been reinstalled under the same name
	if err := a.report(ctx, &k, status); err != nil {
		return err
	}
	a.ended = nil
	if a.cordoned && status.Phase != kubelet.ConditionBroken {
		if err := a.Visitor.Uncordon(ctx); err != nil {
			return err
		}
		a.cordoned = false
	}
	return nil
}

// recover finishes or rolls back an unfinished change; on failure look retries it.
func (a *agent) recover(ctx context.Context) error {
	if !a.began {
		return nil
	}
	r, err := a.Visitor.Recover(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	if r != nil {
		a.Log.Info("recovered an interrupted change of the kubelet", "result", r.Result, "settings", r.Digest, "error", r.Error)
		a.ended, a.cordoned = r, true
	}
	a.began = r != nil && r.Result == node.Incomplete // look retries it
	return nil
}

// free reports whether a node that could not take its change can take it now.
func (a *agent) free(ctx context.Context, s kubelet.NodeKubeletSpec) bool {
	want, err := wantOf(s)
	return err == nil && a.Visitor.Check(ctx, want) == nil
}

// turn carries out the node's turn and reports the result.
func (a *agent) turn(ctx context.Context, k *kubelet.NodeKubelet) error {
	want, err := wantOf(k.Spec)
	var r *node.Report
	if err == nil {
		a.Log.Info("the kubelet gets new settings", "settings", want.Digest, "of", want.Configs)
		r, err = a.Visitor.Run(ctx, want)
	}
	switch {
	case ctx.Err() != nil && (r == nil || r.Result == node.RolledBack):
		return ctx.Err() // the end of this agent caused the rollback; the next agent carries out the turn
	case err != nil && !final(err):
		return a.waits(ctx, k, err)
	}
	a.ended, a.began = nil, r != nil && r.Result == node.Incomplete
	a.cordoned = a.began || err != nil
	has, e := a.Visitor.Has()
	if e != nil {
		return e
	}
	status := answer(k.Spec, r, err, has)
	// Mark first: when the status reports no settings, the mark is already gone.
	unmarked := a.mark(context.WithoutCancel(ctx))
	a.Log.Info("the kubelet's settings", "phase", status.Phase, "has", has, "step", status.Step, "message", status.Message)
	return errors.Join(a.report(context.WithoutCancel(ctx), k, status), unmarked)
}

// waits writes why to the object's status (Waiting) and returns it, so that RunKubelet retries.
func (a *agent) waits(ctx context.Context, k *kubelet.NodeKubelet, why error) error {
	status := k.Status
	status.Waiting = text.Truncate(why.Error(), kubeletMaxMessage)
	return errors.Join(why, a.report(ctx, k, status))
}

// report writes the object's status if it changed.
func (a *agent) report(ctx context.Context, k *kubelet.NodeKubelet, status kubelet.NodeKubeletStatus) error {
	if equality.Semantic.DeepEqual(k.Status, status) {
		return nil
	}
	to := k.DeepCopy()
	to.Status = status
	return client.IgnoreNotFound(a.Client.Status().Patch(ctx, to, sameObject{client.MergeFrom(k), k.UID}, client.FieldOwner(FieldManager)))
}

// sameObject is a patch that the API server rejects if another object of the same name, with its
// own turns, has replaced this one.
type sameObject struct {
	client.Patch
	uid types.UID
}

func (s sameObject) Data(o client.Object) ([]byte, error) {
	text, err := s.Patch.Data(o)
	if err != nil {
		return nil, err
	}
	var body map[string]any
	if err := json.Unmarshal(text, &body); err != nil {
		return nil, err
	}
	body["metadata"] = map[string]any{"uid": s.uid}
	return json.Marshal(body)
}

// follow calls changed whenever the node's object has or may have changed, until ctx ends. If the
// cluster lacks the kind, it retries from time to time.
func (a *agent) follow(ctx context.Context, changed func()) {
	for ctx.Err() == nil {
		pause := a.Interval
		// A watch starts with the present state, so two successive watches miss nothing.
		w, err := a.Client.Watch(ctx, &kubelet.NodeKubeletList{}, client.MatchingFields{"metadata.name": a.Node})
		if err != nil {
			a.Log.Debug("cannot watch the node's NodeKubelet", "error", err)
		} else {
			for range w.ResultChan() {
				changed()
			}
			w.Stop()
			pause = firstRetry // API servers end every watch after some minutes
		}
		_ = host.Sleep(ctx, pause) // the loop ends with ctx
	}
}

// kubeletagent carries out the NodeKubelet object of its node, and reports the result in the
// object's status.
//
// It acts once per turn, when spec.turn differs from status.turn. First it finishes or rolls back
// the change of a killed process. Package node makes all changes to the node.
