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

// HistoryAnnotation is where a Profile object has the switches of its node. They are those
// of the node's own journal, which outlives the object, the agent and its events.
const HistoryAnnotation = "fettle.dev/history"

// HistorySchema names the form of the annotation.
const HistorySchema = "fettle/node-history/v1"

// The bounds of it.
const (
	maxSwitches = 20
	maxHistory  = 8 << 10 // bytes
)

// History is the annotation HistoryAnnotation.
type History struct {
	Schema string `json:"schema"` // fettle/node-history/v1
	// Switches are the last 20, or as many of them as 8 KiB hold, the newest last.
	Switches []Switch `json:"switches"`
}

// JSONBody marks it as what is kept in something else.
func (History) JSONBody() {}

// Switch is a change of what is in force on a node.
type Switch struct {
	Time time.Time `json:"time"`
	// From and To are profiles, "" for none. The two are one where its text has changed.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Transaction is that of the node's journal (fettle history), By who made it, and Why
	// what it says of the reason.
	Transaction int    `json:"transaction"`
	By          string `json:"by"`
	Why         string `json:"why"`
}

// switches reads them from the transactions of a journal, in their order. A boot after
// which the same is applied again does not count.
func switches(txs []*journal.Tx) []Switch {
	var out []Switch
	var last *tune.Selection
	gone := map[int]bool{} // undone, or stood for by a later one
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

// inForceOf is the selection of the last transaction that stands.
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

// differ reports whether two selections are of other profiles, or of other texts.
func differ(a, b *tune.Selection) bool {
	if a == nil || b == nil {
		return namesOf(a) != namesOf(b)
	}
	return namesOf(a) != namesOf(b) || a.Accepted != b.Accepted
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// recall reads the switches from the node's journal, if it has changed since.
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

// recalled is what an agent has read of the journal's past, and when.
type recalled struct {
	known      bool
	generation int64
	switches   []Switch
}

// HistoryText is the annotation's text; empty for a node that never had a profile.
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

// because adds to the reason of a transaction the rule that the operator names.
func because(reason, rule string) string {
	if rule = oneLine(rule); rule != "" {
		reason += ": " + text.Truncate(rule, maxText)
	}
	return reason
}

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
