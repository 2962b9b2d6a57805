package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/tune"
)

func TestLatencyFollowsTheLoad(t *testing.T) {
	l := newLab(t, "[cpu]\nload_threshold=0.3\nlatency_low=50\nlatency_high=cstate.id:9|700")
	l.tune("load", nil)
	d := l.run()
	for _, step := range []struct {
		load string
		want uint32
	}{{"0.50", 50}, {"0.30", 50}, {"0.29", 700}, {"0.00", 700}, {"12.00", 50}} {
		l.write("/proc/loadavg", step.load+" 0 0 1/1 1")
		l.interval()
		if l.latency != step.want {
			t.Errorf("load %s: latency %d, want %d\n%s", step.load, l.latency, step.want, l.log.String())
		}
	}
	if len(l.journal().Txs) != 1 {
		t.Errorf("a value that only a descriptor holds is in the journal: %d transactions", len(l.journal().Txs))
	}
	if v, met := l.verify(latencyPlace); v != plugin.Dynamic || !met {
		t.Errorf("verify: %q, met %v", v, met)
	}
	if !slices.Equal(slices.Compact(l.pulses), []time.Duration{10 * time.Second}) {
		t.Errorf("woken after %v", l.pulses)
	}
	d.end()
	if l.latency != noLatency {
		t.Errorf("latency %d after the end of the daemon", l.latency)
	}
	proved(t, "cpu", "load_threshold", "latency_low", "latency_high")
}

// TuneD's own thresholds, and the clock of an Eee PC, which the journal knows.
func TestClockFollowsTheLoad(t *testing.T) {
	l := newLab(t, "[eeepc_she]\nload_threshold_powersave=0.2\nload_threshold_normal=0.8\nshe_powersave=2\nshe_normal=1")
	l.tune("load", nil)
	l.want(cpufv, "0x300") // the command line follows nothing
	d := l.run()
	generation := int64(0)
	for _, step := range []struct{ load, want string }{
		{"0.50", "0x300"}, {"0.20", "2"}, {"0.50", "2"}, {"0.79", "2"}, {"0.80", "1"}, {"0.21", "1"}, {"0.00", "2"},
	} {
		l.write("/proc/loadavg", step.load+" 0 0 1/1 1")
		l.interval()
		l.want(cpufv, step.want)
		now := l.journal().Generation
		if generation != 0 && now != generation {
			t.Errorf("the journal has grown by %d records at load %s", now-generation, step.load)
		}
		generation = now
	}
	if v, met := l.verify(clockPlace); v != plugin.Dynamic || !met {
		t.Errorf("verify: %q, met %v", v, met)
	}
	// If nothing changes, the lock wakes no process.
	locked := func() time.Time {
		st, err := os.Stat(filepath.Join(l.state, "lock"))
		if err != nil {
			t.Fatal(err)
		}
		return st.ModTime()
	}
	was := locked()
	for range 3 {
		l.interval()
	}
	if now := locked(); !now.Equal(was) {
		t.Error("the lock is taken though nothing is to be written")
	}
	l.killed(d)
	if v, met := l.verify(clockPlace); v != plugin.NeedsDaemon || met {
		t.Errorf("verify without the daemon: %q, met %v", v, met)
	}
	l.undo()
	l.want(cpufv, "0")
	if len(l.journal().Live()) != 0 {
		t.Errorf("still live: %v", l.journal().Live())
	}
	proved(t, "eeepc_she", "load_threshold_powersave", "load_threshold_normal", "she_powersave", "she_normal")
}

func TestDiskFollowsItsLoad(t *testing.T) {
	l := newLab(t, "[disk]\napm=128\ndynamic=1")
	l.tune("load", nil)
	l.wantNow("APM", l.disk["-B"], "128")
	d := l.run()
	rest := func(n int) {
		for range n {
			l.interval()
		}
	}
	rest(5)
	l.wantNow("APM after five intervals at rest", l.disk["-B"], "128")
	rest(1)
	l.wantNow("APM after six", l.disk["-B"], "225")
	l.wantNow("standby timer", l.disk["-S"], "250")
	rest(2)
	l.wantNow("APM after eight", l.disk["-B"], "165")
	if v, met := l.verify(levelPlace); v != plugin.Dynamic || !met {
		t.Errorf("verify: %q, met %v", v, met)
	}
	l.asleep = true
	rest(1)
	l.wantNow("APM of a disk that sleeps", l.disk["-B"], "145")
	l.wantNow("timer of a disk that sleeps", l.disk["-S"], "210")
	l.asleep = false
	rest(1)
	l.wantNow("timer of a disk that has woken up", l.disk["-S"], "170")
	l.requests(2000, 1000)
	rest(1)
	l.wantNow("APM under load", l.disk["-B"], "145")
	for range 10 {
		l.requests(2000+len(l.pulses)*1000, 1000)
		rest(1)
	}
	l.wantNow("APM under long load", l.disk["-B"], "254")
	l.wantNow("timer under long load", l.disk["-S"], "0")
	rest(7)
	l.wantNow("APM at rest again", l.disk["-B"], "195")

	// The same selection once more leaves what follows the load alone.
	l.tune("load", nil)
	l.wantNow("APM after the same selection", l.disk["-B"], "195")
	if err := d.follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	// kill -9, and another daemon: it begins with the profile's own value.
	l.killed(d)
	again := l.run()
	l.wantNow("APM of the next daemon", l.disk["-B"], "128")
	rest(6)
	l.wantNow("APM of the next daemon at rest", l.disk["-B"], "225")
	if again.end(); l.disk["-B"] != "128" {
		t.Errorf("the end of the daemon leaves APM %s", l.disk["-B"])
	}
	l.undo()
	l.wantNow("APM after undo", l.disk["-B"], "200")
	l.wantNow("timer after undo", l.disk["-S"], "253") // the disk's own
	proved(t, "disk", "dynamic")
}

