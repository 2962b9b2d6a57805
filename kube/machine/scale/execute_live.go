package scale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/machine"
)

// Live implements Cluster with an API server.
type Live struct {
	API kubernetes.Interface
	// Evicting is the client for drains, with its own rate limits.
	Evicting  kubernetes.Interface
	Namespace string
	// Sets are the names of the machine sets.
	Sets []string
	// Force also evicts pods that no controller would create again.
	Force bool
}

var (
	// ErrNotServed means that the cluster does not have the kind of machine sets.
	ErrNotServed = errors.New("the cluster has no machine sets")
	// ErrNames means that named sets do not exist, or are named twice.
	ErrNames = errors.New("invalid arguments")
)

func (l *Live) path(kind string) string {
	return "/apis/" + machine.APIVersion + "/namespaces/" + l.Namespace + "/" + kind
}

// Read reads the input of a plan.
func (l *Live) Read(ctx context.Context, pods bool) (*Input, error) {
	in := &Input{}
	var sets machine.SetList
	var machines machine.MachineList
	var checks machine.HealthCheckList
	for _, list := range []struct {
		kind string
		into any
	}{{"machinesets", &sets}, {"machines", &machines}, {"machinehealthchecks", &checks}} {
		kind := list.kind
		text, err := l.API.CoreV1().RESTClient().Get().AbsPath(l.path(kind)).DoRaw(ctx)
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("%w: no %s of %s", ErrNotServed, kind, machine.APIVersion)
		}
		if apierrors.IsForbidden(err) {
			return nil, fmt.Errorf("cannot list %s of machine.openshift.io in %s; grant the permission: %w", kind, l.Namespace, refusal(text, err))
		}
		if err == nil {
			err = json.Unmarshal(text, list.into)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.path(kind), err)
		}
	}
	for _, name := range l.Sets {
		i := slices.IndexFunc(sets.Items, func(s machine.Set) bool { return s.Name == name })
		if i < 0 {
			var all []string
			for _, s := range sets.Items {
				all = append(all, s.Name)
			}
			there := "this namespace has no machine sets"
			if len(all) > 0 {
				there = "existing machine sets: " + strings.Join(all, ", ")
			}
			return nil, fmt.Errorf("%w: machine set %s not found in %s; %s", ErrNames, name, l.Namespace, there)
		}
		if slices.ContainsFunc(in.Sets, func(s machine.Set) bool { return s.Name == name }) {
			return nil, fmt.Errorf("%w: machine set %s is named twice", ErrNames, name)
		}
		in.Sets = append(in.Sets, sets.Items[i])
	}
	in.Machines, in.Checks = machines.Items, checks.Items
	nodes, err := l.API.CoreV1().Nodes().List(ctx, meta.ListOptions{})
	if err != nil {
		return nil, err
	}
	in.Nodes = nodes.Items
	if !pods {
		return in, nil
	}
	all, err := l.API.CoreV1().Pods(meta.NamespaceAll).List(ctx, meta.ListOptions{})
	if err != nil {
		return nil, err
	}
	budgets, err := l.API.PolicyV1().PodDisruptionBudgets(meta.NamespaceAll).List(ctx, meta.ListOptions{})
	if err != nil {
		return nil, err
	}
	in.Pods, in.Budgets = all.Items, budgets.Items
	return in, nil
}

