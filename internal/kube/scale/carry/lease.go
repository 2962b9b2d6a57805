package carry

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"fettle.dev/fettle/internal/kube/machine"
)

// LeaseTime is how long the lease of a scale that was killed keeps others away, and
// remediation waiting.
const LeaseTime = time.Minute

var (
	// ErrBusy says that somebody else scales.
	ErrBusy = errors.New("machine sets are being scaled already")
	// ErrLost says that somebody has taken the lease away.
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
		return nil, nil, fmt.Errorf("%w: somebody else was first", ErrBusy)
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
			return nil // it is somebody else's now
		}
		return err
	}, nil
}

// Free fails with ErrBusy where somebody scales, who need not be waited for before that is
// said. What cannot be read now fails when it is to be held.
func Free(ctx context.Context, api kubernetes.Interface, namespace string) error {
	l, err := api.CoordinationV1().Leases(namespace).Get(ctx, machine.ScaleLease, meta.GetOptions{})
	if err != nil {
		return nil
	}
	return busy(l)
}

// busy says who holds a lease, if somebody does.
func busy(l *coordination.Lease) error {
	by, until := holder(l)
	if by == "" || !time.Now().Before(until) {
		return nil
	}
	return fmt.Errorf("%w, by %s (%s); if it was killed, its lease ends at %s", ErrBusy, by, l.Annotations[machine.ScaleAnnotation], until.Format(time.TimeOnly))
}

// holder is who holds a lease, and until when.
func holder(l *coordination.Lease) (who string, until time.Time) {
	if l.Spec.HolderIdentity != nil {
		who = *l.Spec.HolderIdentity
	}
	if l.Spec.RenewTime != nil && l.Spec.LeaseDurationSeconds != nil {
		until = l.Spec.RenewTime.Add(time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second)
	}
	return who, until
}
