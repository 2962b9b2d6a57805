package daemon

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	internaltext "fettle.dev/fettle/internal/text"
)

// writers records which other programs wrote values in force. The daemon only reports them.
type writers struct {
	watch  fileWatch // nil: nothing is watched
	queue  *writeQueue
	record override.Watch
	before []override.Watched // writes recorded by an earlier daemon of this boot
	store  watchStore

	files map[string]setting.Setting // by watched path
	wants map[setting.Setting]wanted
	said  map[setting.Setting]time.Time // time of the last drift report
}

// wanted is the value that the selection sets, with the reason.
type wanted struct {
	value  setting.Value
	reason setting.Reason
}

// fileWatch is a host.WriteWatch.
type fileWatch interface {
	Watch(paths []string) map[string]error
	Next() ([]host.FileWrite, error)
	Close() error
}

func newWriters() writers {
	return writers{files: map[string]setting.Setting{}, wants: map[setting.Setting]wanted{}, said: map[setting.Setting]time.Time{}}
}

// beginWatch starts the watch. If that fails, the daemon continues without it, and fettle why
// shows the reason.
func (d *Daemon) beginWatch(m *Machine, w fileWatch, err error) {
	e := m.Engine
	d.mu.Lock()
	defer d.mu.Unlock()
	self, _ := e.Host.Sched.Task(os.Getpid())
	boot, _ := e.Host.BootID()
	d.writers.record = override.Watch{Schema: override.WatchSchema, BootID: boot, PID: os.Getpid(), Start: self.Start, Settings: []override.Watched{}}
	d.writers.store = watchStore{dir: e.StateDir}
	if err != nil {
		d.writers.record.Trouble = err.Error()
		d.log.say(LevelWarning, "cannot watch which programs write values: %v", err)
	} else {
		d.writers.watch = w
		d.writers.queue = newWriteQueue(e.StateDir)
		go d.writers.queue.fill(w)
	}
	// Writes recorded by an earlier daemon of this boot are still valid.
	old, err := override.ReadWatch(e.StateDir, boot)
	switch {
	case err == nil:
		d.writers.before = old.Settings
	case !errors.Is(err, override.ErrNotWatched):
		d.log.say(LevelWarning, "earlier writers of values unknown: %v", err)
	}
	if d.writers.watch == nil {
		d.writers.record.Settings = append(d.writers.record.Settings, d.writers.before...)
		d.writers.remember(d.log)
	}
}

// observe watches the settings of the plan and the journal's other settings. plan is nil without a
// selection.
func (d *Daemon) observe(ctx context.Context, plan *tune.Plan, s *journal.State) {
	w := &d.writers
	if w.watch == nil {
		return
	}
	clear(w.files)
	clear(w.wants)
	found := map[setting.Setting]bool{}
	if plan != nil {
		for _, st := range plan.Steps {
			switch {
			case st.Action == tune.Write || st.Action == tune.Same:
				w.wants[st.Setting] = wanted{st.Want, st.Reason}
			case st.Action == tune.None && (st.Verdict == plugin.Overridden || st.Verdict == plugin.Kept):
			default:
				continue // nothing is left to record, or no user can read it
			}
			found[st.Setting] = true
		}
	}
	for id, chain := range s.Chains() {
		found[id] = true
		if top := chain[len(chain)-1]; top.Tx.Kind == journal.Apply && top.CoupledTo == 0 {
			w.wants[id] = wanted{top.Want, top.Reason}
		}
	}
	list := slices.SortedFunc(maps.Keys(found), func(a, b setting.Setting) int { return strings.Compare(a.String(), b.String()) })
	var paths []string
	for _, id := range list {
		for _, p := range d.kinds.KernelFiles(id) {
			if _, ok := w.files[p]; !ok && len(w.files) < override.MaxWatched {
				w.files[p] = id
				paths = append(paths, p)
			}
		}
	}
	failed := w.watch.Watch(paths)
	w.complain(d.log, paths, failed)
	watched := map[setting.Setting]bool{}
	for _, p := range paths {
		if failed[p] == nil {
			watched[w.files[p]] = true
		}
	}
	w.follow(list, watched, time.Now(), func(id setting.Setting) setting.Value { return d.readNow(ctx, id) })
	w.remember(d.log)
}

// readNow reads a value in the record's form.
func (d *Daemon) readNow(ctx context.Context, id setting.Setting) setting.Value {
	v, err := d.kinds.Read(ctx, id)
	if err != nil {
		return setting.Absent
	}
	return override.Shown(d.kinds, id, v)
}

