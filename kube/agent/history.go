package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/tuned"
)

// HistoryAnnotation is a Profile object's annotation with the node's profile switches. They come
// from the node's journal, which outlives the object, the agent and events.
const HistoryAnnotation = "fettle.dev/history"

// HistorySchema is the schema of the annotation.
const HistorySchema = "fettle/node-history/v1"

// Size limits of the annotation.
const (
	maxSwitches = 20
	maxHistory  = 8 << 10 // bytes
)

// History is the JSON content of HistoryAnnotation.
type History struct {
	Schema string `json:"schema"` // fettle/node-history/v1
	// Switches are the newest switches, in order: at most 20, and at most 8 KiB.
	Switches []Switch `json:"switches"`
}

// JSONBody marks History as a value stored inside another JSON document.
func (History) JSONBody() {}

// Switch is one change of the profile in force on a node.
type Switch struct {
	Time time.Time `json:"time"`
	// From and To are profiles; "" means none. They are equal if only the profile's text changed.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Transaction is the number in the node's journal (fettle history). By is the user who made it,
	// Why the recorded reason.
	Transaction int    `json:"transaction"`
	By          string `json:"by"`
	Why         string `json:"why"`
}

// switches extracts the profile switches from a journal's transactions, in order. It omits
// reapplications after a boot.
func switches(txs []*journal.Tx) []Switch {
	var out []Switch
	var last *tune.Selection
	gone := map[int]bool{} // undone, or replaced by a later transaction
	var stand []*journal.Tx
	for _, t := range txs {
		if t.Commit == nil || t.RolledBack() {
			continue
		}
		for _, id := range append(append([]int{}, t.Undoes...), t.Supersedes...) {
			gone[id] = true
		}
		if t.Selection != nil {
			stand = append(stand, t)
		}
		now := inForceOf(stand, gone)
		if same := t.Kind == journal.Boot && namesOf(now) == namesOf(last); !same && differ(last, now) {
			out = append(out, Switch{
				Time: t.Commit.Time.UTC().Truncate(time.Second), From: text.Truncate(namesOf(last), maxText), To: text.Truncate(namesOf(now), maxText), Transaction: t.ID,
				By: text.Truncate(oneLine(t.User), maxText), Why: text.Truncate(oneLine(t.Reason), maxText),
			})
		}
		last = now
	}
	return out[max(0, len(out)-maxSwitches):]
}

// inForceOf returns the selection of the last transaction that is not undone, or nil.
func inForceOf(stand []*journal.Tx, gone map[int]bool) *tune.Selection {
	for i := len(stand) - 1; i >= 0; i-- {
		if gone[stand[i].ID] {
			continue
		}
		if sel, err := tune.SelectionOf(stand[i]); err == nil {
			return sel
		}
		return nil
	}
	return nil
}

func namesOf(s *tune.Selection) string {
	if s == nil {
		return ""
	}
	return strings.Join(s.Names(), " ")
}

// differ reports whether two selections differ in their profiles or texts.
func differ(a, b *tune.Selection) bool {
	if a == nil || b == nil {
		return namesOf(a) != namesOf(b)
	}
	return namesOf(a) != namesOf(b) || a.Accepted != b.Accepted
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// recall returns the switches in the node's journal. It reads the journal only if it has changed
// since the last call.
func (m *agentMachine) recall(state *journal.State, boot string) ([]Switch, error) {
	if m.recalled.known && m.recalled.generation == state.Generation {
		return m.recalled.switches, nil
	}
	txs, err := journal.History(m.engine.StateDir, boot)
	if err != nil {
		return nil, err
	}
	m.recalled = recalled{true, state.Generation, switches(txs)}
	return m.recalled.switches, nil
}

// recalled caches the switches of one generation of the journal.
type recalled struct {
	known      bool
	generation int64
	switches   []Switch
}

// HistoryText returns the annotation's text; "" for a node that never had a profile.
func HistoryText(out Outcome) (string, error) {
	all := out.Switches
	for len(all) > 0 {
		text, err := json.Marshal(History{HistorySchema, all})
		if err != nil || len(text) <= maxHistory {
			return string(text), err
		}
		all = all[1:]
	}
	return "", nil
}

// because appends the operator's rule to a transaction's reason.
func because(reason, rule string) string {
	if rule = oneLine(rule); rule != "" {
		reason += ": " + text.Truncate(rule, maxText)
	}
	return reason
}

// queuedEvent is an event that could not be created yet, because the API server did not answer or
// the Profile object was unknown. This is normal after a boot, when the accepted profile is applied
// first.
type queuedEvent struct {
	Event
	at time.Time
}

// maxQueued limits the queued events; the oldest are dropped.
const maxQueued = 100

// enqueue queues events for sendQueued.
func (a *running) enqueue(events []Event, at time.Time) {
	for _, e := range events {
		a.queue = append(a.queue, queuedEvent{e, at})
	}
	a.queue = a.queue[max(0, len(a.queue)-maxQueued):]
}

// sendQueued creates the queued events in order. It returns false if one must be retried. Events
// that the API server rejects are dropped.
func (a *running) sendQueued(ctx context.Context, p *tuned.Profile, log *slog.Logger) bool {
	for len(a.queue) > 0 {
		e := a.queue[0]
		if err := a.client.event(ctx, p, e.Event, e.at); err != nil {
			a.tally.notReported()
			log.Warn("event", "reason", e.Reason, "error", err)
			if !refusedForGood(err) {
				return false
			}
		}
		a.queue = a.queue[1:]
	}
	return true
}

func refusedForGood(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsNotFound(err)
}
