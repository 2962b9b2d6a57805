// control is the controller of MachineHealthChecks in the operator: it writes
// what kube/machine decides into their status, and deletes the machine that is
// to be made anew.
//
// All checks are decided together, because over all of them one machine is remedied at a
// time. Nothing that a decision to delete depends on is remembered. What has been begun is seen from the objects: a machine
// that is being deleted counts, whoever has deleted it, so that an operator that was
// killed between two steps deletes no more than one that was not. Decisions are made
// from caches; before a machine is deleted the decision is made once more, from what the
// API server itself says, and is written into the status of the checks as they were read
// before that: of those that wait first, then of the one whose machine it is. Of two
// operators that take each other for gone one fails at that, and deletes nothing.

package operator

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	core "k8s.io/api/core/v1"
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

	"fettle.dev/fettle/kube/machine"
)

// HealthOptions are how the controller works.
type HealthOptions struct {
	// Namespaces are those of the machines and their checks.
	Namespaces []string
	// Adopt acts though another controller is at work on the same machines.
	Adopt bool
	// ControlPlane allows that machines of the control plane are remediated.
	ControlPlane bool
	Log          logr.Logger
}

const (
	// HealthName is the controller's as who says an event and writes a status.
	HealthName = "fettle-operator"

	// healthRecheck is how often is looked what else is at work: that begins and ends without
	// an event that would be seen here. Before a machine is deleted it is looked again.
	healthRecheck = time.Minute
)

// The items of the queue: a look at what else is at work, and the decision about all
// checks.
const (
	theLook   = "look"
	theChecks = "checks"
)

// healthController is one that runs. All its work is done by one goroutine.
type healthController struct {
	HealthOptions
	// client writes, and reads nodes from the cache of the process.
	client client.Client
	// api reads from the API server itself.
	api client.Reader
	// machines reads machines and checks from the cache kept, which start makes once there
	// are such kinds; nil until they are watched. Objects of caches are shared: copy before
	// you change one.
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
	told   string            // why nothing is watched, as it was last logged
	taken  map[string]string // from whom checks were taken over at the last look
	found  *machine.Found
	spread *machine.Found          // what all checks have been decided with
	marked map[types.UID]time.Time // when machine.ExternalAnnotation was first seen
}

// HealthScheme has the kinds that are read and written.
func HealthScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{core.AddToScheme, machine.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // two types of one name: a mistake of this program
		}
	}
	return s
}

// AddHealth makes the controller a part of a manager whose scheme has the kinds of machine. It
// reads nodes from the manager's cache. It does nothing, and costs next to nothing, in a
// cluster without OpenShift's machines, and where the account may not read them. worked
// is called when something has been done.
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
	c.queue, err = ctrl.NewTyped("machine health", m, ctrl.TypedOptions[string]{
		MaxConcurrentReconciles: 1,
		Reconciler: reconcile.TypedFunc[string](func(ctx context.Context, item string) (reconcile.Result, error) {
			if item == theLook {
				return c.look(ctx)
			}
			return c.checks(ctx)
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
