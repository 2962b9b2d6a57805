package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/kube/tuned"
)

// An agent that ends leaves the values to the next one. Who takes the agents from the
// cluster wants the nodes as they were before. The signs are the DaemonSet of the agents or
// their namespace, which is gone or being deleted, and the node's Profile object, which is
// gone. All of fettle is deleted at once (kubectl delete -k), in any order, the agents'
// rights too: so one sign is enough, and an agent that has no right to ask any more waits
// for what its watches of the DaemonSet and of the Profile report.

// leaving is how long an agent waits for a sign, and for what it does then. A kubelet
// kills a pod after half a minute.
var leaving = 15 * time.Second

// end is the end of an agent: it restores the node where the agents are taken from the
// cluster. wanted is what the watch has of the node's Profile object, which goes on.
func (a *running) end(changed <-chan struct{}, wanted func() (heard bool, p *tuned.Profile)) {
	ctx, cancel := context.WithTimeout(context.Background(), leaving)
	defer cancel()
	for {
		if heard, p := wanted(); heard && p == nil {
			a.restore(ctx, "the node's Profile object is gone")
			return
		}
		if a.setGone != nil && a.setGone() {
			a.restore(ctx, "DaemonSet "+a.Set+" is deleted")
			return
		}
		if a.Set == "" {
			break
		}
		why, err := a.client.removed(ctx, a.Set)
		if why != "" {
			a.restore(ctx, why)
			return
		}
		if !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
			break // another agent comes, or it is unknown
		}
		select {
		case <-changed:
			continue
		case <-time.After(time.Second):
			continue
		case <-ctx.Done():
		}
		break
	}
	a.Log.Info("ended; the values stay in force")
}

// restore gives the node back what it had; another transaction on it is waited
// for until ctx ends.
func (a *running) restore(ctx context.Context, why string) {
	for {
		out := a.Node.Look(context.WithoutCancel(ctx), true, nil)
		switch {
		case out.Busy && ctx.Err() == nil:
			time.Sleep(200 * time.Millisecond)
			continue
		case out.Err != nil:
			a.Log.Error("ended; the node could not be given back what it had: fettle undo there does it", "reason", why, "error", out.Err)
		case out.Tx == 0:
			a.Log.Info("ended; nothing of the cluster's is in force", "reason", why)
		default:
			a.Log.Info("ended; the node has what it had before", "reason", why, "transaction", out.Tx)
		}
		return
	}
}

// removed says why the agents of a set are taken from the cluster; empty where they are
// not.
func (c *agentClient) removed(ctx context.Context, set string) (why string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	for _, o := range []struct{ what, path string }{
		{"namespace " + c.namespace, "/api/v1/namespaces/" + c.namespace},
		{"DaemonSet " + set, "/apis/apps/v1/namespaces/" + c.namespace + "/daemonsets/" + set},
	} {
		text, err := c.core.Get().AbsPath(o.path).Do(ctx).Raw()
		if apierrors.IsNotFound(err) {
			return o.what + " is gone", nil
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", o.what, err)
		}
		var found struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		}
		if err := json.Unmarshal(text, &found); err != nil {
			return "", fmt.Errorf("%s: %w", o.what, err)
		}
		if found.Metadata.DeletionTimestamp != nil {
			return o.what + " is being deleted", nil
		}
	}
	return "", nil
}
