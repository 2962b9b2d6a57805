package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"fettle.dev/fettle/internal/resident"
	"fettle.dev/fettle/kube/tuned"
)

// Options of an agent.
type Options struct {
	Node *Node
	// Config is the API server client's configuration.
	Config    *rest.Config
	Namespace string
	// Set is the DaemonSet of the agent's pod: if it is deleted, the agent restores the node's
	// former values. With "" the values stay.
	Set string
	// Interval is the time between two Looks while the object does not change.
	Interval time.Duration
	Log      *slog.Logger
	// Metrics registers the agent's metrics; nil means none.
	Metrics prometheus.Registerer
	// Health records each check for the kubelet's probes; nil means no probes.
	Health *Health
}

// firstRetry is the delay of the first retry; it doubles with each failure up to the interval.
const firstRetry = time.Second

// quiet and seldom decide when an agent releases memory: after an idle time of quiet, at most once
// per seldom.
const quiet, seldom = 5 * time.Second, 2 * time.Minute

// Run applies and checks the node's profile until ctx ends. At the end values stay, except those
// that an open descriptor holds. If the agents are being removed from the cluster (Options.Set),
// Run restores the former values.
func Run(ctx context.Context, o Options) error {
	c, err := newClient(o.Config, o.Node.Name, o.Namespace)
	if err != nil {
		return err
	}
	changed := make(chan struct{}, 1)
	// The watch continues during the agent's end.
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	store, synced := c.watch(watching, func() {
		select {
		case changed <- struct{}{}:
		default: // a Look is already pending
		}
	})
	o.Node.Tell = func(text string) { o.Log.Warn(text) }
	a := &running{Options: o, client: c, tally: newTally()}
	if o.Set != "" {
		a.setGone = c.watchSet(watching, o.Set)
	}
	if o.Metrics != nil {
		if err := o.Metrics.Register(a.tally); err != nil {
			return err
		}
	}
	wanted := func() (heard bool, p *tuned.Profile) {
		if !synced() {
			return false, nil
		}
		return true, c.profile(store)
	}
	var sleeper resident.Sleeper
	go sleeper.Run(watching, quiet, seldom)
	retry := firstRetry
	for {
		heard, p := wanted()
		wait := o.Interval
		if a.look(ctx, heard, p) {
			retry = firstRetry
		} else {
			wait, retry = retry, min(2*retry, o.Interval)
		}
		if o.Health != nil {
			o.Health.looked(heard)
		}
		sleeper.Worked()
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			a.end(changed, wanted)
			return nil
		case <-changed:
			timer.Stop()
			retry = firstRetry
		case <-timer.C:
		}
	}
}

// running is a running agent.
type running struct {
	Options
	client *agentClient
	tally  *tally
	last   Outcome
	// setGone reports whether the watch saw the DaemonSet's deletion; nil without a DaemonSet.
	setGone func() bool
	told    bool          // true after the first report
	queue   []queuedEvent // oldest first
}

// said reports whether conditions contains every condition in now.
func said(conditions, now []tuned.StatusCondition) bool {
	for _, c := range now {
		if _, changed := tuned.SetCondition(conditions, c, metav1.Time{}); changed {
			return false
		}
	}
	return true
}

