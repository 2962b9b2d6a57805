package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/profile"
)

func TestBootAppliesWhatWasAccepted(t *testing.T) {
	f := newFake(t, nil)
	f.tune("day", nil)
	// A boot: the kernel's values are its own again, and a package has changed
	// the profile meanwhile.
	f.write("/proc/sys/kernel/random/boot_id", "boot-2")
	f.write(swappiness, "60")
	f.write(dirtyRatio, "20")
	f.write(readAhead, "128")
	f.write("/etc/tuned/day/tuned.conf", "[sysctl]\nvm.swappiness=99")
	d := f.start(Config{})
	f.want(swappiness, "10")
	f.want(readAhead, "4096")
	if !d.IsRunning() || d.ActiveProfile() != "day" {
		t.Errorf("running %v, profile %q", d.IsRunning(), d.ActiveProfile())
	}
	s := f.journal()
	if t2 := s.InForce(); t2.Kind != journal.Boot || len(s.Live()) != 1 {
		t.Errorf("in force is a %s, live are %d", t2.Kind, len(s.Live()))
	}
	// A second start in the same boot has nothing to do.
	before := s.Generation
	f.start(Config{})
	if after := f.journal().Generation; after != before {
		t.Errorf("a start with everything in place wrote %d records", after-before)
	}
	f.undo()
	f.want(swappiness, "60")
	f.want(readAhead, "128")
}

func TestStartTakesBackWhatWasCutOff(t *testing.T) {
	f := newFake(t, nil)
	m, _ := f.open(t.Context())
	j, err := journal.Lock(f.state, journal.Options{BootID: "boot-1"})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := j.Begin(journal.Begin{Kind: journal.Tune, BootID: "boot-1"})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := m.Kinds.Resolve(settingOf("vm.swappiness"))
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Stage(tx, []journal.Before{{Setting: plan, Before: text("60"), Want: text("1"), Lifetime: "runtime"}}); err != nil {
		t.Fatal(err)
	}
	j.Close()
	f.write(swappiness, "1") // and here the power went
	f.start(Config{})
	f.want(swappiness, "60")
}

func TestFollowsOthers(t *testing.T) {
	f := newFake(t, nil)
	d := f.start(Config{TuneD: true})
	// TuneD's rule without a preset: the recommended profile.
	if d.ActiveProfile() != "night" || f.read(profile.ProfileModeFile) != "auto" {
		t.Fatalf("profile %q, mode %q\n%s", d.ActiveProfile(), f.read(profile.ProfileModeFile), f.log.String())
	}
	f.clock.now = f.clock.now.Add(time.Minute)
	changed := d.Changed(t.Context())
	f.tune("day", nil)
	if err := d.follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d.ActiveProfile() != "day" || f.read(profile.ActiveProfileFile) != "day" || f.read(profile.ProfileModeFile) != "manual" {
		t.Errorf("profile %q, file %q, mode %q", d.ActiveProfile(), f.read(profile.ActiveProfileFile), f.read(profile.ProfileModeFile))
	}
	if e := <-changed; e != (ProfileChanged{"day", true, "OK"}) {
		t.Errorf("announced %v", e)
	}
	f.want(swappiness, "10")
	f.undo()
	if err := d.follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d.IsRunning() || d.ActiveProfile() != "" {
		t.Errorf("after an undo: running %v, %q", d.IsRunning(), d.ActiveProfile())
	}
	for _, name := range profile.TunedStateFiles {
		if _, err := os.Stat(filepath.Join(f.dir, name)); err == nil {
			t.Errorf("%s is left, and was not there before", name)
		}
	}
	f.want(swappiness, "60")
	// And the next start leaves it so.
	if d = f.start(Config{TuneD: true}); d.IsRunning() {
		t.Errorf("the next start brings %q into force\n%s", d.ActiveProfile(), f.log.String())
	}
}

func TestTuneDsPreset(t *testing.T) {
	f := newFake(t, map[string]string{profile.ActiveProfileFile: "day", profile.ProfileModeFile: "manual"})
	d := f.start(Config{TuneD: true})
	if d.ActiveProfile() != "day" {
		t.Errorf("profile %q, want the preset\n%s", d.ActiveProfile(), f.log.String())
	}
	if d := f.start(Config{}); d.ActiveProfile() != "day" {
		t.Errorf("without TuneD's name: %q", d.ActiveProfile())
	}
}

