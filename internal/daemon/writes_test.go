package daemon

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/root"
)

// handedWatch is a watch whose events a test hands in.
type handedWatch struct {
	paths  []string
	events chan []host.FileWrite
}

func (w *handedWatch) Watch(paths []string) map[string]error {
	w.paths = paths
	failed := map[string]error{}
	for _, p := range paths {
		if strings.Contains(p, "bdi") {
			failed[p] = fs.ErrNotExist
		}
	}
	return failed
}

func (w *handedWatch) Next() ([]host.FileWrite, error) {
	list, ok := <-w.events
	if !ok {
		return nil, os.ErrClosed
	}
	return list, nil
}

func (w *handedWatch) Close() error { close(w.events); return nil }

// watched is a daemon with such a watch, and the profile "day" in force.
func (f *fake) watched(c Config) (*Daemon, *handedWatch) {
	f.t.Helper()
	c.Open, c.Log = f.open, &f.log
	d := New(c)
	m, err := d.open(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	if err := os.MkdirAll(f.state, 0o700); err != nil {
		f.t.Fatal(err)
	}
	w := &handedWatch{events: make(chan []host.FileWrite)}
	d.beginWatch(m, w, nil)
	if err := d.begin(f.t.Context(), m); err != nil {
		f.t.Fatal(err)
	}
	return d, w
}

// wrote hands writes in and waits until the daemon is told, as its loop does.
func (f *fake) wrote(d *Daemon, w *handedWatch, list ...host.FileWrite) {
	f.t.Helper()
	w.events <- list
	select {
	case <-d.writers.queue.ready:
	case <-time.After(time.Minute):
		f.t.Fatal("the daemon was not told of a write in a minute")
	}
	d.wrote(f.t.Context())
}

// record is what others can read, once it is what want says.
func (f *fake) record(want func(*override.Watch) bool) *override.Watch {
	f.t.Helper()
	var w *override.Watch
	var err error
	if !root.Eventually(time.Minute, func() bool {
		w, err = override.ReadWatch(f.state, "boot-1")
		return err == nil && want(w)
	}) {
		f.t.Fatalf("the record does not become as wanted: %+v, %v\n%s", w, err, f.log.String())
	}
	return w
}

func by(pid int, comm string) host.Writer {
	return host.Writer{PID: pid, Comm: comm, UID: 0, Parent: 6, ParentComm: "bash"}
}

func TestWritesOfOthers(t *testing.T) {
	f := newFake(t, nil)
	f.tune("day", nil)
	d, w := f.watched(Config{})
	if !slices.Contains(w.paths, swappiness) || !slices.Contains(w.paths, readAhead) || !slices.Contains(w.paths, dirtyRatio) {
		t.Fatalf("watched are %v", w.paths)
	}
	id := settingOf("vm.swappiness")
	at := time.Now()
	f.write(swappiness, "44")
	f.wrote(d, w, host.FileWrite{Path: swappiness, Time: at, By: by(70, "sysctl")})
	if want := "drift: sysctl:vm.swappiness is 44, the active profile wants 10 (/etc/tuned/day/tuned.conf:2); written by sysctl (process 70), child of bash (6)"; !strings.Contains(f.log.String(), want) {
		t.Errorf("the log has no %q:\n%s", want, f.log.String())
	}
	last := func(pid int) func(*override.Watch) bool {
		return func(w *override.Watch) bool {
			e, ok := w.Find(id)
			return ok && e.Last != nil && e.Last.PID == pid
		}
	}
	e, _ := f.record(last(70)).Find(id)
	if e.Last.Old != "10" || e.Last.New != "44" || e.Last.Process != "sysctl" || e.Last.Parent != "bash" || e.Value.Text != "44" || e.Changed != nil {
		t.Errorf("recorded %+v, last %+v", e, e.Last)
	}
	// A write of the same is the last one, and not the last change. It is no
	// news for the log, and neither is what goes on.
	f.wrote(d, w, host.FileWrite{Path: swappiness, Time: at.Add(time.Second), By: by(71, "tee")})
	e, _ = f.record(last(71)).Find(id)
	if e.Changed == nil || e.Changed.PID != 70 || e.Last.Old != "44" || e.Last.New != "44" {
		t.Errorf("recorded %+v", e)
	}
	f.write(swappiness, "45")
	f.wrote(d, w, host.FileWrite{Path: swappiness, Time: at.Add(2 * time.Second), By: by(72, "tee")})
	if e, _ = f.record(last(72)).Find(id); e.Changed != nil {
		t.Errorf("recorded %+v", e)
	}
	if n := strings.Count(f.log.String(), "drift: "); n != 1 {
		t.Errorf("%d lines of drift in two seconds:\n%s", n, f.log.String())
	}
	// Who sets what is wanted is no trouble.
	f.write(swappiness, "10")
	f.wrote(d, w, host.FileWrite{Path: swappiness, Time: at.Add(time.Hour), By: by(73, "sysctl")})
	f.record(last(73))
	if n := strings.Count(f.log.String(), "drift: "); n != 1 {
		t.Errorf("a value as wanted is called drift:\n%s", f.log.String())
	}
	// A transaction of fettle's is not others: the command line has the lock.
	f.write("/proc/sys/vm/swappiness", "30")
	if err := os.WriteFile(filepath.Join(f.state, "lock"), []byte(strconv.Itoa(80)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.wrote(d, w, host.FileWrite{Path: swappiness, By: by(80, "fettle")}, host.FileWrite{Path: dirtyRatio, Time: at, By: by(81, "sh")})
	f.record(func(w *override.Watch) bool {
		e, ok := w.Find(settingOf("vm.dirty_ratio"))
		return ok && e.Last != nil && e.Last.PID == 81 && last(73)(w)
	})
	// But the value that it left is what the next writer finds.
	if e, _ := f.record(func(*override.Watch) bool { return true }).Find(id); e.Value.Text != "30" {
		t.Errorf("after fettle's own write: %+v", e)
	}
	// Where events were lost, it is unknown whether something was written before.
	since := time.Now().Add(time.Minute)
	f.wrote(d, w, host.FileWrite{Time: since})
	f.record(func(w *override.Watch) bool { e, ok := w.Find(id); return ok && e.Since.Equal(since) })

	// Another daemon of the same boot goes on with what is known.
	d.end()
	ended := f.record(func(w *override.Watch) bool { return w.Ended != nil })
	d, _ = f.watched(Config{})
	e, _ = f.record(func(w *override.Watch) bool { return w.Ended == nil }).Find(id)
	if was, _ := ended.Find(id); e.Last == nil || e.Last.PID != was.Last.PID || e.Since.Equal(was.Since) {
		t.Errorf("after another start: %+v", e)
	}
	// Without a selection nothing is watched.
	f.undo()
	if err := d.follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.record(func(w *override.Watch) bool { return len(w.Settings) == 0 })
}

func TestWatchThatIsRefused(t *testing.T) {
	f := newFake(t, nil)
	f.tune("day", nil)
	if err := os.WriteFile(filepath.Join(f.state, override.WatchFile), []byte("\x00 no record"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Config{Open: f.open, Log: &f.log}
	d := New(c)
	m, err := d.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.beginWatch(m, nil, fs.ErrPermission)
	if err := d.begin(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	f.want(swappiness, "10")
	if w := f.record(func(*override.Watch) bool { return true }); w.Trouble != fs.ErrPermission.Error() {
		t.Errorf("record %+v", w)
	}
	if !strings.Contains(f.log.String(), "cannot watch which programs write values: permission denied") || !strings.Contains(f.log.String(), "earlier writers of values unknown:") {
		t.Errorf("log:\n%s", f.log.String())
	}
	d.end()
}

// However often a program writes, the daemon is woken a few times only.
func TestWriteQueueIsBounded(t *testing.T) {
	q := newWriteQueue(t.TempDir())
	w := &handedWatch{events: make(chan []host.FileWrite)}
	go q.fill(w)
	for i := range 3 * maxPending {
		w.events <- []host.FileWrite{{Path: "/x", By: by(i+1, "sh")}}
	}
	w.Close()
	<-q.ready
	var list []seenWrite
	if !root.Eventually(time.Minute, func() bool {
		more, err := q.take()
		list = append(list, more...)
		return err != nil
	}) {
		t.Fatal("the end of the watch was not told")
	}
	if len(list) > maxPending+1 || !slices.ContainsFunc(list, func(f seenWrite) bool { return f.Path == "" }) {
		t.Errorf("%d writes are kept; the loss is not told", len(list))
	}
	if last := list[len(list)-1]; last.By.PID != 3*maxPending {
		t.Errorf("the last is %+v", last)
	}
}
