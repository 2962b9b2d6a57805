package operator

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/kubelet"
)

const (
	// FieldManager is the field manager of this controller's writes.
	FieldManager = "fettle-kubelets"

	// kubeletRecheck is the interval of checks for missing kinds, another controller, and stuck
	// nodes. hearAgain is the delay before a node with a silent kubelet is checked again.
	kubeletRecheck = time.Minute
	hearAgain      = 10 * time.Second
)

// KubeletOptions configure the controller.
type KubeletOptions struct {
	// Adopt acts even if another controller does.
	Adopt bool
	Log   logr.Logger
}

// theItem is the only item of the queue.
const theItem = "kubelets"

// roller is the controller.
type roller struct {
	KubeletOptions
	client client.Client // reads from caches, whose objects are shared
	api    client.Reader // reads from the API server
	cache  cache.Cache
	mapper meta.RESTMapper
	queue  controller.TypedController[string]
	now    func() time.Time
	tally  *kubeletTally
	worked func()
	// used reports whether there are pools or NodeKubelets.
	used atomic.Bool

	// For the one goroutine of the queue:
	watching bool
	// told has the turns that this process gave, and those from before its start. A cache may lack
	// them, and then a slot would be given twice.
	told map[string]turn
	// other is the controller that acts instead of fettle, as found at askedAt; former is the
	// previous one.
	other, former string
	askedAt       time.Time
}

// turn identifies a turn of a node's kubelet: the UID of its object, and the number of the turn.
type turn struct {
	of     types.UID
	number int64
}

// AddKubelet adds the controller to the operator's manager, whose scheme must have the kinds of
// package kubelet. It waits until the cluster has these kinds. It calls worked after each piece of
// work.
func AddKubelet(m manager.Manager, worked func(), o KubeletOptions) error {
	r := &roller{
		KubeletOptions: o, client: m.GetClient(), api: m.GetAPIReader(), cache: m.GetCache(), mapper: m.GetRESTMapper(), now: time.Now,
		tally: kubeletNewTally(), worked: worked,
	}
	if err := metrics.Registry.Register(r.tally); err != nil {
		return err
	}
	var err error
	r.queue, err = cluster.Queue(m, theItem, 1, func(ctx context.Context, _ string) (reconcile.Result, error) { return r.look(ctx) })
	if err != nil {
		return err
	}
	return r.queue.Watch(cluster.Start(func(q workqueue.TypedRateLimitingInterface[string]) { q.Add(theItem) }))
}

// served reports whether the cluster has the kinds, and watches them from then on.
func (r *roller) served() (bool, error) {
	if r.watching {
		return true, nil
	}
	err := cluster.Served(r.mapper,
		kubelet.ConfigVersion.WithKind("KubeletConfig"), kubelet.PoolVersion.WithKind("KubeletPool"), kubelet.PoolVersion.WithKind("NodeKubelet"))
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, s := range []source.TypedSource[string]{
		cluster.Kind(kubeletSoon, r.cache, &kubelet.KubeletConfig{}, func(a, b *kubelet.KubeletConfig) bool {
			return a.Generation != b.Generation || actsOn(a) != actsOn(b)
		}),
		cluster.Kind(kubeletSoon, r.cache, &kubelet.KubeletPool{}, func(a, b *kubelet.KubeletPool) bool {
			return a.Generation != b.Generation || !maps.Equal(a.Labels, b.Labels) || !maps.Equal(a.Annotations, b.Annotations)
		}),
		cluster.Kind(kubeletSoon, r.cache, &kubelet.NodeKubelet{}, func(a, b *kubelet.NodeKubelet) bool {
			return a.UID != b.UID || !equality.Semantic.DeepEqual(a.Spec, b.Spec) || !equality.Semantic.DeepEqual(a.Status, b.Status)
		}),
		cluster.Kind(kubeletSoon, r.cache, &core.Node{}, r.nodeChanged),
	} {
		if err := r.queue.Watch(s); err != nil {
			return false, err
		}
	}
	r.watching = true
	r.Log.Info("managing the kubelets of KubeletPools")
	return true, nil
}

// nodeChanged reports whether the change of a node may change a decision. A look reads all nodes, which
// takes milliseconds with thousands of them, so it does not follow each of their changes while no
// decision depends on them.
func (r *roller) nodeChanged(a, b *core.Node) bool {
	if a.UID != b.UID || a.Annotations[kubelet.SettingsAnnotation] != b.Annotations[kubelet.SettingsAnnotation] {
		return true
	}
	return r.used.Load() && (a.Spec.Unschedulable != b.Spec.Unschedulable || !maps.Equal(a.Labels, b.Labels) || !maps.Equal(conditions(a), conditions(b)) ||
		a.Status.NodeInfo.KubeletVersion != b.Status.NodeInfo.KubeletVersion)
}

func conditions(n *core.Node) map[core.NodeConditionType]core.ConditionStatus {
	out := map[core.NodeConditionType]core.ConditionStatus{}
	for _, c := range n.Status.Conditions {
		switch c.Type {
		case core.NodeReady, core.NodeDiskPressure, core.NodeNetworkUnavailable:
			out[c.Type] = c.Status
		}
	}
	return out
}

// kubeletSoon collects events before a look at all kubelets.
var kubeletSoon = cluster.Into{Item: theItem, Delay: 100 * time.Millisecond}