// complain logs, once each, the existing files that cannot be watched.
func (w *writers) complain(log *messages, paths []string, failed map[string]error) {
	n := 0
	var first error
	for _, p := range paths {
		if err := failed[p]; err != nil && !errors.Is(err, fs.ErrNotExist) {
			if n++; first == nil {
				first = err
			}
		}
	}
	if n > 0 {
		log.say(LevelInfo, "cannot watch writers of %d of %s; first error: %v", n, internaltext.Count(len(paths), "file"), first)
	}
}

// follow changes the set of recorded settings. Settings already watched continue without a gap.
func (w *writers) follow(list []setting.Setting, watched map[setting.Setting]bool, now time.Time, read func(setting.Setting) setting.Value) {
	old := map[setting.Setting]override.Watched{}
	for _, e := range slices.Concat(w.before, w.record.Settings) {
		old[e.Setting] = e
	}
	w.before = nil
	w.record.Settings = w.record.Settings[:0:0]
	for _, id := range list {
		if !watched[id] {
			continue
		}
		e, ok := old[id]
		if e.Setting = id; !ok || !w.store.began(id) {
			e.Since, e.Value = now, read(id)
		}
		w.record.Settings = append(w.record.Settings, e)
	}
	w.store.follow(w.record.Settings)
}

// wrote records writes of other programs, and logs those that change a value of the selection.
func (d *Daemon) wrote(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := &d.writers
	list, err := w.queue.take()
	for _, f := range list {
		if f.Path == "" {
			d.log.say(LevelWarning, "too many writes at once; some were missed")
			for i := range w.record.Settings {
				w.record.Settings[i].Since = f.Time
			}
			continue
		}
		id, ok := w.files[f.Path]
		e, known := w.record.Find(id)
		if !ok || !known {
			continue
		}
		if now := d.readNow(ctx, id); f.own {
			e.Value = now
		} else {
			d.noteWrite(e, f.FileWrite, now)
		}
		d.moved(ctx, id)
	}
	if err != nil {
		d.log.say(LevelError, "no longer watching which programs write values: %v", err)
		w.record.Trouble = err.Error()
		w.watch.Close()
		w.watch = nil
	}
	w.remember(d.log)
}

// moved reads the settings that a write to id also changes.
func (d *Daemon) moved(ctx context.Context, id setting.Setting) {
	for _, other := range d.kinds.Coupled(id) {
		if e, ok := d.writers.record.Find(other); ok {
			e.Value = d.readNow(ctx, other)
		}
	}
}

// noteWrite records one write; now is the setting's value after it.
func (d *Daemon) noteWrite(e *override.Watched, f host.FileWrite, now setting.Value) {
	by := override.Write{
		Time: f.Time, Process: f.By.Comm, PID: f.By.PID, Command: f.By.Command, Parent: f.By.ParentComm, ParentPID: f.By.Parent,
		Old: e.Value.String(), New: now.String(), Source: "fettle's daemon",
	}
	if f.By.UID >= 0 {
		by.UID = &f.By.UID
	}
	id := e.Setting
	same := d.kinds.Equal(id, e.Value, now)
	switch {
	case !same:
		e.Changed = nil // Last made the change
	case e.Changed == nil && e.Last != nil && e.Last.Old != e.Last.New:
		e.Changed = e.Last
	}
	e.Last, e.Value = &by, now
	want, ours := d.writers.wants[id]
	// An experiment's write is recorded like any other, but is not drift.
	if same || !ours || d.experiment() != nil || d.kinds.Equal(id, now, want.value) || f.Time.Sub(d.writers.said[id]) < quiet {
		return
	}
	d.writers.said[id] = f.Time
	d.log.say(LevelWarning, "drift: %s is %s, the active profile wants %s (%s); written by %s", id, now, want.value, want.reason, by.By())
}

// quiet is the minimum time between two reports about one value that keeps changing.
const quiet = time.Minute

// remember saves the record; at most one save per pause.
func (w *writers) remember(log *messages) {
	w.store.save(&w.record, func(err error) { log.say(LevelWarning, "cannot record writers of values: %v", err) })
}

// endWatch stops the watch and records the time.
func (d *Daemon) endWatch() {
	w := &d.writers
	if w.watch == nil {
		return
	}
	w.watch.Close()
	w.watch = nil
	now := time.Now()
	w.record.Ended = &now
	w.store.flush(&w.record)
}