// TuneD leaves out what it does not know with a message: the switch is a success,
// and its verify compares what there is.
func TestUnknownOptionsAsTuneD(t *testing.T) {
	f := newFake(t, nil)
	ctx := t.Context()
	d := f.start(Config{TuneD: true})
	f.write("/etc/tuned/night/tuned.conf", "[sysctl]\nvm.swappiness=30\n[vm]\ndirty_byte=5\n[vmm]\ndirty_bytes=5\n")
	token := d.Capture(int(LevelWarning), 0)
	if ok, msg := d.Switch(ctx, "night"); !ok || msg != "OK" || !d.Verify(ctx, false) {
		t.Errorf("switch: %v, %s\n%s", ok, msg, f.log.String())
	}
	got := d.CaptureEnd(token)
	for _, want := range []string{`night/tuned.conf:4: [vm] dirty_byte: unknown option "dirty_byte"`, `night/tuned.conf:5: [vmm] type: unknown plug-in "vmm"`} {
		if !strings.Contains(got, want) || strings.Contains(got, "ERROR") {
			t.Errorf("captured %q, want warnings with %s", got, want)
		}
	}
	f.want(swappiness, "30")
}

func TestStopStartSwitchDisable(t *testing.T) {
	f := newFake(t, nil)
	ctx := t.Context()
	d := f.start(Config{TuneD: true})
	if ok, msg := d.Switch(ctx, "day"); !ok || msg != "OK" {
		t.Fatal(msg)
	}
	f.want(swappiness, "10")
	if ok, _ := d.Switch(ctx, "no-such"); ok || d.ActiveProfile() != "day" {
		t.Errorf("a profile that is not there: ok %v, now %q", ok, d.ActiveProfile())
	}
	f.want(swappiness, "10")
	if !d.Verify(ctx, false) {
		t.Errorf("verify failed\n%s", f.log.String())
	}
	f.write(swappiness, "44")
	token := d.Capture(int(LevelError), 0)
	if d.Verify(ctx, true) {
		t.Error("verify passed over a drift")
	}
	if got := d.CaptureEnd(token); !strings.Contains(got, "swappiness") || !strings.HasPrefix(got, "ERROR    ") {
		t.Errorf("captured %q", got)
	}
	f.write(swappiness, "10")
	if !d.Stop(ctx) || d.IsRunning() || d.ActiveProfile() != "day" {
		t.Errorf("stop: running %v, selected %q", d.IsRunning(), d.ActiveProfile())
	}
	f.want(swappiness, "60")
	if err := d.follow(ctx); err != nil || d.ActiveProfile() != "day" {
		t.Errorf("its own undo is taken for somebody's: %q %v", d.ActiveProfile(), err)
	}
	// A new daemon finds it selected: TuneD's files say so.
	if again := f.start(Config{TuneD: true}); again.ActiveProfile() != "day" || !again.IsRunning() {
		t.Errorf("after stop and a new start: %q\n%s", again.ActiveProfile(), f.log.String())
	}
	if err := d.follow(ctx); err != nil || !d.IsRunning() || !d.Stop(ctx) {
		t.Errorf("stop again: %v", err)
	}
	// A switch while it is stopped only selects, as in TuneD.
	if ok, msg := d.Switch(ctx, "night"); !ok || d.IsRunning() {
		t.Errorf("switch while stopped: %s, running %v", msg, d.IsRunning())
	}
	if !d.Start(ctx) || !d.IsRunning() {
		t.Errorf("start\n%s", f.log.String())
	}
	f.want(swappiness, "30")
	if !d.Disable(ctx) || d.IsRunning() || d.ActiveProfile() != "" || d.Start(ctx) {
		t.Errorf("off: running %v, %q", d.IsRunning(), d.ActiveProfile())
	}
	f.want(swappiness, "60")
	f.want(profile.ActiveProfileFile, "")
	if d = f.start(Config{TuneD: true}); d.IsRunning() {
		t.Errorf("off does not last: %q", d.ActiveProfile())
	}
}

