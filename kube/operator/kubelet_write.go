package operator

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fettle.dev/fettle/kube/kubelet"
)

// write writes the plan. Turns come last, so that a pool's status shows the rollout before its
// first node starts.
func (r *roller) write(ctx context.Context, c Cluster, p Plan) error {
	if len(p.Remove)+len(p.Make)+len(p.Move)+len(p.Begin) > 0 {
		r.worked()
	}
	had := map[string]*kubelet.NodeKubelet{}
	for i := range c.Kubelets {
		had[c.Kubelets[i].Name] = &c.Kubelets[i]
	}
	err := errors.Join(
		each(p.Remove, "deleting", func(k *kubelet.NodeKubelet) error {
			return client.IgnoreNotFound(r.client.Delete(ctx, k, client.Preconditions{UID: &k.UID, ResourceVersion: &k.ResourceVersion}))
		}),
		each(p.Make, "making", func(k *kubelet.NodeKubelet) error {
			return client.IgnoreAlreadyExists(r.client.Create(ctx, k, client.FieldOwner(FieldManager))) // the cache lags behind
		}),
		each(p.Move, "moving", func(k *kubelet.NodeKubelet) error { return r.patch(ctx, had[k.Name], k) }),
		r.writeStatus(ctx, c, p),
	)
	if err != nil {
		return err
	}
	return r.begin(ctx, p.Begin, had)
}

// begin gives nodes their turns, and records them.
func (r *roller) begin(ctx context.Context, all []kubelet.NodeKubelet, had map[string]*kubelet.NodeKubelet) error {
	for i := range all {
		r.told[all[i].Name] = turn{all[i].UID, all[i].Spec.Turn}
	}
	var wrong []error
	for i, err := range atOnce(len(all), func(i int) error { return r.patch(ctx, had[all[i].Name], &all[i]) }) {
		switch k := &all[i]; {
		case err == nil:
			r.Log.Info("requesting a kubelet change on a node", "node", k.Name, "pool", k.Spec.Pool, "settings", k.Spec.Digest, "turn", k.Spec.Turn)
		case apierrors.IsConflict(err): // nothing was written
			delete(r.told, k.Name)
		default:
			wrong = append(wrong, fmt.Errorf("cannot update NodeKubelet %s: %w", k.Name, err))
		}
	}
	if len(wrong) > 0 {
		r.told = nil // the result is unknown, so all objects are read again
	}
	return errors.Join(wrong...)
}

// patch writes the differences, if the version is unchanged since it was read.
func (r *roller) patch(ctx context.Context, from, to *kubelet.NodeKubelet) error {
	return r.client.Patch(ctx, to, client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldManager))
}

// each calls do for all objects. A conflict is not a failure, because the newer version causes
// another look.
func each(all []kubelet.NodeKubelet, verb string, do func(*kubelet.NodeKubelet) error) error {
	var wrong []error
	for i, err := range atOnce(len(all), func(i int) error { return do(&all[i]) }) {
		if err != nil && !apierrors.IsConflict(err) {
			wrong = append(wrong, fmt.Errorf("%s NodeKubelet %s: %w", verb, all[i].Name, err))
		}
	}
	return errors.Join(wrong...)
}

// atOnce calls do for each index, as many at a time as there are writers, and returns the results.
func atOnce(count int, do func(i int) error) []error {
	out := make([]error, count)
	var all sync.WaitGroup
	slots := make(chan struct{}, writers)
	for i := range count {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			out[i] = do(i)
		})
	}
	all.Wait()
	return out
}

// writeStatus writes changed statuses. It skips KubeletConfig objects that another controller
// writes.
func (r *roller) writeStatus(ctx context.Context, c Cluster, p Plan) error {
	var wrong []error
	for i := range p.Pools {
		now, was := &p.Pools[i], find(c.Pools, p.Pools[i].Name, func(o *kubelet.KubeletPool) string { return o.Name })
		if equality.Semantic.DeepEqual(now.Status, was.Status) {
			continue
		}
		if err := r.client.Status().Patch(ctx, now, client.MergeFrom(was), client.FieldOwner(FieldManager)); client.IgnoreNotFound(err) != nil {
			wrong = append(wrong, fmt.Errorf("status of KubeletPool %s: %w", now.Name, err))
			continue
		}
		r.tell(was, now)
	}
	for i := range p.Configs {
		now, was := &p.Configs[i], find(c.Configs, p.Configs[i].Name, func(o *kubelet.KubeletConfig) string { return o.Name })
		if c.ReportOnly != "" || equality.Semantic.DeepEqual(now.Status, was.Status) {
			continue
		}
		if err := r.client.Status().Patch(ctx, now, client.MergeFrom(was), client.FieldOwner(FieldManager)); client.IgnoreNotFound(err) != nil {
			wrong = append(wrong, fmt.Errorf("status of KubeletConfig %s: %w", now.Name, err))
		}
	}
	return errors.Join(wrong...)
}

// tell logs the changed conditions of a pool.
func (r *roller) tell(was, now *kubelet.KubeletPool) {
	for _, c := range now.Status.Conditions {
		if before := meta.FindStatusCondition(was.Status.Conditions, c.Type); before == nil || before.Status != c.Status || before.Reason != c.Reason {
			r.Log.Info("a pool", "pool", now.Name, "condition", c.Type, "status", c.Status, "reason", c.Reason, "message", c.Message)
		}
	}
}

func find[T any](all []T, name string, of func(*T) string) *T {
	for i := range all {
		if of(&all[i]) == name {
			return &all[i]
		}
	}
	return nil
}