// refusal returns the API server's error message for a raw request; client-go only reports
// "unknown".
func refusal(answer []byte, err error) error {
	var status meta.Status
	if json.Unmarshal(answer, &status) != nil || status.Message == "" {
		return err
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// patch changes an object of the machine API.
func (l *Live) patch(ctx context.Context, kind, name string, of types.PatchType, change any) error {
	text, err := json.Marshal(change)
	if err != nil {
		return err
	}
	return l.API.CoreV1().RESTClient().Patch(of).AbsPath(l.path(kind), name).Body(text).Do(ctx).Error()
}

// Resize sets the replicas of a set.
func (l *Live) Resize(ctx context.Context, s *machine.Set, replicas int) error {
	const at = "/spec/replicas"
	change := []map[string]any{{"op": "add", "path": at, "value": replicas}}
	if s.Spec.Replicas != nil {
		change = slices.Insert(change, 0, map[string]any{"op": "test", "path": at, "value": *s.Spec.Replicas})
	}
	err := l.patch(ctx, "machinesets", s.Name, types.JSONPatchType, change)
	if apierrors.IsInvalid(err) {
		return fmt.Errorf("another client changed the replicas: %w", err)
	}
	return err
}

// Annotate sets an annotation of a set.
func (l *Live) Annotate(ctx context.Context, s *machine.Set, name, value string) error {
	var set any = value
	if value == "" {
		set = nil
	}
	return l.patch(ctx, "machinesets", s.Name, types.MergePatchType, map[string]any{
		"metadata": map[string]any{"uid": s.UID, "annotations": map[string]any{name: set}},
	})
}

// Mark marks a machine, or removes a mark of this program.
func (l *Live) Mark(ctx context.Context, m *machine.Machine, goes bool) error {
	text, err := l.API.CoreV1().RESTClient().Get().AbsPath(l.path("machines"), m.Name).DoRaw(ctx)
	if apierrors.IsNotFound(err) && !goes {
		return nil
	}
	if err != nil {
		return err
	}
	var now machine.Machine
	if err := json.Unmarshal(text, &now); err != nil {
		return fmt.Errorf("machine %s: %w", m.Name, err)
	}
	has, marked := now.Annotations[machine.DeleteAnnotation]
	var value any
	switch {
	case now.UID != m.UID && goes:
		return fmt.Errorf("machine %s was replaced by another of the same name", m.Name)
	case now.UID != m.UID, goes && marked, !goes && has != Mine:
		return nil
	case goes:
		value = Mine
	}
	err = l.patch(ctx, "machines", m.Name, types.MergePatchType, map[string]any{
		"metadata": map[string]any{"uid": m.UID, "annotations": map[string]any{machine.DeleteAnnotation: value, machine.OldDeleteAnnotation: value}},
	})
	if apierrors.IsNotFound(err) && !goes {
		return nil
	}
	return err
}

// Cordon makes a node unschedulable.
func (l *Live) Cordon(ctx context.Context, node, why string) error {
	err := (&cluster.Node{Client: l.API, Name: node}).Cordon(ctx, why)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Uncordon reverts Cordon.
func (l *Live) Uncordon(ctx context.Context, node string) error {
	n, err := l.API.CoreV1().Nodes().Get(ctx, node, meta.GetOptions{})
	if err == nil && strings.HasPrefix(n.Annotations[cluster.Cordoned], CordonReason) {
		err = (&cluster.Node{Client: l.API, Name: node}).Uncordon(ctx)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Drain moves the pods off a node.
func (l *Live) Drain(ctx context.Context, node string, patience time.Duration) error {
	return (&cluster.Node{Client: l.Evicting, Name: node, Patience: patience, Force: l.Force}).Drain(ctx)
}

// LeaseTime is the time for which the lease of a killed process blocks scaling and remediation.
const LeaseTime = time.Minute

var (
	// ErrBusy means that another process is scaling machine sets.
	ErrBusy = errors.New("machine sets are already being scaled")
	// ErrLease means that the lease was not made for scaling, or is damaged.
	ErrLease = errors.New("invalid lease")
	// ErrLost means that another process has taken the lease.
	ErrLost = errors.New("this process has lost its lease")
)

// Hold acquires the lease machine.ScaleLease, which blocks other scaling and remediation, and
// renews it until the caller runs release. The returned context ends with ErrLost if the lease is
// lost.
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
		return nil, nil, fmt.Errorf("%w: another process has taken the lease", ErrBusy)
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
			if host.Sleep(held, LeaseTime/4) != nil {
				return
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
		// Also if ctx has ended.
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

// Free returns ErrBusy if another process is scaling. It ignores an unreadable lease, which Hold
// reports.
func Free(ctx context.Context, api kubernetes.Interface, namespace string) error {
	l, err := api.CoordinationV1().Leases(namespace).Get(ctx, machine.ScaleLease, meta.GetOptions{})
	if err != nil {
		return nil
	}
	return busy(l)
}

// busy returns an error that names a lease's holder, or nil if the lease is free. It returns
// ErrLease if the lease has a holder but no end or an implausibly late one.
func busy(l *coordination.Lease) error {
	if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" {
		return nil
	}
	by := *l.Spec.HolderIdentity
	odd := func(why string) error {
		return fmt.Errorf("%w: %s/%s is held by %s and %s; if no scaling is running, remove the lease: kubectl -n %s delete lease %s", ErrLease, l.Namespace, l.Name, by, why, l.Namespace, l.Name)
	}
	if l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil {
		return odd("has no end (spec.renewTime, spec.leaseDurationSeconds)")
	}
	until := l.Spec.RenewTime.Add(time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second)
	left := time.Until(until)
	what, ours := l.Annotations[machine.ScaleAnnotation]
	switch {
	case left <= 0:
		return nil
	case left > most:
		return odd("ends at " + until.Local().Format(time.DateTime) + ", although leases of a scaling last " + LeaseTime.String())
	case !ours:
		what = "purpose not recorded"
	}
	return fmt.Errorf("%w, by %s (%s); if that process was killed, its lease ends at %s", ErrBusy, by, what, until.Local().Format(time.TimeOnly))
}

// most is the maximum remaining time of a valid lease, which allows for differing clocks.
const most = 10 * LeaseTime
