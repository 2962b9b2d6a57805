package operator

import (
	"context"
	"errors"
	"maps"
	"time"
	"unique"

	"github.com/go-logr/logr"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrl "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/machine"
)

// control is the operator's controller of MachineHealthChecks. It writes the decisions of
// kube/machine into their status, and deletes the machine to replace.
//
// All checks are decided together, because only one machine is remediated at a time. No decision to
// delete depends on memory: any machine in deletion counts, so a restarted operator deletes no more
// machines than a continuously running one. Decisions use caches. Before a deletion, the decision
// is repeated with the API server's data, and written into the status of the checks that were read:
// first the waiting checks, then the check of the machine. If two operators act at once, one gets a
// conflict and deletes nothing.

// HealthOptions configure the controller.
type HealthOptions struct {
	// Namespaces are the namespaces of the machines and their checks.
	Namespaces []string
	// Adopt acts even if another controller handles the same machines.
	Adopt bool
	// ControlPlane allows remediation of control plane machines.
	ControlPlane bool
	Log          logr.Logger
}

const (
	// HealthName is the controller's name in events and as field manager.
	HealthName = "fettle-operator"

	// healthRecheck is the interval of checks for other controllers and pauses, which change
	// without an event here. They are also checked before each deletion.
	healthRecheck = time.Minute
)

// Items of the queue: a look for other controllers and pauses, and the decision about all
// checks.
const (
	theLook   = "look"
	theChecks = "checks"
)

// healthController is a running controller. One goroutine does all its work.
type healthController struct {
	HealthOptions
	// client writes, and reads nodes from the process's cache.
	client client.Client
	// api reads from the API server without a cache.
	api client.Reader
	// machines reads machines and checks from a cache that start creates once the kinds exist; nil
	// before. Copy cached objects before changes.
	machines client.Reader
	start    func() (cache.Cache, error)
	kept     cache.Cache
	nodes    cache.Cache
	reader   *machine.Reader
	events   record.EventRecorder
	now      func() time.Time
	tally    *healthTally
	worked   func()

	queue  ctrl.TypedController[string]
	items  workqueue.TypedRateLimitingInterface[string]
	told   string            // last logged reason for watching nothing
	taken  map[string]string // rivals whose checks were taken over at the last look
	found  *machine.Found
	spread *machine.Found          // input of the last decision about all checks
	marked map[types.UID]time.Time // when machine.ExternalAnnotation was first seen
}

// HealthScheme returns a scheme with the kinds that are read and written.
func HealthScheme() *runtime.Scheme { return cluster.Scheme(core.AddToScheme, machine.AddToScheme) }

// AddHealth adds the controller to a manager whose scheme has the kinds of package machine. It
// reads nodes from the manager's cache. Without OpenShift's machines, or the right to read them, it
// does almost nothing. It calls worked after each piece of work.
func AddHealth(m manager.Manager, worked func(), o HealthOptions) error {
	c := &healthController{
		HealthOptions: o, client: m.GetClient(), api: m.GetAPIReader(), nodes: m.GetCache(), events: m.GetEventRecorderFor(HealthName), now: time.Now, //nolint:staticcheck // as the operator
		reader: &machine.Reader{API: m.GetAPIReader(), Mapper: m.GetRESTMapper(), Namespaces: o.Namespaces},
		tally:  healthNewTally(), worked: worked,
		start: func() (cache.Cache, error) { return startCache(m, o.Namespaces) },
	}
	if err := metrics.Registry.Register(c.tally); err != nil {
		return err
	}
	var err error
	c.queue, err = cluster.Queue(m, "machine health", 1, func(ctx context.Context, item string) (reconcile.Result, error) {
		if item == theLook {
			return c.look(ctx)
		}
		return c.checks(ctx)
	})
	if err != nil {
		return err
	}
	return c.queue.Watch(cluster.Start(func(q workqueue.TypedRateLimitingInterface[string]) {
		c.items = q
		q.Add(theLook)
	}))
}

// look starts the watches once possible, and finds other controllers and pauses.
func (c *healthController) look(ctx context.Context) (reconcile.Result, error) {
	again := reconcile.Result{RequeueAfter: healthRecheck}
	if c.machines == nil {
		why, err := c.watch(ctx)
		if err != nil {
			return again, err
		}
		if why != c.told {
			c.told = why
			c.Log.Info("not watching MachineHealthChecks", "reason", why)
		}
		if why != "" {
			return again, nil
		}
	}
	if err := c.lookAround(ctx); err != nil {
		return again, err
	}
	if !c.found.Same(c.spread) {
		c.Log.Info("machine health", "other controllers", c.found.Rivals, "others", len(c.found.Others), "remediation waits for", c.found.Pauses)
		c.items.Add(theChecks)
		c.spread = c.found
	}
	if u := c.found.Until; !u.IsZero() {
		again.RequeueAfter = max(min(again.RequeueAfter, u.Sub(c.now())), minimum)
	}
	return again, nil
}

