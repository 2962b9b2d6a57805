package trend

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/text"
)

// EventKind is the kind of an Event.
type EventKind string

// Kinds of events.
const (
	Booted      EventKind = "boot"
	Differs     EventKind = "machine"     // hardware, system, kernel, or the version of fettle
	Settings    EventKind = "settings"    // of the kernel, as the runs recorded them
	Transaction EventKind = "transaction" // of fettle's journal
	Packages    EventKind = "packages"    // of the package manager's log
)

// Event is something that changed on the machine between two measurements.
type Event struct {
	Kind EventKind `json:"kind"`
	// Time is when it changed. It is absent if only the measurements before and after it are known.
	Time time.Time `json:"time,omitzero"`
	Text string    `json:"text"`
	// Details are the single changes, such as packages with their versions.
	Details []string `json:"details,omitempty"`
}

// Machine is what is known of a machine's history.
type Machine struct {
	Transactions []*journal.Tx
	Packages     []PackageChange
}

// History reads the history of a machine: fettle's journal in stateDir, and the logs of package
// managers. What cannot be read is returned as errors next to the rest.
func History(h *host.Host, stateDir string) (*Machine, []error) {
	var failed []error
	boot, _ := h.BootID()
	m := &Machine{}
	var err error
	if m.Transactions, err = journal.History(stateDir, boot); err != nil {
		failed = append(failed, err)
	}
	if m.Packages, err = packageLogs(h); err != nil {
		failed = append(failed, err)
	}
	return m, failed
}

// meanwhile returns what changed on the machine from the last point surely before a change to the
// first one surely after it.
func (s *Series) meanwhile(c stats.Change, m *Machine) []Event {
	out := []Event{}
	for i := max(1, c.Earliest); i <= c.Latest; i++ {
		if a, b := s.Points[i-1].run, s.Points[i].run; a != nil && b != nil {
			out = append(out, recorded(a, b)...)
		}
	}
	from, to := s.Points[max(1, c.Earliest)-1].Time, s.Points[c.Latest].Time
	if m != nil && !from.IsZero() && !to.IsZero() {
		out = append(out, m.transactions(from, to)...)
		out = append(out, m.packages(from, to)...)
	}
	return out
}

// within reports whether t is after from and not after to.
func within(t, from, to time.Time) bool { return t.After(from) && !t.After(to) }

// recorded returns how the machine of run b differs from that of run a.
func recorded(a, b *evidence.Run) (out []Event) {
	if x, y := a.Machine.BootID, b.Machine.BootID; x != "" && y != "" && x != y {
		out = append(out, Event{Kind: Booted, Text: "rebooted"})
	}
	settings := Event{Kind: Settings}
	for _, d := range prove.Differing(a, b) {
		line := fmt.Sprintf("%s: %s -> %s", d.Name, d.A, d.B)
		switch {
		case d.Name == "command" || d.Name == "measured":
		case strings.Contains(d.Name, ":"):
			settings.Details = append(settings.Details, line)
		default:
			out = append(out, Event{Kind: Differs, Text: line})
		}
	}
	if len(settings.Details) > 0 {
		settings.Text = summary(settings.Details, text.Count(len(settings.Details), "setting"))
		out = append(out, settings)
	}
	return out
}

// summary returns a single detail, or the count with the first one.
func summary(details []string, count string) string {
	if len(details) == 1 {
		return details[0]
	}
	return count + ", such as " + details[0]
}

// transactions returns the transactions of fettle in a period, without the phases of experiments,
// which are undone before the measurement ends.
func (m *Machine) transactions(from, to time.Time) (out []Event) {
	phases := map[int]bool{}
	for _, t := range m.Transactions {
		if t.Try != nil && t.Try.Experiment || len(t.Undoes) > 0 && !slices.ContainsFunc(t.Undoes, func(id int) bool { return !phases[id] }) {
			phases[t.ID] = true
			continue
		}
		if !within(t.Time, from, to) || t.RolledBack() {
			continue
		}
		e := Event{Kind: Transaction, Time: t.Time, Text: fmt.Sprintf("%d: %s", t.ID, strings.Join(strings.Fields(t.Reason), " "))}
		if t.Note != "" {
			e.Text += ": " + t.Note
		}
		for _, x := range t.Entries {
			if x.Changed() && x.After != nil {
				e.Details = append(e.Details, fmt.Sprintf("%s: %s -> %s", x.Setting, x.Orig, *x.After))
			}
		}
		if n := len(e.Details); n > 0 {
			e.Text += " (" + text.Count(n, "value") + " changed)"
		}
		out = append(out, e)
	}
	return out
}

// packages returns the packages that changed in a period, as one event for each run of the package
// manager.
func (m *Machine) packages(from, to time.Time) (out []Event) {
	const together = 10 * time.Minute
	var last time.Time
	for _, p := range m.Packages {
		if !within(p.Time, from, to) {
			continue
		}
		if n := len(out); n > 0 && p.Time.Sub(last) < together {
			out[n-1].Details = append(out[n-1].Details, p.String())
		} else {
			out = append(out, Event{Kind: Packages, Time: p.Time, Details: []string{p.String()}})
		}
		last = p.Time
	}
	for i := range out {
		out[i].Text = summary(out[i].Details, text.Count(len(out[i].Details), "package"))
	}
	return out
}
