package agent

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"fettle.dev/fettle/kube/kubelet"
)

// follow calls changed each time that the node's object has become another one, or may
// have, until ctx ends. A cluster that does not have such objects is asked again now and
// then.
func (a *agent) follow(ctx context.Context, changed func()) {
	for ctx.Err() == nil {
		pause := a.Interval
		// A watch begins with what is there: nothing is missed between two.
		w, err := a.Client.Watch(ctx, &kubelet.NodeKubeletList{}, client.MatchingFields{"metadata.name": a.Node})
		if err != nil {
			a.Log.Debug("the NodeKubelet of the node cannot be watched", "error", err)
		} else {
			for range w.ResultChan() {
				changed()
			}
			w.Stop()
			pause = kubeletFirstRetry // API servers end each watch after some minutes
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}