// look makes one decision and writes the result.
func (r *roller) look(ctx context.Context) (reconcile.Result, error) {
	ready, err := r.served()
	if err != nil || !ready {
		return reconcile.Result{RequeueAfter: kubeletRecheck}, err
	}
	c, err := r.read(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	p := Of(c)
	again := reconcile.Result{RequeueAfter: kubeletRecheck}
	for len(p.Begin) > 0 {
		silent, err := r.silent(ctx, p)
		if err != nil {
			return reconcile.Result{}, err
		}
		if len(silent) == 0 {
			break
		}
		// Other nodes may take their slots instead, and have to be checked as well.
		maps.Copy(c.Silent, silent)
		again.RequeueAfter = hearAgain
		p = Of(c)
	}
	r.tally.decided(c, p)
	return again, r.write(ctx, c, p)
}

// read reads the cluster.
func (r *roller) read(ctx context.Context) (Cluster, error) {
	c := Cluster{Silent: map[string]bool{}, Now: r.now()}
	var configs kubelet.KubeletConfigList
	var pools kubelet.KubeletPoolList
	var kubelets kubelet.NodeKubeletList
	for _, list := range []client.ObjectList{&configs, &pools, &kubelets} {
		if err := r.client.List(ctx, list); err != nil {
			return c, err
		}
	}
	r.used.Store(len(pools.Items)+len(kubelets.Items) > 0) // before the nodes, so that no change is missed
	nodes, err := cluster.All(ctx, r.client)
	if err != nil {
		return c, err
	}
	c.Configs, c.Pools, c.Nodes, c.Kubelets = configs.Items, pools.Items, nodes, kubelets.Items
	if err := r.withTold(ctx, c.Kubelets); err != nil {
		return c, err
	}
	who, err := r.rival(ctx, c.Configs)
	if err != nil {
		return c, err
	}
	if who != r.former {
		r.former = who
		r.Log.Info("checking for other controllers of KubeletConfig objects", "controller", who, "adopt", r.Adopt)
	}
	if !r.Adopt {
		c.ReportOnly = who
	}
	return c, nil
}

// rival returns the other controller that acts on KubeletConfig objects, or "". It checks the
// objects each time, and the cluster at intervals.
func (r *roller) rival(ctx context.Context, configs []kubelet.KubeletConfig) (string, error) {
	if now := r.now(); r.askedAt.IsZero() || now.Sub(r.askedAt) >= kubeletRecheck/2 {
		who, err := machineConfigOperator(ctx, r.api)
		if err != nil {
			return "", err
		}
		r.other, r.askedAt = who, now
	}
	if r.other != "" {
		return r.other, nil
	}
	for i := range configs {
		if who := actsOn(&configs[i]); who != "" {
			return who + ", which applies KubeletConfig " + configs[i].Name, nil
		}
	}
	return "", nil
}

// withTold adds turns that the cache may lack to its objects.
func (r *roller) withTold(ctx context.Context, kubelets []kubelet.NodeKubelet) error {
	if r.told == nil {
		// An earlier process may have given turns a moment ago.
		var now kubelet.NodeKubeletList
		if err := r.api.List(ctx, &now); err != nil {
			return err
		}
		r.told = map[string]turn{}
		for _, k := range now.Items {
			r.told[k.Name] = turn{k.UID, k.Spec.Turn}
		}
	}
	for i := range kubelets {
		k := &kubelets[i]
		// The list has its own copies of the objects, whose content is shared.
		switch t, ok := r.told[k.Name]; {
		case !ok:
		case t.of == k.UID && t.number > k.Spec.Turn:
			k.Spec.Turn, k.Spec.Since.Time = t.number, r.now()
		default:
			delete(r.told, k.Name)
		}
	}
	return nil
}

// silent returns the nodes to begin whose leases have expired, because a node stays Ready for a
// while after its kubelet ended. In a cluster without node leases it returns none.
func (r *roller) silent(ctx context.Context, p Plan) (map[string]bool, error) {
	ages, lasts := make([]time.Duration, len(p.Begin)), make([]time.Duration, len(p.Begin))
	now := r.now()
	err := errors.Join(atOnce(len(p.Begin), func(i int) (err error) {
		ages[i], lasts[i], err = leaseOf(ctx, r.api, p.Begin[i].Name, now)
		return err
	})...)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for i, k := range p.Begin {
		if ages[i] > lasts[i] {
			r.Log.Info("a kubelet stopped renewing its lease", "node", k.Name, "its lease was renewed", ages[i].Round(time.Second).String()+" ago")
			out[k.Name] = true
		}
	}
	return out, nil
}

// leaseLasts is the default duration of a lease: the kubelet's default
// (nodeLeaseDurationSeconds).
const leaseLasts = 40 * time.Second

// leaseOf returns the age of a node's lease, and its duration. The age is 0 for a node without a
// lease.
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

// kubeletoperator rolls out the settings of KubeletConfig objects to the nodes of KubeletPools. It
// writes each node's settings into its NodeKubelet object, for as many nodes at a time as the pool
// allows to be unavailable. It writes the progress into the pools' status.
//
// Of decides from plain values (kubelet.WantOfConfig, kubelet.Members and kubelet.Decide).
// AddKubelet adds the watches and the writes to the operator's process. Everything is one item of
// one queue, so a single goroutine counts the slots.
