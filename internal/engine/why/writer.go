package why

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

// Writer describes the last write to a setting at run time.
type Writer struct {
	// LastWriter is the last writer other than fettle; null if unknown, with the reason in
	// LastWriterUnknown.
	LastWriter        *override.Write `json:"last_writer"`
	LastWriterUnknown string          `json:"last_writer_unknown,omitempty"`
	// Through is the written setting if the process wrote another setting, whose write also changes
	// this one.
	Through *setting.Setting `json:"last_writer_through,omitempty"`
	// LastChange is the last write that changed the value, if the last write did not.
	LastChange *override.Write `json:"last_change,omitempty"`
	// Own is fettle's own last write in this boot.
	Own *Own `json:"last_own_write,omitempty"`
	// WatchedSince is the time since which fettle's daemon has observed every write. Watching
	// reports whether it still watches.
	WatchedSince *time.Time `json:"watched_since,omitempty"`
	Watching     bool       `json:"watching"`
	// Unseen is the value after the last observed write, if it differs from the current value.
	Unseen *setting.Value `json:"value_after_last_write,omitempty"`
}

// Own is a write by fettle.
type Own struct {
	Tx   int       `json:"transaction"`
	Time time.Time `json:"time"`
}

// maxCoupled is the maximum number of coupled settings whose writers are looked up.
const maxCoupled = 8

// lastWriter returns the last write to a setting, with the watcher's state.
func lastWriter(ctx context.Context, m *tune.Machine, id setting.Setting, now setting.Value, s *journal.State) Writer {
	daemon := override.Daemon{Host: m.Host, StateDir: m.Engine.StateDir}
	record := settledRecord(m, daemon, id, now)
	watchers := []override.Watcher{daemon, override.SysctlLogger{Host: m.Host}}
	w := Writer{Own: ownWrite(m, id, s)}
	last, err := override.LastWriter(ctx, id, watchers...)
	switch {
	case err == nil:
		w.LastWriter = &last
	case errors.Is(err, override.ErrNotWatched) && !m.Host.Live:
		w.LastWriterUnknown = "this copy does not record writers"
	default:
		w.LastWriterUnknown = err.Error()
	}
	for _, c := range movers(m, id, s) {
		other, err := override.LastWriter(ctx, c, watchers...)
		if err == nil && other.Old != other.New && (w.LastWriter == nil || other.Time.After(w.LastWriter.Time)) {
			w.LastWriter, w.Through, w.LastWriterUnknown = &other, &c, ""
		}
	}
	if e, ok := record.Find(id); ok {
		w.WatchedSince, w.Watching = &e.Since, record.Watching(m.Host)
		if e.Last != nil && w.LastWriter != nil && w.Through == nil && w.LastWriter.Time.Equal(e.Last.Time) {
			w.LastChange = e.Changed
		}
		if !asSeen(m, e, now) {
			w.Unseen = &e.Value
		}
	}
	return w
}

// asSeen reports whether now is the value after the last observed write.
func asSeen(m *tune.Machine, e *override.Watched, now setting.Value) bool {
	return m.Kinds.Equal(e.Setting, e.Value, override.Shown(m.Kinds, e.Setting, now))
}

