package kubeletoperator

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fettle.dev/fettle/internal/kube/kubeletconfig"
)

// write writes what is to be. Slots come last: a pool says that it is under way before
// the first of its nodes begins.
func (r *roller) write(ctx context.Context, c Cluster, p Plan) error {
	had := map[string]*kubeletconfig.NodeKubelet{}
	for i := range c.Kubelets {
		had[c.Kubelets[i].Name] = &c.Kubelets[i]
	}
	err := errors.Join(
		each(p.Remove, "deleting", func(k *kubeletconfig.NodeKubelet) error {
			return client.IgnoreNotFound(r.client.Delete(ctx, k, client.Preconditions{UID: &k.UID, ResourceVersion: &k.ResourceVersion}))
		}),
		each(p.Make, "making", func(k *kubeletconfig.NodeKubelet) error {
			return client.IgnoreAlreadyExists(r.client.Create(ctx, k, client.FieldOwner(FieldManager))) // the cache lags behind
		}),
		each(p.Move, "moving", func(k *kubeletconfig.NodeKubelet) error { return r.patch(ctx, had[k.Name], k) }),
		r.writeStatus(ctx, c, p),
	)
	if err != nil {
		return err
	}
	return each(p.Begin, "telling", func(k *kubeletconfig.NodeKubelet) error {
		r.told[k.Name] = turn{k.UID, k.Spec.Turn}
		switch err := r.patch(ctx, had[k.Name], k); {
		case apierrors.IsConflict(err):
			delete(r.told, k.Name)
			return err
		case err != nil:
			r.told = nil // whether it was written is not known: all are read anew
			return err
		}
		r.Log.Info("a node is told to change its kubelet", "node", k.Name, "pool", k.Spec.Pool, "settings", k.Spec.Digest, "turn", k.Spec.Turn)
		return nil
	})
}

// patch writes what differs, for the version that was read.
func (r *roller) patch(ctx context.Context, from, to *kubeletconfig.NodeKubelet) error {
	return r.client.Patch(ctx, to, client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldManager))
}

// each does something with all objects up to the first failure. A conflict is none: there
// is a newer version, which is a reason to look again.
func each(all []kubeletconfig.NodeKubelet, verb string, do func(*kubeletconfig.NodeKubelet) error) error {
	for i := range all {
		if err := do(&all[i]); err != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("%s NodeKubelet %s: %w", verb, all[i].Name, err)
		}
	}
	return nil
}

// writeStatus writes the status of the objects that have another one. Those of KubeletConfig
// objects are left alone where another controller writes them.
func (r *roller) writeStatus(ctx context.Context, c Cluster, p Plan) error {
	var wrong []error
	for i := range p.Pools {
		now, was := &p.Pools[i], find(c.Pools, p.Pools[i].Name, func(o *kubeletconfig.KubeletPool) string { return o.Name })
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
		now, was := &p.Configs[i], find(c.Configs, p.Configs[i].Name, func(o *kubeletconfig.KubeletConfig) string { return o.Name })
		if c.ReportOnly != "" || equality.Semantic.DeepEqual(now.Status, was.Status) {
			continue
		}
		if err := r.client.Status().Patch(ctx, now, client.MergeFrom(was), client.FieldOwner(FieldManager)); client.IgnoreNotFound(err) != nil {
			wrong = append(wrong, fmt.Errorf("status of KubeletConfig %s: %w", now.Name, err))
		}
	}
	return errors.Join(wrong...)
}

// tell logs the conditions of a pool that have become others.
func (r *roller) tell(was, now *kubeletconfig.KubeletPool) {
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
