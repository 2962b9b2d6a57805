package table

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/host/hosttest"
	"fettle.dev/fettle/internal/plugin"
	"fettle.dev/fettle/internal/plugin/plugintest"
	"fettle.dev/fettle/internal/profile"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testroot"
)

// TestAsTuneD applies one profile by Debian's TuneD and by our plug-ins to two
// copies of one invented machine and compares what is left. Plain files stand
// for the kernel, so the comparison is of what is written where; the few cases
// in which we write something else on purpose are in TestUnlikeTuneD.
func TestAsTuneD(t *testing.T) {
	if testing.Short() {
		t.Skip("runs TuneD")
	}
	for _, tt := range []struct {
		name, profile string
		writes        int // at least
	}{
		{"disks by name", `
[late]
type=disk
priority=5
readahead=1
scheduler_quantum=4
[first]
type=disk
devices=sd*,!sdb
readahead=>64
scheduler_quantum=16
[second]
type=disk
devices=!sda	!nvme*
elevator=none
readahead=8192 s
[third]
type=disk
devices=*
readahead=<4
[nothing left]
type=disk
elevator=bfq
`, 4},
		{"disks multiplied", `
[disk]
readahead_multiply=4
[cpu]
devices=!cpu0
governor=userspace|performance
pm_qos_resume_latency_us=4
`, 17},
		{"devices by udev", `
[a]
type=disk
devices_udev_regex=^DEVNAME=/dev/sd[b-z]$
readahead=512
[b]
type=disk
devices_udev_regex=^DEVPATH=/devices/.*/target0:0:0/
readahead=1024
[c]
type=disk
devices_udev_regex=SUBSYSTEM=blockx|^DEVTYPE=partition
readahead=2048
[d]
type=cpu
devices_udev_regex=^ID_TEST=one$
pm_qos_resume_latency_us=11
[e]
type=cpu
devices_udev_regex=^CURRENT_TAGS=:now:$
pm_qos_resume_latency_us=12
[f]
type=cpu
devices_udev_regex=^TAGS=:.*once.*:$
pm_qos_resume_latency_us=13
[g]
type=cpu
devices_udev_regex=^DEVLINKS=/dev/by-test/x$
pm_qos_resume_latency_us=14
[h]
type=cpu
devices_udev_regex=^USEC_INITIALIZED=123$
pm_qos_resume_latency_us=15
[rest]
type=cpu
devices_udev_regex=^SUBSYSTEM=cpu$
pm_qos_resume_latency_us=n/a
`, 10},
		{"cpus", `
[one]
type=cpu
devices=cpu[0-3]
governor=ondemand | performance
energy_performance_preference=performance
min_perf_pct=80
max_perf_pct=90
no_turbo=1
pm_qos_resume_latency_us=170
[two]
type=cpu
devices=cpu[4-5],cpu9
governor=conservative|schedutil
energy_perf_bias=power
energy_performance_preference=quiet|balance_power
min_perf_pct=10
[three]
type=cpu
energy_performance_preference=power
pm_qos_resume_latency_us=5
`, 20},
		{"memory and variables", `
[vm]
transparent_hugepages=never
transparent_hugepage.defrag=defer+madvise
[sysctl]
vm.swappiness=>5
vm.dirty_ratio=<5
net.core.somaxconn="4096"
net.ipv4.tcp_rmem=4096 87380 16777216
kernel.nothing=1
[sysfs]
/sys/devices/system/cpu/cpu[0-3]/power//energy_perf_bias=9
/sys/class/block/sd?/queue/nr_requests=100
/sys/class/block/*/queue/nothing=1
/sys/../etc/motd=x
`, 9},
		{"small ones", `
[usb]
devices=!2-*
autosuspend=1
[scsi_host]
devices=host7
alpm=medium_power
[audio]
timeout=10
reset_controller=1
`, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			theirs, calls := byTuneD(t, tt.profile)
			ours := byUs(t, tt.profile)
			if diff := cmp.Diff(theirs, ours); diff != "" {
				t.Errorf("(-TuneD +fettle):\n%s", diff)
			}
			if len(theirs) < tt.writes {
				t.Errorf("TuneD changed only %d values, want at least %d for a comparison worth the name: %v\n%v", len(theirs), tt.writes, theirs, calls)
			}
		})
	}
}