// settledRecord reads the daemon's record, or returns nil. It waits briefly, because the daemon
// saves the record shortly after an event.
func settledRecord(m *tune.Machine, d override.Daemon, id setting.Setting, now setting.Value) *override.Watch {
	const moment = 20
	for i := 0; ; i++ {
		record, err := d.Read()
		if err != nil {
			return nil
		}
		if e, ok := record.Find(id); i == moment || !ok || asSeen(m, e, now) || !record.Watching(m.Host) {
			return record
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// movers returns the settings whose writes also change this one.
func movers(m *tune.Machine, id setting.Setting, s *journal.State) []setting.Setting {
	kind, err := m.Kinds.For(id)
	if err != nil {
		return nil
	}
	candidates := kind.Coupled(id)
	for _, en := range s.Chains()[id] {
		if n := en.CoupledTo; n > 0 && n <= len(en.Tx.Entries) {
			candidates = append(candidates, en.Tx.Entries[n-1].Setting)
		}
	}
	var out []setting.Setting
	for _, c := range candidates {
		k, err := m.Kinds.For(c)
		if err != nil || c == id || len(out) == maxCoupled || slices.Contains(out, c) {
			continue
		}
		if slices.ContainsFunc(k.Coupled(c), func(d setting.Setting) bool { r, err := m.Kinds.Resolve(d); return err == nil && r == id }) {
			out = append(out, c)
		}
	}
	return out
}

// ownWrite returns fettle's last write to a setting in this boot, or nil.
func ownWrite(m *tune.Machine, id setting.Setting, s *journal.State) *Own {
	boot, err := m.Host.BootID()
	if err != nil {
		return nil
	}
	for _, t := range slices.Backward(s.Txs) {
		if t.BootID != boot || t.Commit == nil {
			continue
		}
		wrote := slices.ContainsFunc(t.Entries, func(en *journal.Entry) bool {
			return en.Setting == id && en.CoupledTo == 0 && en.After != nil && !m.Kinds.Equal(id, en.Orig, *en.After)
		})
		wrote = wrote || slices.ContainsFunc(t.Commit.Undone, func(u journal.Undone) bool {
			from := s.Tx(u.Tx)
			return u.State == journal.Restored && from != nil && u.N > 0 && u.N <= len(from.Entries) && from.Entries[u.N-1].Setting == id
		})
		if wrote {
			return &Own{t.ID, t.Commit.Time}
		}
	}
	return nil
}

// print prints the last writer.
func (w *Writer) print(s *ui.Screen, now setting.Value) {
	l := w.LastWriter
	var own string
	if w.Own != nil {
		own = fmt.Sprintf("fettle itself, transaction %d, %s", w.Own.Tx, clock(w.Own.Time))
	}
	switch {
	case l != nil && w.Own != nil && w.Own.Time.After(l.Time):
		ui.PrintLine(s, "last writer: %s; previous writer: %s", own, w.describe())
	case l != nil:
		ui.PrintLine(s, "last writer: %s", w.describe())
	case w.Own != nil && w.WatchedSince != nil:
		ui.PrintLine(s, "last writer: %s; other programs: %s", own, w.LastWriterUnknown)
	case w.WatchedSince != nil:
		ui.PrintLine(s, "last writer: %s", w.LastWriterUnknown)
	default:
		ui.PrintLine(s, "last writer: unknown: %s", w.LastWriterUnknown)
	}
	if c := w.LastChange; c != nil {
		ui.PrintLine(s, "last change: %s, %s, from %s to %s", c.By(), clock(c.Time), c.Old, c.New)
	}
	switch {
	case w.WatchedSince == nil || l == nil:
	case !w.Watching:
		ui.PrintLine(s, "fettle's daemon no longer watches; later writers are unknown")
	case w.WatchedSince.After(l.Time):
		ui.PrintLine(s, "fettle's daemon has watched only since %s; writers before that and after the last known one are unknown", clock(*w.WatchedSince))
	default:
		ui.PrintLine(s, "no other program has written it since; fettle's daemon has watched since %s", clock(*w.WatchedSince))
	}
	if w.Unseen != nil && w.Watching && w.Through == nil {
		ui.PrintLine(s, "after the last known write the value was %s, but now it is %s: changed by the kernel, or through another mount of proc or sysfs", w.Unseen.String(), now.String())
	}
}

// describe describes the last writer and its write.
func (w *Writer) describe() string {
	l := w.LastWriter
	text := l.By()
	if l.UID != nil && *l.UID != 0 {
		text += ", user " + host.UserName(*l.UID)
	}
	text += ", " + clock(l.Time)
	switch {
	case w.Through != nil:
		text += fmt.Sprintf(": wrote %s into %s, which also changes this setting", l.New, tune.SettingWords(*w.Through))
	case l.Old == l.New:
		text += ": wrote the value that it already had"
	default:
		text += fmt.Sprintf(", from %s to %s", l.Old, l.New)
	}
	return ui.Printable(text)
}

func clock(t time.Time) string { return t.Local().Format(Stamp) }

// NameWriters adds to each drifted value the writer that changed it, if the daemon observed the
// write.
func NameWriters(m *tune.Machine, values []tune.Checked) {
	record, err := override.Daemon{Host: m.Host, StateDir: m.Engine.StateDir}.Read()
	if err != nil {
		if !errors.Is(err, override.ErrNotWatched) && m.Tell != nil {
			m.Tell(fmt.Sprintf("writers of values unknown: %v", err))
		}
		return
	}
	for i := range values {
		c := &values[i]
		e, ok := record.Find(c.Setting)
		if c.Verdict != plugin.Drifted || !ok || !asSeen(m, e, c.Now) {
			continue
		}
		by := e.Last
		if e.Changed != nil {
			by = e.Changed
		}
		if by != nil && by.Old != by.New {
			c.Writer = by
			c.Why += "; " + ui.Printable(by.Who()) + " wrote " + ui.Printable(by.New) + " at " + clock(by.Time)
		}
	}
}