// look looks at the node once and reports. It returns false if a retry is due soon.
func (a *running) look(ctx context.Context, heard bool, p *tuned.Profile) (fine bool) {
	// A started transaction, which is short, always completes.
	began := time.Now()
	out := a.Node.Look(context.WithoutCancel(ctx), heard, p)
	a.kubeletCounts(ctx, &out)
	a.tally.looked(out, heard, wantedBy(p), began, time.Now())
	fine = out.Err == nil
	log := a.Log.With("action", out.Decision.Action, "profile", out.Profile)
	switch {
	case out.Busy:
		log.Info("another transaction runs on the node", "error", out.Err)
		a.enqueue(Deeds(out), time.Now())
		return false
	case out.Err != nil && out.fault() != a.last.fault():
		log.Error("the node's profile was not changed", "error", out.Err)
	case out.Tx != 0:
		log.Info(summary(out), "transaction", out.Tx)
	}
	last := a.last
	a.last = out
	switch {
	case !heard:
		a.enqueue(Deeds(out), time.Now())
		return fine
	case p == nil:
		a.queue = nil // the object of these events is gone
		return fine
	case p.NodeTuningOwner() != "":
		if out.fault() != last.fault() {
			log.Warn("no profile is applied, no status is written", "why", theOperands(p.NodeTuningOwner()))
		}
		a.queue = nil
		return fine
	}
	// Events go first: if the agent is killed in between, its successor repeats them rather than
	// losing them.
	if !a.told && said(p.Status.Conditions, Conditions(out, p.Spec.Config.TunedProfile)) {
		last = out // the previous agent has reported it
	}
	a.told = true
	a.enqueue(Events(last, out, p.Spec.Config.TunedProfile), time.Now())
	if !a.sendQueued(ctx, p, log) {
		fine = false
	}
	if err := a.client.report(ctx, p, out, time.Now()); err != nil {
		a.tally.notReported()
		log.Error("report", "error", err)
		fine = false
	}
	return fine
}

// An agent that ends leaves the values to its successor. If the agents are removed from the
// cluster, they restore the nodes' former values. Signs of removal: the agents' DaemonSet or
// namespace is gone or being deleted, or the node's Profile object is gone. kubectl delete -k
// deletes everything in arbitrary order, including the agents' rights. One sign is therefore
// enough, and an agent without rights waits for its running watches.

// leaving limits the wait for a sign of removal and the restore. A kubelet kills a pod after 30 s.
var leaving = 15 * time.Second

// end ends an agent. It restores the node if the agents are being removed from the cluster. wanted
// returns the node's Profile object from the watch, which continues meanwhile.
func (a *running) end(changed <-chan struct{}, wanted func() (heard bool, p *tuned.Profile)) {
	ctx, cancel := context.WithTimeout(context.Background(), leaving)
	defer cancel()
	for {
		if heard, p := wanted(); heard && p == nil {
			a.restore(ctx, "the node's Profile object is gone")
			return
		}
		if a.setGone != nil && a.setGone() {
			a.restore(ctx, "DaemonSet "+a.Set+" is deleted")
			return
		}
		if a.Set == "" {
			break
		}
		why, err := a.client.removed(ctx, a.Set)
		if why != "" {
			a.restore(ctx, why)
			return
		}
		if !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
			break // a successor will come, or the state is unknown
		}
		select {
		case <-changed:
			continue
		case <-time.After(time.Second):
			continue
		case <-ctx.Done():
		}
		break
	}
	a.Log.Info("ended; the values stay in force")
}

// restore restores the node's former values. Until ctx ends it waits for other transactions on the
// node.
func (a *running) restore(ctx context.Context, why string) {
	for {
		out := a.Node.Look(context.WithoutCancel(ctx), true, nil)
		switch {
		case out.Busy && ctx.Err() == nil:
			time.Sleep(200 * time.Millisecond)
			continue
		case out.Err != nil:
			a.Log.Error("ended; the node could not be restored, run fettle undo on the node", "reason", why, "error", out.Err)
		case out.Tx == 0:
			a.Log.Info("ended; no cluster profile is active", "reason", why)
		default:
			a.Log.Info("ended; node restored", "reason", why, "transaction", out.Tx)
		}
		return
	}
}

// removed returns how the agents of a DaemonSet are being removed, or "" if they are not.
func (c *agentClient) removed(ctx context.Context, set string) (why string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	for _, o := range []struct{ what, path string }{
		{"namespace " + c.namespace, "/api/v1/namespaces/" + c.namespace},
		{"DaemonSet " + set, "/apis/apps/v1/namespaces/" + c.namespace + "/daemonsets/" + set},
	} {
		text, err := c.core.Get().AbsPath(o.path).Do(ctx).Raw()
		if apierrors.IsNotFound(err) {
			return o.what + " is gone", nil
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", o.what, err)
		}
		var found struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		}
		if err := json.Unmarshal(text, &found); err != nil {
			return "", fmt.Errorf("%s: %w", o.what, err)
		}
		if found.Metadata.DeletionTimestamp != nil {
			return o.what + " is being deleted", nil
		}
	}
	return "", nil
}