// TestUnlikeTuneD shows each deliberate difference from both sides.
func TestUnlikeTuneD(t *testing.T) {
	if testing.Short() {
		t.Skip("runs TuneD")
	}
	const text = `
[sda]
type=disk
devices=sda
elevator=cfq
[sdb]
type=disk
devices=sdb
readahead=4095
[usb]
devices=1-1
autosuspend=5
[cpu0]
type=cpu
devices=cpu0
governor=performance
energy_performance_preference=power
[cpu1]
type=cpu
devices=cpu1
pm_qos_resume_latency_us=cstate.name:C1E
energy_performance_preference=77
[scsi_host]
alpm=medium_power
`
	const host0 = "/sys/devices/pci0000:00/0000:00:05.0/host0/"
	theirs, _ := byTuneD(t, text)
	ours := byUs(t, text)
	for _, tt := range []struct{ why, path, theirs, ours string }{
		{"the schedulers of Linux before 5.0 are mapped", host0 + "target0:0:0/0:0:0:0/block/sda/queue/scheduler", "cfq", "bfq"},
		{"the kernel keeps whole pages of read-ahead", host0 + "target0:0:1/0:0:1:0/block/sdb/queue/read_ahead_kb", "4095", "4092"},
		{"autosuspend is in seconds, as documented", "/sys/devices/usb1/1-1/power/autosuspend", "0", "5"},
		{"the kernel refuses the preference under the governor performance",
			"/sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference", "power", "unchanged"},
		{"idle states are taken for one CPU, too, as in newer TuneD", "/sys/devices/system/cpu/cpu1/power/pm_qos_resume_latency_us", "unchanged", "4"},
		{"a preference may be a number, as in newer TuneD", "/sys/devices/system/cpu/cpufreq/policy1/energy_performance_preference", "unchanged", "77"},
		{"ports that take disks while running are left alone, as in newer TuneD",
			"/sys/devices/pci0000:00/0000:00:1f.2/ata7/host8/scsi_host/host8/link_power_management_policy", "medium_power", "unchanged"},
	} {
		left := func(changes map[string]string) string {
			if v, ok := changes[tt.path]; ok {
				return v
			}
			return "unchanged"
		}
		if left(theirs) != tt.theirs || left(ours) != tt.ours {
			t.Errorf("%s: %s: TuneD left %s and fettle %s, want %s and %s", tt.why, tt.path, left(theirs), left(ours), tt.theirs, tt.ours)
		}
	}
}

// udevDB is what udevd would have written about some of the CPUs, below
// /run/udev/data.
var udevDB = map[string]string{
	"+cpu:cpu1": "I:1\nE:ID_TEST=one\nV:1\n",
	"+cpu:cpu2": "I:2\nG:now\nQ:now\nV:1\n",
	"+cpu:cpu3": "I:3\nG:once\nG:other\nV:1\n",
	"+cpu:cpu4": "S:by-test/x\nI:4\nV:1\n",
	"+cpu:cpu5": "I:123\nE:ID_TEST=ones\nV:1\n",
}

// machine is the invented machine with a few devices more.
func machine(t *testing.T) *testroot.Machine {
	m := testroot.NewMachine(t)
	write := func(name, content string) { hosttest.Write(t, m.Dir, map[string]string{name: content}) }
	for i, d := range []string{"1-1", "2-1"} {
		dir := "/sys/devices/usb" + d[:1] + "/" + d
		write(dir+"/uevent", fmt.Sprintf("MAJOR=189\nMINOR=%d\nDEVNAME=bus/usb/001/00%d\nDEVTYPE=usb_device\n", i, i))
		write(dir+"/subsystem", "-> ../../../bus/usb")
		write(dir+"/power/autosuspend", "2\n")
		write("/sys/bus/usb/devices/"+d, "-> ../../../devices/usb"+d[:1]+"/"+d)
	}
	for i, cmd := range []string{"c017\n", "40006\n"} {
		name := fmt.Sprintf("host%d", 7+i)
		dir := "/sys/devices/pci0000:00/0000:00:1f.2/ata7/" + name
		write(dir+"/uevent", "DEVTYPE=scsi_host\n")
		write(dir+"/subsystem", "-> ../../../../../bus/scsi")
		write("/sys/bus/scsi/devices/"+name, "-> ../../../devices/pci0000:00/0000:00:1f.2/ata7/"+name)
		class := dir + "/scsi_host/" + name
		write(class+"/link_power_management_policy", "max_performance\n")
		write(class+"/ahci_port_cmd", cmd)
		write("/sys/class/scsi_host/"+name, "-> ../../devices/pci0000:00/0000:00:1f.2/ata7/"+name+"/scsi_host/"+name)
	}
	card := "/sys/devices/pci0000:00/0000:00:1b.0"
	write(card+"/uevent", "DRIVER=snd_hda_intel\n")
	write(card+"/subsystem", "-> ../../../bus/pci")
	write("/sys/bus/pci/drivers/snd_hda_intel/bind", "")
	write(card+"/driver", "-> ../../../bus/pci/drivers/snd_hda_intel")
	write(card+"/sound/card0/uevent", "")
	write(card+"/sound/card0/subsystem", "-> ../../../../../class/sound")
	write(card+"/sound/card0/device", "-> ../..")
	write("/sys/class/sound/card0", "-> ../../devices/pci0000:00/0000:00:1b.0/sound/card0")
	return m
}