// lookAround reads other controllers and pauses.
func (c *healthController) lookAround(ctx context.Context) error {
	found, err := c.reader.Read(ctx, c.now())
	if err != nil {
		return err
	}
	if c.Adopt {
		for namespace, who := range found.Rivals {
			if who != c.taken[namespace] {
				c.Log.Info("taking over machine health (--adopt); stop the other controller", "other", who)
			}
		}
		c.taken, found.Rivals = found.Rivals, nil
	}
	c.found = found
	return nil
}

// watch starts the watches; why says why it does not start them, or is "".
func (c *healthController) watch(ctx context.Context) (why string, err error) {
	switch err := machine.Served(c.reader.Mapper); {
	case errors.Is(err, machine.ErrNotServed):
		return machine.ErrNotServed.Error(), nil
	case err != nil:
		return "", err
	}
	// An informer without the right to list would log errors repeatedly.
	for _, namespace := range c.Namespaces {
		for _, l := range []client.ObjectList{&machine.HealthCheckList{}, &machine.MachineList{}} {
			err := c.api.List(ctx, l, client.InNamespace(namespace), client.Limit(1))
			if apierrors.IsForbidden(err) {
				return err.Error() + " (grant it with kubectl apply -k kube/deploy/machines, or machines=true of the Helm chart)", nil
			}
			if err != nil {
				return "", err
			}
		}
	}
	if c.kept == nil {
		if c.kept, err = c.start(); err != nil {
			return "", err
		}
	}
	for _, s := range []source.TypedSource[string]{
		cluster.Kind(healthSoon, c.kept, &machine.HealthCheck{}, checkChanged),
		cluster.Kind(healthSoon, c.kept, &machine.Machine{}, machineChanged),
		cluster.Kind(healthSoon, c.nodes, &core.Node{}, nodeChanged),
	} {
		if err := c.queue.Watch(s); err != nil {
			return "", err
		}
	}
	c.machines = c.kept
	return "", nil
}

// healthSoon collects events before a decision about all checks.
var healthSoon = cluster.Into{Item: theChecks, Delay: 200 * time.Millisecond}

// checkChanged reports whether anything but the status changed.
func checkChanged(old, now *machine.HealthCheck) bool {
	return old.UID != now.UID || old.Generation != now.Generation || !maps.Equal(old.Annotations, now.Annotations)
}

func machineChanged(old, now *machine.Machine) bool {
	return old.UID != now.UID || !maps.Equal(old.Labels, now.Labels) || !maps.Equal(old.Annotations, now.Annotations) ||
		(old.DeletionTimestamp == nil) != (now.DeletionTimestamp == nil) ||
		!equality.Semantic.DeepEqual(old.OwnerReferences, now.OwnerReferences) || !equality.Semantic.DeepEqual(old.Status, now.Status)
}

func nodeChanged(old, now *core.Node) bool {
	return old.UID != now.UID || !maps.Equal(old.Labels, now.Labels) || !equality.Semantic.DeepEqual(old.Status.Conditions, now.Status.Conditions)
}

// startCache creates the cache of machines and checks, which the manager runs. It is separate from
// the manager's cache, because a manager does not start if a cluster lacks a kind. It shares the
// manager's connection, types and REST mapper.
func startCache(m manager.Manager, namespaces []string) (cache.Cache, error) {
	shared, here := true, map[string]cache.Config{}
	for _, namespace := range namespaces {
		here[namespace] = cache.Config{}
	}
	c, err := cache.New(m.GetConfig(), cache.Options{
		HTTPClient: m.GetHTTPClient(), Scheme: m.GetScheme(), Mapper: m.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{
			&machine.Machine{}: {Namespaces: here}, &machine.HealthCheck{}: {Namespaces: here},
		},
		DefaultTransform:             keep,
		DefaultUnsafeDisableDeepCopy: &shared,
	})
	if err != nil {
		return nil, err
	}
	return c, m.Add(c)
}

// keep reduces an object to its cached part. Metadata alone is not enough, because a machine's node
// and phase are in its status.
func keep(in any) (any, error) {
	switch o := in.(type) {
	case *machine.Machine:
		out := &machine.Machine{ObjectMeta: meta.ObjectMeta{
			Namespace: unique.Make(o.Namespace).Value(), Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, Labels: o.Labels,
			CreationTimestamp: o.CreationTimestamp, DeletionTimestamp: o.DeletionTimestamp,
		}}
		if owner := meta.GetControllerOfNoCopy(o); owner != nil {
			out.OwnerReferences = []meta.OwnerReference{{Kind: unique.Make(owner.Kind).Value(), Name: unique.Make(owner.Name).Value(), UID: owner.UID, Controller: owner.Controller}}
		}
		if why, ok := o.Annotations[machine.ExternalAnnotation]; ok {
			out.Annotations = map[string]string{machine.ExternalAnnotation: why}
			if f := o.ExternalMark(); f != nil {
				out.ManagedFields = []meta.ManagedFieldsEntry{*f}
			}
		}
		if n := o.Status.NodeRef; n != nil {
			out.Status.NodeRef = &core.ObjectReference{Name: n.Name}
		}
		out.Status.LastUpdated = o.Status.LastUpdated
		if p := o.Status.Phase; p != nil {
			phase := unique.Make(*p).Value()
			out.Status.Phase = &phase
		}
		return out, nil
	case *machine.HealthCheck:
		o.ManagedFields = nil
	}
	return in, nil
}