func TestScheduleIsAState(t *testing.T) {
	f := newFake(t, map[string]string{"/etc/fettle/schedule": "Mon-Fri 08:00 = day\nMon-Fri 18:00 = night"})
	c := Config{Schedule: "/etc/fettle/schedule"}
	d := f.start(c) // Friday, nine o'clock: the machine was off at eight
	f.want(swappiness, "10")
	if want := time.Date(2026, 11, 20, 18, 0, 0, 0, time.Local); !f.next.Equal(want) {
		t.Errorf("sleeps until %v, want %v", f.next, want)
	}
	at := func(h, m int) {
		t.Helper()
		f.clock.now = time.Date(2026, 11, 20, h, m, 0, 0, time.Local)
		if err := d.clock(t.Context(), clockEvent{}); err != nil {
			t.Fatal(err)
		}
	}
	at(18, 0)
	f.want(swappiness, "30")
	at(12, 0) // the clock is set back
	f.want(swappiness, "10")
	at(18, 0)
	// By hand later than the entry: it stays, also over a start, until the next.
	f.clock.now = f.clock.now.Add(time.Hour)
	f.tune("day", nil)
	at(19, 30)
	f.want(swappiness, "10")
	d = f.start(c)
	f.want(swappiness, "10")
	f.clock.now = time.Date(2026, 11, 23, 18, 0, 0, 0, time.Local)
	if err := d.clock(t.Context(), clockEvent{}); err != nil {
		t.Fatal(err)
	}
	f.want(swappiness, "30")
	// A mistake in the file leaves everything as it is.
	f.write("/etc/fettle/schedule", "25:00 = day")
	if err := d.keepSchedule(t.Context()); err == nil || !strings.Contains(err.Error(), "/etc/fettle/schedule:1") {
		t.Errorf("error %v", err)
	}
	f.want(swappiness, "30")
}

func TestNewDeviceGetsItsValues(t *testing.T) {
	f := newFake(t, nil)
	f.tune("day", nil)
	d := f.start(Config{})
	f.write(swappiness, "44") // written by another program: a new device is not a reason to overwrite it
	f.write("/sys/block/sdb/queue/read_ahead_kb", "128")
	f.write("/sys/block/sdb/removable", "0")
	added := []Uevent{{Action: "add", Path: "/devices/pci0/sdb", Subsystem: "block"}}
	if err := d.plugged(t.Context(), added); err != nil {
		t.Fatal(err)
	}
	f.want("/sys/block/sdb/queue/read_ahead_kb", "4096")
	f.want(swappiness, "44")
	if n := len(f.journal().Live()); n != 2 {
		t.Errorf("%d live transactions", n)
	}
	// The disk goes and another comes under its name.
	f.write("/sys/block/sdb/queue/read_ahead_kb", "256")
	if err := d.plugged(t.Context(), added); err != nil {
		t.Fatal(err)
	}
	f.want("/sys/block/sdb/queue/read_ahead_kb", "4096")
	// One undo of what is in force takes all of it, the device's included.
	f.write(swappiness, "10")
	f.undo(f.journal().InForce().ID)
	f.want("/sys/block/sdb/queue/read_ahead_kb", "256") // what the disk that is there now came with
	f.want(readAhead, "128")
	f.want(swappiness, "60")
	if n := len(f.journal().Live()); n != 0 {
		t.Errorf("%d transactions are left", n)
	}
}

// A CPU goes offline or comes back, and the kernel recomputes the base slice.
func TestCPUHotplugTakesValuesBack(t *testing.T) {
	const slice = "/sys/kernel/debug/sched/base_slice_ns"
	f := newFake(t, map[string]string{slice: "2100000", "/etc/tuned/slice/tuned.conf": "[sysfs]\n" + slice + "=4000000\n[sysctl]\nvm.swappiness=10"})
	f.tune("slice", nil)
	d := f.start(Config{})
	for _, action := range []string{"offline", "online"} {
		f.write(slice, "1400000")
		f.write(swappiness, "44") // written by another program
		if err := d.plugged(t.Context(), []Uevent{{Action: action, Path: "/devices/system/cpu/cpu1", Subsystem: "cpu"}}); err != nil {
			t.Fatal(err)
		}
		f.want(slice, "4000000")
		f.want(swappiness, "44")
	}
	f.write(slice, "1400000")
	if err := d.plugged(t.Context(), []Uevent{{Action: "add", Path: "/devices/pci0/sdb", Subsystem: "block"}}); err != nil {
		t.Fatal(err)
	}
	f.want(slice, "1400000") // no CPU has come or gone
}

