package operator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"fettle.dev/fettle/internal/resident"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/kubelet"
	"fettle.dev/fettle/kube/tuned"
)

// Options of an operator.
type Options struct {
	// Namespace is the namespace of the Tuned and Profile objects, and of the lease.
	Namespace string
	Recommend tuned.Options
	// Default is the operator's own Tuned object. It is created if missing. Changes by others are
	// reverted, except managementState.
	Default *tuned.Tuned
	// Adopt takes over objects that another controller owns.
	Adopt   bool
	Metrics cluster.Options
	// HealthAddress is host:port; "0" for none.
	HealthAddress string
	// Elect makes only one of several operators act at a time. Lease is how long the others wait
	// for an unresponsive leader; 0 means DefaultLease.
	Elect bool
	Lease time.Duration
	Log   logr.Logger
	// Parts are further controllers in the same process.
	Parts []Part
}

// Part is a further controller. It shares the lease and the caches, above all the node cache
// (kube/cluster).
type Part struct {
	AddToScheme func(*runtime.Scheme) error
	// Add adds the part to the manager. The part calls worked after each piece of work that uses
	// memory; the process releases memory when idle.
	Add func(m manager.Manager, worked func()) error
}

const (
	// Name is the operator's field manager, source of events and holder of the lease.
	Name = "fettle-operator"
	// DefaultLease is longer than an API server's restart, which would otherwise restart the
	// operator. A late takeover is harmless, because nodes keep their settings.
	DefaultLease = 90 * time.Second

	// A changed rule or label can mean one write per node. The client's default limit, 20 per
	// second, would take half a minute for 500 nodes. API servers protect themselves (API priority
	// and fairness), so there is no rate limit here. The constant writers limits concurrent
	// requests.
	noLimit = -1 // of requests a second
	writers = 16

	// recheck is the interval of checks for another controller and for OpenShift's pools.
	recheck = time.Minute

	// quiet and seldom decide when the operator releases memory: after an idle time of quiet, at
	// most once per seldom.
	quiet, seldom = 5 * time.Second, 2 * time.Minute
)

// operator is a running operator.
type operator struct {
	Options
	client  client.Client // reads from the caches, whose objects are shared: copy before you change one
	api     client.Reader
	cache   cache.Cache
	mapper  meta.RESTMapper
	events  record.EventRecorder
	tally   *tally
	sleeper resident.Sleeper
	inForce atomic.Pointer[situation]

	objectsQueue controller.TypedController[string]
	poolsWatched bool // by the one goroutine of the objects

	mu    sync.Mutex
	nodes workqueue.TypedRateLimitingInterface[string] // nil before the queue is there
}

// situation is the state that applies to all nodes.
type situation struct {
	rules *tuned.Rules
	// inputs is a fingerprint of everything from which rules and reportOnly were computed.
	inputs string
	// reportOnly names the controller for which the operator only reports, or "".
	reportOnly string
}

// Run runs an operator until ctx ends. It returns an error if it cannot start, or loses its
// lease.
func Run(ctx context.Context, config *rest.Config, o Options) error {
	log.SetLogger(o.Log)
	config = rest.CopyConfig(config)
	config.QPS = noLimit
	if o.Lease == 0 {
		o.Lease = DefaultLease
	}
	renew, retry := o.Lease*5/6, o.Lease/18
	shared := true
	scheme := Scheme()
	for _, p := range o.Parts {
		if err := p.AddToScheme(scheme); err != nil {
			return err
		}
	}
	m, err := manager.New(config, manager.Options{
		Scheme: scheme,
		Logger: o.Log,
		Cache: cache.Options{
			ByObject: map[client.Object]cache.ByObject{
				&tuned.Tuned{}:   {Namespaces: map[string]cache.Config{o.Namespace: {}}},
				&tuned.Profile{}: {Namespaces: map[string]cache.Config{o.Namespace: {}}},
				&corev1.Node{}:   cluster.ByObject(kubelet.SettingsAnnotation),
			},
			DefaultTransform:             lean,
			DefaultUnsafeDisableDeepCopy: &shared,
		},
		LeaderElection:                o.Elect,
		LeaderElectionID:              Name,
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionReleaseOnCancel: true, // the program ends afterwards
		LeaseDuration:                 &o.Lease,
		RenewDeadline:                 &renew,
		RetryPeriod:                   &retry,
		Metrics:                       o.Metrics.Server(),
		HealthProbeBindAddress:        o.HealthAddress,
	})
	if meta.IsNoMatchError(err) { // of the kinds that the cache is told of
		return fmt.Errorf("%w (%w)", ErrNotServed, err)
	}
	if err != nil {
		return err
	}
	op := &operator{
		Options: o, client: m.GetClient(), api: m.GetAPIReader(), cache: m.GetCache(), mapper: m.GetRESTMapper(),
		events: m.GetEventRecorderFor(Name), //nolint:staticcheck // events of events.k8s.io need other rights
	}
	op.tally = newTally(func() []tuned.Profile {
		var all tuned.ProfileList
		if err := op.client.List(context.Background(), &all); err != nil {
			return nil // the caches are not there yet
		}
		return all.Items
	})
	if err := metrics.Registry.Register(op.tally); err != nil {
		return err
	}
	if err := op.served(); err != nil {
		return err
	}
	if err := op.watch(m); err != nil {
		return err
	}
	for _, p := range o.Parts {
		if err := p.Add(m, op.sleeper.Worked); err != nil {
			return err
		}
	}
	for _, add := range []func(string, healthz.Checker) error{m.AddHealthzCheck, m.AddReadyzCheck} {
		if err := add("ping", healthz.Ping); err != nil {
			return err
		}
	}
	op.sleeper.Worked() // release the memory that the start used, also while waiting for the lease
	go op.sleeper.Run(ctx, quiet, seldom)
	o.Log.Info("the operator starts", "namespace", o.Namespace, "adopt", o.Adopt, "pod labels", o.Recommend.PodLabels, "lease", o.Lease)
	return m.Start(ctx)
}

// Scheme returns a scheme with the kinds that are read and written.
func Scheme() *runtime.Scheme {
	return cluster.Scheme(corev1.AddToScheme, coordinationv1.AddToScheme, tuned.AddToScheme)
}

// ErrNotServed means that the cluster does not have the kinds Tuned and Profile.
var ErrNotServed = errors.New("the cluster has no Tuned and Profile of tuned.openshift.io/v1")

// served returns an error if the API server does not have the kinds.
func (o *operator) served() error {
	err := cluster.Served(o.mapper, tuned.GroupVersion.WithKind("Tuned"), tuned.GroupVersion.WithKind("Profile"))
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("%w (%w)", ErrNotServed, err)
	}
	return err
}

// pools returns the MachineConfigPools, once the cluster has that kind.
func (o *operator) pools(ctx context.Context) ([]tuned.Pool, error) {
	if !o.poolsWatched {
		err := cluster.Served(o.mapper, kubelet.MachineConfigPool)
		if meta.IsNoMatchError(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if err := o.watchPools(); err != nil {
			return nil, err
		}
		o.poolsWatched = true
	}
	var all unstructured.UnstructuredList
	all.SetGroupVersionKind(kubelet.MachineConfigPool)
	if err := o.cache.List(ctx, &all); err != nil {
		return nil, err
	}
	return Pools(all.Items), nil
}
