package scale

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"fettle.dev/fettle/kube/machine"
)

// LeaseTime is how long the lease of a scale that was killed keeps others away, and
// remediation waiting.
const LeaseTime = time.Minute

var (
	// ErrBusy means that another process scales.
	ErrBusy = errors.New("machine sets are being scaled already")
	// ErrLease means that the lease is not of a scale, or damaged.
	ErrLease = errors.New("the lease cannot be gone by")
	// ErrLost means that another process has taken the lease.
	ErrLost = errors.New("the lease of this scale is lost")
)

// Hold takes the lease machine.ScaleLease, which keeps others from scaling, and
// remediation waiting, and renews it until release is called. The context that it
// returns ends with ErrLost when the lease cannot be kept.
func Hold(ctx context.Context, api kubernetes.Interface, namespace, who, what string) (held context.Context, release func() error, err error) {
	leases := api.CoordinationV1().Leases(namespace)
	seconds := int32(LeaseTime / time.Second)
	fill := func(l *coordination.Lease) {
		now := meta.NowMicro()
		if l.Annotations == nil {
			l.Annotations = map[string]string{}
		}
		l.Annotations[machine.ScaleAnnotation] = what
		l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime, l.Spec.AcquireTime = &who, &seconds, &now, &now
	}
	l, err := leases.Get(ctx, machine.ScaleLease, meta.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		l = &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: machine.ScaleLease, Namespace: namespace}}
		fill(l)
		l, err = leases.Create(ctx, l, meta.CreateOptions{})
	case err == nil:
		if err := busy(l); err != nil {
			return nil, nil, err
		}
		fill(l)
		l, err = leases.Update(ctx, l, meta.UpdateOptions{})
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		return nil, nil, fmt.Errorf("%w: another process was first", ErrBusy)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("the lease %s/%s: %w", namespace, machine.ScaleLease, err)
	}
	held, lose := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		renewed := time.Now()
		for {
			select {
			case <-held.Done():
				return
			case <-time.After(LeaseTime / 4):
			}
			next := l.DeepCopy()
			now := meta.NowMicro()
			next.Spec.RenewTime = &now
			switch n, err := leases.Update(held, next, meta.UpdateOptions{}); {
			case err == nil:
				l, renewed = n, time.Now()
			case apierrors.IsConflict(err), apierrors.IsNotFound(err), time.Since(renewed) > LeaseTime*3/4:
				lose(fmt.Errorf("%w: %w", ErrLost, err))
				return
			}
		}
	}()
	return held, func() error {
		lose(nil)
		<-done
		// Also where ctx has ended.
		back, cancel := context.WithTimeout(context.WithoutCancel(ctx), settling)
		defer cancel()
		free := l.DeepCopy()
		free.Spec.HolderIdentity = nil
		_, err := leases.Update(back, free, meta.UpdateOptions{})
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return nil // another process holds it now
		}
		return err
	}, nil
}

// Free returns ErrBusy if another process scales. A lease that cannot be read is reported
// when it is to be held.
func Free(ctx context.Context, api kubernetes.Interface, namespace string) error {
	l, err := api.CoordinationV1().Leases(namespace).Get(ctx, machine.ScaleLease, meta.GetOptions{})
	if err != nil {
		return nil
	}
	return busy(l)
}

// busy returns who holds a lease, nil if it is free. A lease with a holder and without an end,
// or with an end later than any scale's, is ErrLease: it is unknown whether it is held.
func busy(l *coordination.Lease) error {
	if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" {
		return nil
	}
	by := *l.Spec.HolderIdentity
	odd := func(why string) error {
		return fmt.Errorf("%w: %s/%s is held by %s and %s; if no scale is running, remove it: kubectl -n %s delete lease %s", ErrLease, l.Namespace, l.Name, by, why, l.Namespace, l.Name)
	}
	if l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil {
		return odd("does not say until when (spec.renewTime, spec.leaseDurationSeconds)")
	}
	until := l.Spec.RenewTime.Add(time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second)
	left := time.Until(until)
	what, ours := l.Annotations[machine.ScaleAnnotation]
	switch {
	case left <= 0:
		return nil
	case left > most:
		return odd("says that it is until " + until.Local().Format(time.DateTime) + ", and a scale's is for " + LeaseTime.String())
	case !ours:
		what = "it does not say what"
	}
	return fmt.Errorf("%w, by %s (%s); if it was killed, its lease ends at %s", ErrBusy, by, what, until.Local().Format(time.TimeOnly))
}

// most is for how long a lease of a scale is held at the most, with clocks that differ.
const most = 10 * LeaseTime
