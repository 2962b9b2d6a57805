package peers

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	testkitmachine "fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// followLoad is tuned-main.conf with dynamic tuning that looks every second.
const followLoad = "daemon = 1\ndynamic_tuning = 1\nsleep_interval = 1\nupdate_interval = 1\nenable_dbus = 0\nenable_unix_socket = 0\n"

// loadFile stands for /proc/loadavg; its load is set in place, so that no reader
// reads half of it.
type loadFile struct {
	t    *testing.T
	path string
}

func newLoad(t *testing.T) loadFile {
	l := loadFile{t, filepath.Join(t.TempDir(), "loadavg")}
	if err := os.WriteFile(l.path, []byte("0.50 0.50 0.50 1/100 4711\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l loadFile) set(load string) {
	l.t.Helper()
	f, err := os.OpenFile(l.path, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(load)
		f.Close()
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l loadFile) bind() testkitroot.Bind {
	return testkitroot.Bind{Source: l.path, Target: "/proc/loadavg"}
}

// latency is the limit on wake-up latency that this kernel keeps to, in
// microseconds.
func latency(t *testing.T) uint32 {
	t.Helper()
	b, err := os.ReadFile("/dev/cpu_dma_latency")
	if err != nil || len(b) != 4 {
		t.Fatalf("/dev/cpu_dma_latency: %v, %d bytes", err, len(b))
	}
	return binary.NativeEndian.Uint32(b)
}

// TestLatencyFollowsTheLoadAsTuneD: one profile, one load, this kernel: TuneD and
// fettle ask for the same limit on wake-up latency, and a kill -9 ends it.
func TestLatencyFollowsTheLoadAsTuneD(t *testing.T) {
	testkitroot.Disposable(t)
	if _, err := os.Stat("/dev/cpu_dma_latency"); err != nil {
		testkitroot.Missing(t, "this kernel has no /dev/cpu_dma_latency")
	}
	none := latency(t)
	if none <= 1000 {
		testkitroot.Missing(t, "somebody else holds a latency of %d µs on this machine", none)
	}
	program := testkitroot.Program(t, "./cmd/fettle")
	load := newLoad(t)
	for _, tuner := range []string{"tuned", "fettle"} {
		t.Run(tuner, func(t *testing.T) {
			root := testkitroot.New(t, testkitroot.Options{
				Live: true, Stubs: liveStubs(),
				Binds: []testkitroot.Bind{{Source: program, Target: "/usr/bin/fettle", ReadOnly: true}, load.bind()},
				Files: map[string]string{
					"/etc/tuned/tuned-main.conf":       followLoad,
					"/etc/tuned/follow/tuned.conf":     "[cpu]\n",
					"/usr/lib/tuned/follow/tuned.conf": "[cpu]\n",
				},
			})
			var d *testkitroot.Daemon
			if tuner == "tuned" {
				d = root.Start("/usr/sbin/tuned", "--no-dbus", "--log", "--profile", "follow")
			} else {
				d = root.Start("fettle", "daemon", "--tuned=false")
				root.Must("fettle", "tune", "follow")
			}
			for _, step := range []struct {
				load string
				want uint32
			}{{"0.50", 100}, {"0.19", 1000}, {"0.20", 100}, {"0.00", 1000}} {
				load.set(step.load)
				if !testkitroot.Eventually(time.Minute, func() bool { return latency(t) == step.want }) {
					t.Fatalf("load %s: the latency is %d µs, want %d\n%s\n%s", step.load, latency(t), step.want, d.Output(), root.TunedLog())
				}
			}
			if tuner == "fettle" {
				if out := root.Must("fettle", "status"); !strings.Contains(out, "dynamic tuning: on (/etc/tuned/tuned-main.conf:2), every 1 s") {
					t.Errorf("status:\n%s", out)
				}
				if out := root.Must("fettle", "verify", "--all"); !strings.Contains(out, "dynamic") || !strings.Contains(out, "follows the load") {
					t.Errorf("verify:\n%s", out)
				}
			}
			d.Signal("KILL")
			if !testkitroot.Eventually(time.Minute, func() bool { return latency(t) == none }) {
				t.Errorf("after kill -9 the latency is %d µs, want %d", latency(t), none)
			}
			if tuner == "fettle" {
				if out := root.Must("fettle", "status"); !strings.Contains(out, "but fettle's daemon is not running") {
					t.Errorf("status without the daemon:\n%s", out)
				}
				root.Must("fettle", "undo")
				for _, option := range []string{"load_threshold", "latency_low", "latency_high"} {
					plugin.Proves(t, plugin.Here(), "cpu", option)
				}
			}
		})
	}
}

// TestKilledWhileFollowing kills the daemon while a value that outlives it stands
// at a level: fettle undo gives back what was there before. TuneD is the negative
// control: it gives back its own idea of normal.
func TestKilledWhileFollowing(t *testing.T) {
	testkitroot.Real(t, "runs TuneD")
	const clock = "sys/devices/platform/eeepc/cpufv"
	program := testkitroot.Program(t, "./cmd/fettle")
	load := newLoad(t)
	start := func() (*testkitroot.Root, func() string) {
		machine := testkitroot.NewMachine(t)
		testkitmachine.WriteFile(t, machine.Dir, clock, "0x300\n")
		root := testkitroot.New(t, testkitroot.Options{
			Machine: machine, Stubs: testkitroot.TunerStubs(),
			Binds: []testkitroot.Bind{{Source: program, Target: "/usr/bin/fettle", ReadOnly: true}, load.bind()},
			Files: map[string]string{
				"/etc/tuned/tuned-main.conf":   followLoad,
				"/etc/tuned/follow/tuned.conf": "[eeepc_she]\n",
			},
		})
		return root, func() string {
			b, err := os.ReadFile(filepath.Join(machine.Dir, clock))
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(string(b))
		}
	}
	levels := func(d *testkitroot.Daemon, now func() string) {
		t.Helper()
		for _, step := range []struct{ load, want string }{{"0.60", "1"}, {"0.40", "2"}, {"0.50", "2"}, {"0.90", "1"}, {"0.10", "2"}} {
			load.set(step.load)
			if !testkitroot.Eventually(time.Minute, func() bool { return now() == step.want }) {
				t.Fatalf("load %s: the clock is %q, want %q\n%s", step.load, now(), step.want, d.Output())
			}
		}
		d.Signal("KILL")
	}

	root, now := start()
	levels(root.Start("/usr/sbin/tuned", "--no-dbus", "--log", "--profile", "follow"), now)
	again := root.Start("/usr/sbin/tuned", "--no-dbus", "--log", "--profile", "follow")
	load.set("0.50")
	testkitroot.Eventually(time.Minute, func() bool { return strings.Count(root.TunedLog(), "static tuning from profile") > 1 })
	again.Signal("TERM")
	if v := now(); v == "0" || strings.HasPrefix(v, "0x300") {
		t.Errorf("TuneD gives %q back: this control says nothing any more", v)
	}

	root, now = start()
	d := root.Start("fettle", "daemon", "--tuned=false")
	root.Must("fettle", "tune", "follow")
	if !testkitroot.Eventually(time.Minute, func() bool { _, err := os.Stat(root.Path("/var/lib/fettle/journal")); return err == nil }) {
		t.Fatal(d.Output())
	}
	size := func() int64 {
		st, err := os.Stat(root.Path("/var/lib/fettle/journal"))
		if err != nil {
			t.Fatal(err)
		}
		return st.Size()
	}
	load.set("0.90")
	if !testkitroot.Eventually(time.Minute, func() bool { return now() == "1" }) {
		t.Fatalf("the clock is %q\n%s", now(), d.Output())
	}
	before := size()
	levels(d, now)
	if after := size(); after != before {
		t.Errorf("the journal has grown by %d bytes while the clock followed the load", after-before)
	}
	out, code := root.Run("fettle", "verify")
	if code != 3 || !strings.Contains(out, "needs-daemon") {
		t.Errorf("verify after the kill: exit %d\n%s", code, out)
	}
	root.Must("fettle", "undo")
	if v := now(); v != "0" {
		t.Errorf("after undo the clock is %q, want 0", v)
	}
	for _, option := range []string{"load_threshold_normal", "load_threshold_powersave", "she_normal", "she_powersave"} {
		plugin.Proves(t, plugin.TuneD, "eeepc_she", option)
	}
}
