package agent

import (
	"context"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"fettle.dev/fettle/kube/tuned"
)

// owed is an event that could not be made yet: the API server was away, or had not said
// yet what there is to make it about. After a boot that is so each time: what was accepted
// before is applied first.
type owed struct {
	Event
	at time.Time
}

// maxOwed is how many events are kept while no API server answers; then the oldest go.
const maxOwed = 100

// owe remembers events.
func (a *running) owe(events []Event, at time.Time) {
	for _, e := range events {
		a.owed = append(a.owed, owed{e, at})
	}
	a.owed = a.owed[max(0, len(a.owed)-maxOwed):]
}

// pay makes the events that are owed, in their order; false where one has to be tried
// again. What the API server refuses it would refuse again.
func (a *running) pay(ctx context.Context, p *tuned.Profile, log *slog.Logger) bool {
	for len(a.owed) > 0 {
		e := a.owed[0]
		if err := a.client.event(ctx, p, e.Event, e.at); err != nil {
			a.tally.notReported()
			log.Warn("event", "reason", e.Reason, "error", err)
			if !refusedForGood(err) {
				return false
			}
		}
		a.owed = a.owed[1:]
	}
	return true
}

func refusedForGood(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsNotFound(err)
}
