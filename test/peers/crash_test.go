package peers

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/root"
)

// crashProfile is what TuneD and fettle tune in the comparison.
const crashProfile = "network-latency"

// subject is a tuner on an invented machine of its own. A step that is cut short
// by the kill is no error.
type subject struct {
	t       *testing.T
	machine *root.Machine
	root    *root.Root
	before  root.Tree
	// tune and undo are the two jobs.
	tune, undo func()
	// recover is what an administrator does after a kill: start it again and have
	// it give everything back. It returns what the tuner says when it refuses.
	recover func() (refused string)
	// reset is a last resort that the tuner's manual has for that; nil where it
	// has none.
	reset func()
}

// tuner is a program whose promise is put to the test.
type tuner struct {
	name string
	on   func(t *testing.T) *subject
}

var (
	tuned   = tuner{"TuneD", newTuned}
	saptune = tuner{"saptune", newSaptune}
	fettle  = tuner{"fettle", newFettle}
)

func newSubject(t *testing.T, o root.Options) *subject {
	t.Helper()
	s := &subject{t: t, machine: root.NewMachine(t)}
	var err error
	if s.before, err = root.ReadTree(s.machine.Dir); err != nil {
		t.Fatal(err)
	}
	o.Machine, o.Stubs = s.machine, root.TunerStubs()
	s.root = root.New(t, o)
	return s
}

// run runs a command; it may fail only where the command was killed.
func (s *subject) run(argv ...string) {
	s.t.Helper()
	out, code := s.root.Run(argv...)
	// An exit code of 7 is fettle's word for "this machine lacks some of it".
	if code != 0 && code != 7 && code != -1 {
		s.t.Fatalf("%s: exit %d: %s", strings.Join(argv, " "), code, out)
	}
}

func newFettle(t *testing.T) *subject {
	s := newSubject(t, root.Options{
		Binds: []root.Bind{{Source: root.Program(t, "./cmd/fettle"), Target: "/usr/bin/fettle", ReadOnly: true}},
	})
	s.tune = func() { s.run("fettle", "tune", crashProfile) }
	s.undo = func() { s.run("fettle", "undo") }
	s.recover = func() string {
		out, code := s.root.Run("fettle", "undo")
		if code == 0 {
			return ""
		}
		return out
	}
	return s
}

// newTuned is TuneD as its unit starts it, with the selection in its own file,
// so that it knows after a kill what it was to do.
func newTuned(t *testing.T) *subject {
	s := newSubject(t, root.Options{Files: map[string]string{
		"/etc/tuned/active_profile": crashProfile + "\n",
		"/etc/tuned/profile_mode":   "manual\n",
	}})
	bus := s.root.StartBus()
	var daemon *root.Daemon
	applied := 0
	start := func() {
		daemon = s.root.Start("/usr/sbin/tuned", "--log")
		selected, _ := s.root.Run("cat", "/etc/tuned/active_profile")
		wanted := applied
		if strings.TrimSpace(selected) != "" {
			wanted++
		}
		ready := func() bool {
			applied = strings.Count(s.root.TunedLog(), "static tuning from profile")
			return !daemon.Running() || applied >= wanted && bus.Owned(root.TunedName)
		}
		if !root.Eventually(2*time.Minute, ready) {
			t.Fatalf("tuned does not begin\n%s", s.root.TunedLog())
		}
	}
	off := func() {
		out, code := s.root.Run("tuned-adm", "off")
		// A daemon that is killed while it answers ends a little later.
		if code != 0 && !root.Eventually(time.Minute, func() bool { return !daemon.Running() }) {
			t.Fatalf("tuned-adm off: exit %d: %s", code, out)
		}
		if daemon.Running() {
			daemon.Signal("TERM")
		}
	}
	s.tune, s.undo = start, off
	s.recover = func() string {
		if daemon.Running() {
			daemon.Signal("KILL")
		}
		start()
		if !daemon.Running() {
			return daemon.Output() + s.root.TunedLog()
		}
		off()
		return ""
	}
	return s
}

// outcome is what one kill left behind.
type outcome struct {
	at      string // the point, "" where the job came to its end before it
	refused string
	left    []string
	// lost is what not even the last resort gave back.
	lost []string
}

// The two jobs in which a tuner is killed.
const (
	whileTuning  = "tuning"
	whileUndoing = "undoing"
)

