// Package control is the controller of MachineHealthChecks in the operator: it writes
// what internal/kube/health decides into their status, and deletes the machine that is
// to be made anew.
//
// Nothing is remembered. What has been begun is seen from the objects: a machine that is
// being deleted counts, whoever has deleted it, so that an operator that was killed
// between two steps deletes no more than one that was not. Decisions are made from
// caches; before a machine is deleted the decision is made once more, from what the API
// server itself says, and the name of the machine is written into the status of the
// check as it was read before that. Of two operators that take each other for gone one
// fails at that, and deletes nothing.
package control

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	ctrl "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"fettle.dev/fettle/internal/kube/health/around"
	"fettle.dev/fettle/internal/kube/machine"
)

// Options are how the controller works.
type Options struct {
	// Namespace is that of the machines and their checks.
	Namespace string
	// Adopt acts though another controller is at work on the same machines.
	Adopt bool
	// ControlPlane allows that machines of the control plane are remediated.
	ControlPlane bool
	Log          logr.Logger
}

const (
	// Name is the controller's as who says an event and writes a status.
	Name = "fettle-operator"

	// recheck is how often is looked what else is at work: that begins and ends without
	// an event that would be seen here. Before a machine is deleted it is looked again.
	recheck = time.Minute

	// theLook is the item of the queue that stands for that look; no check has this name.
	theLook = "/"
)

// controller is one that runs. All its work is done by one goroutine.
type controller struct {
	Options
	client client.Client // reads from caches, whose objects are shared: copy before you change one
	api    client.Reader
	cache  cache.Cache
	reader *around.Reader
	events record.EventRecorder
	now    func() time.Time

	queue   ctrl.TypedController[string]
	items   workqueue.TypedRateLimitingInterface[string]
	watched bool
	told    string // why nothing is watched, as it was last logged
	taken   string // from whom checks were taken over at the last look
	found   *around.Found
	spread  *around.Found // what all checks have been decided with
}

// Scheme has the kinds that are read and written.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{core.AddToScheme, machine.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // two types of one name: a mistake of this program
		}
	}
	return s
}

// Add makes the controller a part of a manager. It does nothing, and costs next to
// nothing, in a cluster without OpenShift's machines, and where the account may not read
// them.
func Add(m manager.Manager, o Options) error {
	shared := true
	// Caches of its own: they have what this controller needs, and only where there are
	// machines.
	own, err := cluster.New(m.GetConfig(), func(c *cluster.Options) {
		c.Scheme, c.Logger = Scheme(), o.Log
		c.Cache = cache.Options{
			// Not by their kinds, of which it would be asked whether they are namespaced: a
			// cluster may not have them.
			DefaultNamespaces:            map[string]cache.Config{o.Namespace: {}},
			DefaultTransform:             lean,
			DefaultUnsafeDisableDeepCopy: &shared,
		}
	})
	if err != nil {
		return err
	}
	if err := m.Add(own); err != nil {
		return err
	}
	c := &controller{
		Options: o, client: own.GetClient(), api: own.GetAPIReader(), cache: own.GetCache(), events: own.GetEventRecorderFor(Name), now: time.Now,
		reader: &around.Reader{API: own.GetAPIReader(), Mapper: own.GetRESTMapper(), Namespace: o.Namespace},
	}
	c.queue, err = ctrl.NewTyped("machine health", m, ctrl.TypedOptions[string]{
		MaxConcurrentReconciles: 1,
		Reconciler: reconcile.TypedFunc[string](func(ctx context.Context, item string) (reconcile.Result, error) {
			if item == theLook {
				return c.look(ctx)
			}
			return c.check(ctx, item)
		}),
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, 30*time.Second),
	})
	if err != nil {
		return err
	}
	return c.queue.Watch(source.TypedFunc[string](func(_ context.Context, q workqueue.TypedRateLimitingInterface[string]) error {
		// Before the queue is worked at.
		c.items = q
		q.Add(theLook)
		return nil
	}))
}
