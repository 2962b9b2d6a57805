package daemon

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
)

// fakeClock stands still until a test moves it.
type fakeClock struct {
	now time.Time
	up  time.Duration // beyond an hour
}

func (c *fakeClock) Now() time.Time                    { return c.now }
func (c *fakeClock) SinceBoot() (time.Duration, error) { return time.Hour + c.up, nil }

// fake is a machine of plain files with two profiles: what the daemon decides
// is seen here, what a kernel does with it in the process and QEMU tests.
type fake struct {
	t     *testing.T
	dir   string
	state string
	clock *fakeClock
	log   bytes.Buffer
	next  time.Time // what the clock was armed for
	// machine changes what the daemon and the command line open.
	machine func(*host.Host)
	at      func(point string) // of the engine
}

func newFake(t *testing.T, files map[string]string) *fake {
	f := &fake{t: t, dir: t.TempDir(), clock: &fakeClock{now: time.Date(2026, 11, 20, 9, 0, 0, 0, time.Local)}}
	f.state = filepath.Join(f.dir, "state")
	for p, text := range map[string]string{
		"/proc/sys/kernel/random/boot_id":          "boot-1",
		"/proc/sys/vm/swappiness":                  "60",
		"/proc/sys/vm/dirty_ratio":                 "20",
		"/sys/block/sda/queue/read_ahead_kb":       "128",
		"/sys/block/sda/removable":                 "0",
		"/etc/tuned/day/tuned.conf":                "[sysctl]\nvm.swappiness=10\nvm.dirty_ratio=40\n[disk]\nreadahead=>4096",
		"/etc/tuned/night/tuned.conf":              "[sysctl]\nvm.swappiness=30",
		"/etc/tuned/recommend.d/50-recommend.conf": "[night]",
	} {
		f.write(p, text)
	}
	for p, text := range files {
		f.write(p, text)
	}
	return f
}

func (f *fake) write(p, text string) {
	f.t.Helper()
	machine.WriteFile(f.t, f.dir, p, text+"\n")
}

func (f *fake) read(p string) string {
	f.t.Helper()
	b, err := os.ReadFile(filepath.Join(f.dir, p))
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

func (f *fake) want(p, value string) {
	f.t.Helper()
	if got := f.read(p); got != value {
		f.t.Errorf("%s is %q, want %q\n%s", p, got, value, f.log.String())
	}
}

func (f *fake) open(context.Context) (*Machine, error) {
	h := host.Mounted(f.dir)
	h.Clock = f.clock
	if f.machine != nil {
		f.machine(h)
	}
	main, err := profile.ReadMain(h)
	if err != nil {
		return nil, err
	}
	l := profile.Loader{Host: h, Main: main, Dirs: profile.SearchPath(main)}
	kinds := table.Kinds(h)
	return &Machine{Loader: l, Kinds: kinds, Engine: &tune.Engine{
		Host: h, Kinds: kinds, Plugins: table.All, StateDir: f.state, Main: main, ProfileDirs: l.Dirs, User: "test", Reason: "test", At: f.at,
	}}, nil
}

// start is the start of a daemon process.
func (f *fake) start(c Config) *Daemon {
	f.t.Helper()
	c.Open, c.Log = f.open, &f.log
	d := New(c)
	d.wake = func(next time.Time) { f.next = next }
	m, err := d.open(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	if err := d.begin(f.t.Context(), m); err != nil {
		f.t.Fatal(err)
	}
	return d
}

// tune is what fettle tune does while the daemon runs.
func (f *fake) tune(name string, try *journal.Try) {
	f.t.Helper()
	m, err := f.open(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	p, err := m.Loader.Load(f.t.Context(), name)
	if err != nil {
		f.t.Fatal(err)
	}
	sel, err := tune.NewSelection(p, p.Names, tune.ModeManual)
	if err != nil {
		f.t.Fatal(err)
	}
	_, err = m.Engine.Apply(f.t.Context(), func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
		return m.Engine.PlanProfile(ctx, p, s)
	}, tune.ApplyOptions{Kind: journal.Tune, Selection: sel, Try: try})
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) undo(ids ...int) {
	f.t.Helper()
	m, err := f.open(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := m.Engine.Undo(f.t.Context(), ids...); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) journal() *journal.State {
	f.t.Helper()
	m, _ := f.open(f.t.Context())
	s, err := m.Engine.State()
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

const swappiness, dirtyRatio, readAhead = "/proc/sys/vm/swappiness", "/proc/sys/vm/dirty_ratio", "/sys/block/sda/queue/read_ahead_kb"

func (f *fake) link(p, target string) {
	f.t.Helper()
	machine.Write(f.t, f.dir, map[string]string{p: "-> " + target})
}