func TestTrialIsNotSuperseded(t *testing.T) {
	f := newFake(t, nil)
	f.tune("night", nil)
	d := f.start(Config{})
	f.tune("day", &journal.Try{Until: time.Now().Add(time.Hour), SinceBoot: 2 * time.Hour})
	trial := f.journal().InForce().ID
	if err := d.follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.write("/sys/block/sdb/queue/read_ahead_kb", "128")
	f.write("/sys/block/sdb/removable", "0")
	if err := d.plugged(t.Context(), []Uevent{{Action: "add", Path: "/devices/sdb", Subsystem: "block"}}); err != nil {
		t.Fatal(err)
	}
	if now := f.journal().InForce().ID; now != trial {
		t.Errorf("transaction %d stands in for the trial %d", now, trial)
	}
	m, _ := f.open(t.Context())
	if _, err := m.Engine.Confirm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.want("/sys/block/sdb/queue/read_ahead_kb", "4096") // now it belongs to something that stays
	if d.deadline != nil {
		t.Error("the deadline of a confirmed trial is still watched")
	}
}

func TestResumeBringsBackWhatFirmwareReset(t *testing.T) {
	f := newFake(t, nil)
	f.tune("day", nil)
	d := f.start(Config{})
	f.write(readAhead, "128") // as before fettle: the firmware
	f.write(swappiness, "44") // another program
	f.write(dirtyRatio, "20") // as before fettle
	if err := d.resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.want(readAhead, "4096")
	f.want(dirtyRatio, "40")
	f.want(swappiness, "44")
	if !strings.Contains(f.log.String(), "vm.swappiness is 44, the active profile wants 10") {
		t.Errorf("the drift is not reported:\n%s", f.log.String())
	}
}

func TestEnforceGivesUp(t *testing.T) {
	f := newFake(t, nil)
	f.tune("day", nil)
	d := f.start(Config{})
	for i := range maxFights + 3 {
		f.write(swappiness, "44")
		if err := d.enforce(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := "10"
		if i >= maxFights {
			want = "44"
		}
		f.want(swappiness, want)
	}
	if n := strings.Count(f.log.String(), "corrections; no longer corrected"); n != 1 {
		t.Errorf("said %d times that it gives up", n)
	}
}

func TestInstances(t *testing.T) {
	f := newFake(t, map[string]string{
		"/sys/block/sdb/queue/read_ahead_kb": "128", "/sys/block/sdb/removable": "0",
	})
	ctx := t.Context()
	f.tune("day", nil)
	d := f.start(Config{})
	if ok, _, list := d.Instances("disk"); !ok || len(list) != 1 || list[0] != [2]string{"disk", "disk"} {
		t.Errorf("instances %v", list)
	}
	if ok, msg := d.CreateInstance(ctx, "disk", "slow", map[string]string{"devices": "sdb", "readahead": "64"}); !ok {
		t.Fatal(msg)
	}
	f.want("/sys/block/sdb/queue/read_ahead_kb", "64")
	if _, _, devices := d.InstanceDevices("disk"); strings.Join(devices, " ") != "sda" {
		t.Errorf("devices of disk %v", devices)
	}
	if ok, msg := d.AcquireDevices(ctx, "sda", "slow"); !ok {
		t.Fatal(msg)
	}
	f.want(readAhead, "64")
	if ok, msg := d.AcquireDevices(ctx, "sdz", "slow"); ok || !strings.Contains(msg, "sdz") {
		t.Errorf("an unknown device: %v %s", ok, msg)
	}
	if ok, _ := d.CreateInstance(ctx, "script", "evil", map[string]string{"script": "/tmp/x"}); ok {
		t.Error("a script instance is taken")
	}
	if ok, msg := d.DestroyInstance(ctx, "slow"); !ok {
		t.Fatal(msg)
	}
	f.undo()
	f.want(readAhead, "128")
	f.want("/sys/block/sdb/queue/read_ahead_kb", "128")
}

// What a client made over the bus lasts as long as the daemon, as with TuneD: one
// that starts brings the selection into force as it was accepted, and nothing
// else stays behind.
func TestInstancesEndWithTheDaemon(t *testing.T) {
	const slow = "/sys/block/sdb/queue/read_ahead_kb"
	f := newFake(t, map[string]string{slow: "128", "/sys/block/sdb/removable": "0"})
	f.tune("day", nil)
	ofDay := f.read(slow)
	d := f.start(Config{})
	if ok, msg := d.CreateInstance(t.Context(), "disk", "slow", map[string]string{"devices": "sdb", "readahead": "64"}); !ok {
		t.Fatal(msg)
	}
	f.want(slow, "64")
	d = f.start(Config{})
	f.want(slow, ofDay)
	if _, _, list := d.Instances("disk"); len(list) != 1 {
		t.Errorf("instances %v, want the profile's one", list)
	}
	f.undo()
	f.want(slow, "128")
}