func TestSpeedFollowsTheTraffic(t *testing.T) {
	l := newLab(t, "[net]\nmtu=none")
	l.tune("load", nil)
	d := l.run()
	pass := func(bytes uint64) {
		l.traffic[0] += bytes
		l.traffic[1] += bytes
		l.write(ifStats+"rx_bytes", fmt.Sprint(l.traffic[0]))
		l.write(ifStats+"tx_bytes", fmt.Sprint(l.traffic[1]))
		l.interval()
	}
	// A twentieth of six tenths of a gigabit per second is 3932160 bytes.
	for range 5 {
		pass(3932159)
	}
	l.wantNow("speed", l.offered, allModes)
	pass(3932159)
	l.wantNow("speed at rest", l.offered, slowModes)
	if v, met := l.verify(speedPlace); v != plugin.Dynamic || !met {
		t.Errorf("verify: %q, met %v", v, met)
	}
	pass(3932160)
	l.wantNow("speed under load", l.offered, allModes)
	for range 6 {
		pass(0)
	}
	l.wantNow("speed at rest again", l.offered, slowModes)
	l.killed(d)
	l.undo()
	l.wantNow("speed after kill and undo", l.offered, allModes)
	proved(t, "net", "dynamic")
}

// A unit that says dynamic=0 keeps to its own values.
func TestNotDynamic(t *testing.T) {
	l := newLab(t, "[disk]\napm=128\ndynamic=0\n[net]\ndynamic=0")
	l.tune("load", nil)
	l.run()
	for range 8 {
		l.interval()
	}
	l.wantNow("APM", l.disk["-B"], "128")
	l.wantNow("speed", l.offered, allModes)
	if slices.ContainsFunc(l.pulses, func(p time.Duration) bool { return p != 0 }) {
		t.Errorf("the daemon wakes after %v", l.pulses)
	}
}

func TestDynamicTuningIsOffUnlessAskedFor(t *testing.T) {
	l := newLab(t, "[cpu]\n[disk]\napm=128\ndynamic=1\n[net]\n[eeepc_she]")
	l.write(mainConf, "")
	l.tune("load", nil)
	d := l.run()
	for range 8 {
		l.interval()
	}
	if len(d.loops) != 0 || l.latency != noLatency || l.disk["-B"] != "128" || l.offered != allModes {
		t.Errorf("%d loops, latency %d, APM %s, speed %s", len(d.loops), l.latency, l.disk["-B"], l.offered)
	}
	l.want(cpufv, "0x300")
	if slices.ContainsFunc(l.pulses, func(p time.Duration) bool { return p != 0 }) {
		t.Errorf("the daemon wakes after %v", l.pulses)
	}
	if len(l.journal().Txs) != 1 {
		t.Errorf("%d transactions", len(l.journal().Txs))
	}
}

// Turned off while a level is on: the reload gives back what the profile itself
// says, and what the profile does not set is restored.
func TestTurnedOff(t *testing.T) {
	l := newLab(t, "[disk]\napm=128\n[eeepc_she]")
	l.write("/proc/loadavg", "0.00 0 0 1/1 1")
	l.tune("load", nil)
	d := l.run()
	for range 7 {
		l.interval()
	}
	l.wantNow("APM", l.disk["-B"], "195")
	l.want(cpufv, "2")
	l.write(mainConf, "dynamic_tuning=0")
	if !d.Reload(t.Context()) {
		t.Fatal(l.log.String())
	}
	l.wantNow("APM", l.disk["-B"], "128")
	l.wantNow("timer", l.disk["-S"], "253")
	l.want(cpufv, "0")
	if n := len(d.loops); n != 0 {
		t.Errorf("%d loops", n)
	}
	// From here on a change is another program's.
	l.write(cpufv, "1")
	l.undo()
	l.want(cpufv, "1")
	l.wantNow("APM after undo", l.disk["-B"], "200")
}

