package agent

import (
	"context"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"fettle.dev/fettle/internal/kube/tuned"
)

// Options of an agent.
type Options struct {
	Node *Node
	// Config says how to reach the API server.
	Config    *rest.Config
	Namespace string
	// Interval is how often the values are looked at without being asked.
	Interval time.Duration
	Log      *slog.Logger
}

// firstRetry is how soon something that failed is tried again; then twice that, until
// it is as rare as any look.
const firstRetry = time.Second

// Run brings the node's profile into force and keeps an eye on it until ctx ends. All
// values stay when it ends, but those that only an open descriptor holds.
func Run(ctx context.Context, o Options) error {
	c, err := newClient(o.Config, o.Node.Name, o.Namespace)
	if err != nil {
		return err
	}
	changed := make(chan struct{}, 1)
	store, synced := c.watch(ctx, func() {
		select {
		case changed <- struct{}{}:
		default: // a look is due already
		}
	})
	o.Node.Tell = func(text string) { o.Log.Warn(text) }
	a := &running{Options: o, client: c}
	retry := firstRetry
	for {
		var p *tuned.Profile
		heard := synced()
		if heard {
			p = c.profile(store)
		}
		wait := o.Interval
		if a.look(ctx, heard, p) {
			retry = firstRetry
		} else {
			wait, retry = retry, min(2*retry, o.Interval)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			o.Log.Info("ended; the values stay in force")
			return nil
		case <-changed:
			timer.Stop()
			retry = firstRetry
		case <-timer.C:
		}
	}
}

// running is an agent at work.
type running struct {
	Options
	client *client
	last   Outcome
	told   bool // something has been told since the start
}

// said is true where conditions say all that now is to be said.
func said(conditions, now []tuned.StatusCondition) bool {
	for _, c := range now {
		if _, changed := tuned.SetCondition(conditions, c, metav1.Time{}); changed {
			return false
		}
	}
	return true
}

// look looks at the node once and tells; false where it has to be tried again soon.
func (a *running) look(ctx context.Context, heard bool, p *tuned.Profile) (fine bool) {
	// A transaction that has begun goes to its end: it is short.
	out := a.Node.Look(context.WithoutCancel(ctx), heard, p)
	fine = out.Err == nil
	log := a.Log.With("action", out.Decision.Action, "profile", out.Profile)
	switch {
	case out.Busy:
		log.Info("somebody else is at work on the node", "error", out.Err)
		return false
	case out.Err != nil && out.fault() != a.last.fault():
		log.Error("not done", "error", out.Err)
	case out.Tx != 0:
		log.Info(summary(out), "transaction", out.Tx)
	}
	last := a.last
	a.last = out
	if p == nil {
		return fine
	}
	// Events go first: an agent that is killed between the two tells them again, and
	// leaves none out.
	if !a.told && said(p.Status.Conditions, Conditions(out, p.Spec.Config.TunedProfile)) {
		last = out // an agent before this one has told it
	}
	a.told = true
	for _, e := range Events(last, out, p.Spec.Config.TunedProfile) {
		if err := a.client.event(ctx, p, e, time.Now()); err != nil {
			log.Warn("event", "error", err)
		}
	}
	if err := a.client.report(ctx, p, out, time.Now()); err != nil {
		log.Error("report", "error", err)
		fine = false
	}
	return fine
}
