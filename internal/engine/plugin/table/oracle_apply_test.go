package table

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	testkitplugin "fettle.dev/fettle/internal/testkit/plugin"
	"fettle.dev/fettle/internal/testkit/root"
)

// udevDB simulates udevd's records about some of the CPUs, below /run/udev/data.
var udevDB = map[string]string{
	"+cpu:cpu1": "I:1\nE:ID_TEST=one\nV:1\n",
	"+cpu:cpu2": "I:2\nG:now\nQ:now\nV:1\n",
	"+cpu:cpu3": "I:3\nG:once\nG:other\nV:1\n",
	"+cpu:cpu4": "S:by-test/x\nI:4\nV:1\n",
	"+cpu:cpu5": "I:123\nE:ID_TEST=ones\nV:1\n",
}

// tableMachine is the simulated machine with some more devices.
func tableMachine(t *testing.T) *root.Machine {
	m := root.NewMachine(t)
	write := func(name, content string) { machine.Write(t, m.Dir, map[string]string{name: content}) }
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

// byTuneD returns the changes by TuneD: path to value.
func byTuneD(t *testing.T, text string) (changes map[string]string, calls [][]string) {
	t.Helper()
	m := tableMachine(t)
	before, err := root.ReadTree(m.Dir)
	if err != nil {
		t.Fatal(err)
	}
	db := t.TempDir()
	machine.Write(t, db, udevDB)
	r := root.New(t, root.Options{Machine: m, Stubs: root.TunerStubs(),
		Files: map[string]string{oracle: text}, Binds: []root.Bind{{Source: db, Target: "/run/udev/data", ReadOnly: true}}})
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

// byUs returns the changes by fettle's plug-ins.
func byUs(t *testing.T, text string) map[string]string {
	t.Helper()
	ctx := context.Background()
	m := tableMachine(t)
	machine.Write(t, filepath.Join(m.Dir, "/run/udev/data"), udevDB)
	before, err := root.ReadTree(m.Dir)
	if err != nil {
		t.Fatal(err)
	}
	p, err := (&profile.Loader{Host: machine.Mounted(t, map[string]string{"oracle/tuned.conf": text}), Dirs: []string{"/"}}).Load(ctx, "oracle")
	if err != nil {
		t.Fatal(err)
	}
	apply(t, host.Mounted(m.Dir), p)
	return changed(t, m, before)
}

// apply applies a plan as the planner does, without a journal: units in order, and in each the
// options for the whole machine before those of each device.
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
		pl, ok := plugin.Find(All, u.Type)
		if !ok {
			t.Fatalf("no plug-in %s", u.Type)
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
						testkitplugin.Proves(t, testkitplugin.TuneD, u.Type, given.Name)
					}
				}
			}
		}
	}
}

// write reports whether the item should be written. If the setting already has the value, TuneD
// must not write it either.
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

func changed(t *testing.T, m *root.Machine, before root.Tree) map[string]string {
	t.Helper()
	after, err := root.ReadTree(m.Dir)
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