// A place that has followed the load and stands where it began is not fettle's once
// that is over: a value that could have been fettle's is another program's from then on.
func TestTurnedOffAtRest(t *testing.T) {
	l := newLab(t, "[eeepc_she]")
	l.tune("load", nil)
	d := l.run()
	l.interval() // a load between the thresholds
	l.want(cpufv, "0x300")
	if tune.Varying(l.journal(), clockPlace) == nil {
		t.Fatalf("the clock does not follow the load\n%s", l.log.String())
	}
	l.write(mainConf, "dynamic_tuning=0")
	if !d.Reload(t.Context()) {
		t.Fatal(l.log.String())
	}
	l.write(cpufv, "1")
	l.undo()
	l.want(cpufv, "1")
}

// A switch by another process takes the places back, also while they hold a
// level, and the daemon does not write into them any more.
func TestSwitchAwayFromTheLoad(t *testing.T) {
	l := newLab(t, "[disk]\n[eeepc_she]")
	l.write("/proc/loadavg", "0.00 0 0 1/1 1")
	l.tune("load", nil)
	d := l.run()
	for range 7 {
		l.interval()
	}
	l.wantNow("APM", l.disk["-B"], "195")
	l.tune("night", nil)
	l.wantNow("APM after the switch", l.disk["-B"], "200")
	l.want(cpufv, "0")
	for range 7 { // before the daemon has noticed
		l.interval()
	}
	l.wantNow("APM", l.disk["-B"], "200")
	if err := d.follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(d.loops) != 0 {
		t.Errorf("still following: %v", d.loops)
	}
	if strings.Contains(l.log.String(), "go back") {
		t.Errorf("said more than is to say:\n%s", l.log.String())
	}
	l.undo()
	l.wantNow("APM after undo", l.disk["-B"], "200")
}

// A value other than fettle's levels is another program's: it is left, named, and
// kept by undo.
func TestSomebodyElsesValueIsKept(t *testing.T) {
	l := newLab(t, "[disk]")
	l.tune("load", nil)
	l.run()
	for range 7 {
		l.interval()
	}
	l.disk["-B"] = "77"
	for range 7 {
		l.interval()
	}
	l.wantNow("APM", l.disk["-B"], "77")
	if !strings.Contains(l.log.String(), "hdparm:sda/apm holds 77: another program has changed it") {
		t.Errorf("not said:\n%s", l.log.String())
	}
	l.undo()
	l.wantNow("APM after undo", l.disk["-B"], "77")
	l.wantNow("timer after undo", l.disk["-S"], "253")
}

// On trial nothing follows the load but what a descriptor holds; once it is
// confirmed everything does.
func TestTrialDoesNotFollow(t *testing.T) {
	l := newLab(t, "[cpu]\n[disk]")
	d := l.run()
	l.tune("load", &journal.Try{Until: time.Now().Add(time.Hour), SinceBoot: 10 * time.Hour})
	if err := d.follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 7 {
		l.interval()
	}
	l.wantNow("APM on trial", l.disk["-B"], "200")
	if l.latency != 100 {
		t.Errorf("latency %d", l.latency)
	}
	m, _ := l.open(t.Context())
	if _, err := m.Engine.Confirm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 7 {
		l.interval()
	}
	l.wantNow("APM once confirmed", l.disk["-B"], "195")
}

// A disk that comes gets a loop and a before-image of its own; one that was there
// already keeps both when udev tells of it again.
func TestDisksComeAndGo(t *testing.T) {
	l := newLab(t, "[disk]")
	l.tune("load", nil)
	d := l.run()
	for range 7 {
		l.interval()
	}
	l.wantNow("APM", l.disk["-B"], "195")
	added := []Uevent{{Action: "add", Path: "/devices/pci0/sda", Subsystem: "block"}}
	before := l.journal().Generation
	l.devices <- added
	l.devices <- nil
	if after := l.journal().Generation; after != before {
		t.Errorf("%d records for a disk that was there", after-before)
	}
	l.interval()
	l.wantNow("APM", l.disk["-B"], "165")
	l.disk["-B"] = "254" // another disk, with another level of its own
	l.devices <- added
	l.devices <- nil
	l.wantNow("APM of the other disk", l.disk["-B"], "254")
	if len(d.loops) != 1 {
		t.Fatalf("%d loops", len(d.loops))
	}
	for range 7 {
		l.interval()
	}
	l.wantNow("APM of the other disk at rest", l.disk["-B"], "195")
	l.killed(d)
	l.undo()
	l.wantNow("APM after undo", l.disk["-B"], "254")
}