const oracle = "/etc/tuned/oracle/tuned.conf"

// byTuneD returns what TuneD changes: path to value.
func byTuneD(t *testing.T, text string) (changes map[string]string, calls [][]string) {
	t.Helper()
	m := machine(t)
	before, err := testroot.ReadTree(m.Dir)
	if err != nil {
		t.Fatal(err)
	}
	db := t.TempDir()
	hosttest.Write(t, db, udevDB)
	r := testroot.New(t, testroot.Options{Machine: m, Stubs: testroot.TunerStubs(),
		Files: map[string]string{oracle: text}, Binds: []testroot.Bind{{Source: db, Target: "/run/udev/data", ReadOnly: true}}})
	r.TunedOnce("oracle")
	calls, err = r.Calls()
	if err != nil {
		t.Fatal(err)
	}
	changes = changed(t, m, before)
	if t.Failed() {
		t.Log(r.TunedLog())
	}
	return changes, calls
}

// byUs returns what our plug-ins change.
func byUs(t *testing.T, text string) map[string]string {
	t.Helper()
	ctx := context.Background()
	m := machine(t)
	hosttest.Write(t, filepath.Join(m.Dir, "/run/udev/data"), udevDB)
	before, err := testroot.ReadTree(m.Dir)
	if err != nil {
		t.Fatal(err)
	}
	p, err := (&profile.Loader{Host: hosttest.Mounted(t, map[string]string{"oracle/tuned.conf": text}), Dirs: []string{"/"}}).Load(ctx, "oracle")
	if err != nil {
		t.Fatal(err)
	}
	apply(t, host.Mounted(m.Dir), p)
	return changed(t, m, before)
}

// apply does what the planner does, without a journal: units in order, and of
// each the options for the whole machine before those of each device.
func apply(t *testing.T, h *host.Host, p *profile.Profile) {
	t.Helper()
	ctx := context.Background()
	kinds := Kinds(h)
	units := p.InOrder()
	assigned, problems := plugin.Assign(ctx, h, All, units)
	for _, pr := range problems {
		t.Log(pr)
	}
	types := map[string]bool{}
	for _, u := range units {
		pl, err := Lookup(u.Type)
		if err != nil {
			t.Fatal(err)
		}
		r := &plugin.Request{Host: h, Kinds: kinds, Unit: *u, Devices: assigned[u.Name], Later: types[u.Type],
			Original: func(s setting.Setting) (setting.Value, error) { return kinds.Read(ctx, s) }}
		types[u.Type] = true
		if pl.Devices != nil && len(r.Devices) == 0 {
			continue
		}
		for _, device := range append([]string{""}, r.Devices...) {
			for _, given := range u.Options {
				o, ok := pl.Option(given.Name)
				if !ok {
					t.Fatal(pl.UnknownOption(given))
				}
				if o.Control || o.PerDevice != (device != "") {
					continue
				}
				items, err := o.Plan(ctx, r, given, device)
				if err != nil {
					t.Fatal(err)
				}
				for _, it := range items {
					if write(t, kinds, it) {
						plugintest.Proves(t, plugintest.TuneD, u.Type, given.Name)
					}
				}
			}
		}
	}
}

// write says whether the item was to be written; where the place had the value
// already, TuneD had to leave it alone as well.
func write(t *testing.T, kinds setting.Kinds, it plugin.Item) bool {
	t.Helper()
	ctx := context.Background()
	if it.Verdict != "" {
		t.Logf("%s: %s: %s", it.Change.Setting, it.Verdict, it.Why)
		return false
	}
	s, err := kinds.Resolve(it.Change.Setting)
	if err != nil {
		t.Fatal(err)
	}
	if it.Change.Op != setting.Set {
		now, err := kinds.Read(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		have, want := number(t, now.Text), number(t, it.Change.Want.Text)
		if it.Change.Op == setting.Raise && want <= have || it.Change.Op == setting.Lower && want >= have {
			return false
		}
	}
	if err := kinds.Write(ctx, s, it.Change.Want); err != nil {
		t.Fatal(err)
	}
	return true
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func changed(t *testing.T, m *testroot.Machine, before testroot.Tree) map[string]string {
	t.Helper()
	after, err := testroot.ReadTree(m.Dir)
	if err != nil {
		t.Fatal(err)
	}
	changes := map[string]string{}
	for _, d := range before.Diff(after) {
		value := strings.TrimSpace(d.After)
		if d.Gone || value == setting.ActiveWord(strings.TrimSpace(d.Before)) && !strings.Contains(value, "[") {
			if d.Gone {
				changes[d.Path] = "gone"
			}
			continue // the active word written again
		}
		changes[d.Path] = value
	}
	return changes
}