// cut does a job on a new machine, kills the tuner at the n-th point of it
// (testroot.Killer) or, where there are fewer, at its end, and lets it recover.
func (p tuner) cut(t *testing.T, job string, n int) (o outcome) {
	t.Helper()
	// The machine ends with its subtest: there will be many.
	t.Run(fmt.Sprintf("%s %s %d", p.name, job, n), func(t *testing.T) {
		s := p.on(t)
		do := s.tune
		if job == whileUndoing {
			s.tune()
			do = s.undo
		}
		k := s.root.KillAtWrite(n)
		do()
		k.Close()
		o = outcome{at: k.Killed(), refused: s.recover()}
		o.left = kernelValues(t, s.machine, s.before)
		if o.lost = o.left; o.refused != "" && s.reset != nil {
			s.reset()
			o.lost = kernelValues(t, s.machine, s.before)
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	return o
}

// TestTunedLosesWhatItHadBefore is the negative control of the crash matrix:
// TuneD, killed while it tunes or with a profile in force, and started again,
// does not give the values back; fettle on the same machine, killed in the same
// way, does. If this ever fails for TuneD, the matrix says less than we think.
func TestTunedLosesWhatItHadBefore(t *testing.T) {
	root.Real(t, "starts TuneD, and builds fettle")
	const middle, end = 15, 1000
	for _, n := range []int{middle, end} {
		theirs, ours := tuned.cut(t, whileTuning, n), fettle.cut(t, whileTuning, n)
		if killed := n == middle; killed != (theirs.at != "") || killed != (ours.at != "") {
			t.Errorf("point %d: TuneD was killed at %q, fettle at %q", n, theirs.at, ours.at)
		}
		if len(theirs.left) < 5 {
			t.Errorf("point %d, %s: TuneD left only %d values changed: %v", n, theirs.at, len(theirs.left), theirs.left)
		}
		if ours.refused != "" || len(ours.left) > 0 {
			t.Errorf("point %d, %s: fettle left %v\n%s", n, ours.at, ours.left, ours.refused)
		}
	}
}

// TestKilledEverywhere kills each program at every point of tuning and of
// undoing, and counts after how many it gave everything back. FETTLE_UPDATE_GOLDEN=1
// writes the counts into the manual: they are those of the versions at hand.
func TestKilledEverywhere(t *testing.T) {
	nightly(t)
	var rows strings.Builder
	rows.WriteString("| program | killed while | points | everything given back | refused to | values left, at most |\n|---|---|---|---|---|---|\n")
	programs := 0
	for _, p := range []tuner{tuned, saptune, fettle} {
		t.Run(p.name, func(t *testing.T) {
			if p.name == saptune.name {
				needSaptune(t)
			}
			bad := 0
			for _, job := range []string{whileTuning, whileUndoing} {
				points, back, refused, most := 0, 0, 0, 0
				for n := 1; ; n++ {
					o := p.cut(t, job, n)
					if o.refused != "" || len(o.left) > 0 {
						t.Logf("%s, point %d, %s: left %d values %v %s", job, n, o.at, len(o.left), o.left, o.refused)
					}
					if o.at == "" && job == whileUndoing {
						// It was not killed: what is there says that the test sees it.
						if o.refused != "" || len(o.left) > 0 {
							t.Errorf("not killed, and yet left %v %s", o.left, o.refused)
						}
						break
					}
					if p.name == saptune.name && len(o.lost) > 0 {
						t.Errorf("point %d, %s: saptune's last resort, of which the manual tells, left %v", n, o.at, o.lost)
					}
					points++
					switch {
					case o.refused != "":
						refused++
					case len(o.left) == 0:
						back++
					}
					if most = max(most, len(o.left)); o.at == "" {
						break
					}
				}
				if points < 20 {
					t.Errorf("only %d points while %s", points, job)
				}
				bad += points - back
				fmt.Fprintf(&rows, "| %s | %s | %d | %d | %d | %d |\n", p.name, job, points, back, refused, most)
			}
			if p.name == fettle.name && bad > 0 {
				t.Errorf("fettle did not give everything back after %d kills", bad)
			}
			if p.name != fettle.name && bad == 0 {
				t.Errorf("%s gave everything back after each kill: it is no negative control any more", p.name)
			}
			programs++
		})
	}
	t.Logf("\n%s", rows.String())
	if programs == 3 && !t.Failed() && os.Getenv("FETTLE_UPDATE_GOLDEN") == "1" {
		root.Manual(t, "after-a-crash.md", root.Generated{Name: "kills", Text: rows.String()})
	}
}

// kernelValues are the differences below /proc and /sys.
func kernelValues(t *testing.T, m *root.Machine, before root.Tree) []string {
	t.Helper()
	after, err := root.ReadTree(m.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range before.Diff(after) {
		// A plain file shows what was written last; that the kernel ends a line
		// and puts brackets around a choice is its own doing.
		same := setting.ActiveWord(strings.TrimSpace(d.Before)) == setting.ActiveWord(strings.TrimSpace(d.After))
		if !same && (strings.HasPrefix(d.Path, "/proc/") || strings.HasPrefix(d.Path, "/sys/")) {
			out = append(out, d.String())
		}
	}
	return out
}
