package operator

import (
	"context"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// leaseLasts is how long a lease lasts that does not say it: the kubelet's default
// (nodeLeaseDurationSeconds).
const leaseLasts = 40 * time.Second

// leaseOf says how long ago the lease of a node was renewed, and how long one lasts. A
// node without one has an age of 0.
func leaseOf(ctx context.Context, api client.Reader, node string, now time.Time) (age, lasts time.Duration, err error) {
	var l coordination.Lease
	err = api.Get(ctx, client.ObjectKey{Namespace: core.NamespaceNodeLease, Name: node}, &l)
	if apierrors.IsNotFound(err) || err == nil && l.Spec.RenewTime == nil {
		return 0, leaseLasts, nil
	}
	if err != nil {
		return 0, 0, err
	}
	lasts = leaseLasts
	if s := l.Spec.LeaseDurationSeconds; s != nil && *s > 0 {
		lasts = time.Duration(*s) * time.Second
	}
	return now.Sub(l.Spec.RenewTime.Time), lasts, nil
}
