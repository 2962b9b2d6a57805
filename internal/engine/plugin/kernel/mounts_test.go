package kernel

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	engineplugin "fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
)

var tree = map[string]string{
	"/proc/mounts": `proc /proc proc rw 0 0
/dev/sda1 / ext4 rw,relatime 0 0
/dev/sda2 /with\040space ext3 rw,nobarrier 0 0
/dev/sda3 /x xfs rw 0 0
/dev/sda4 /y btrfs rw 0 0
/dev/mapper/vg-home /home ext4 rw,barrier=1 0 0
/dev/sdb1 /stick ext4 rw 0 0
/dev/sdc /whole ext4 rw 0 0
`,
	"/dev/mapper/vg-home": "-> ../dm-0", "/dev/dm-0": "", "/dev/sda1": "", "/dev/sda2": "", "/dev/sda3": "", "/dev/sda4": "", "/dev/sdb1": "", "/dev/sdc": "",
	"/sys/class/block/sda1": "-> ../../devices/sda/sda1", "/sys/class/block/sda2": "-> ../../devices/sda/sda2", "/sys/class/block/sda3": "-> ../../devices/sda/sda3",
	"/sys/class/block/sda4": "-> ../../devices/sda/sda4",
	"/sys/class/block/sdb1": "-> ../../devices/sdb/sdb1", "/sys/class/block/sdc": "-> ../../devices/sdc", "/sys/class/block/dm-0": "-> ../../devices/dm-0",
	"/sys/devices/sda/sda1/partition": "1", "/sys/devices/sda/sda2/partition": "2", "/sys/devices/sda/sda3/partition": "3", "/sys/devices/sda/sda4/partition": "4", "/sys/devices/sda/removable": "0\n",
	"/sys/devices/sdb/sdb1/partition": "1", "/sys/devices/sdb/removable": "1\n", "/sys/devices/sdc/removable": "0\n",
	"/sys/devices/dm-0/dm/uuid": "LVM-abc\n", "/sys/devices/dm-0/slaves/sda3": "-> ../../sda/sda3",
	"/sys/devices/sdd/removable": "0\n",
}

func TestRefused(t *testing.T) {
	// Of each mount, on what device, and what is said in addition to the reason.
	all := func(note string) []string {
		return []string{
			"barrier:/ refused: " + reason + " (ext4 on /dev/sda1" + note + ")",
			"barrier:/home refused: " + reason + " (ext4 on /dev/mapper/vg-home" + note + ")",
			"barrier:/with space refused: " + reason + " (ext3 on /dev/sda2" + note + ")",
			"barrier:/x refused: " + reason + " (xfs on /dev/sda3; Linux 4.19 removed this option for this file system)",
			"barrier:/y refused: " + reason + " (btrfs on /dev/sda4, for which this plug-in has no barrier option)"}
	}
	for _, c := range []struct {
		value, cache string
		want         []string
	}{
		{"true", "write through", all("")},
		{"1", "write back", all(", above a write-back cache, which needs them")},
		{"force", "write back", all("")},
		{"false", "write through", nil},
		{"None", "write through", nil},
	} {
		files := map[string]string{"/sys/devices/sda/device/scsi_disk/0:0:0:0/cache_type": c.cache + "\n"}
		for p, text := range tree {
			files[p] = text
		}
		h := machine.Mounted(t, files)
		kinds := plugin.Kinds(h, MountsKinds(h))
		if d := cmp.Diff(c.want, plugin.Lines(plugin.PlanUndotest(t, &Mounts, h, kinds, "disable_barriers="+c.value))); d != "" {
			t.Errorf("%s, %s: %s", c.value, c.cache, d)
		}
	}
	// That it is refused is what it does.
	plugin.Proves(t, plugin.FakeTree, "mounts", "disable_barriers")
}

// TestNoDevice plans units that get no file system.
func TestNoDevice(t *testing.T) {
	for value, want := range map[string][]string{
		"true": {"option:mounts/disable_barriers refused: " + reason}, "force": {"option:mounts/disable_barriers refused: " + reason},
		"false": nil, "": nil, "perhaps": {`option:mounts/disable_barriers rejected: "perhaps": want true, false or force`},
	} {
		u := profile.Unit{Name: "mounts", Type: "mounts", Options: []profile.Option{{Name: "disable_barriers", Value: value}}}
		got := plugin.Lines(Mounts.NoDevice(&engineplugin.Request{Unit: u}))
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q: %s", value, d)
		}
	}
}

func TestKind(t *testing.T) {
	h := machine.Mounted(t, tree)
	k := MountsKinds(h)["barrier"]
	for point, want := range map[string]string{"/": "on", "/with space": "off", "/home": "on"} {
		v, err := k.Read(context.Background(), setting.Setting{Kind: "barrier", Name: point})
		if err != nil || v.Text != want {
			t.Errorf("%s: %q, %v", point, v.Text, err)
		}
	}
	if v, _ := k.Read(context.Background(), setting.Setting{Kind: "barrier", Name: "/none"}); !v.Absent {
		t.Errorf("no mount: %v", v)
	}
	if err := k.Write(context.Background(), setting.Setting{Kind: "barrier", Name: "/"}, setting.Text("off")); err == nil {
		t.Error("barriers were switched off")
	}
}

func FuzzUnescape(f *testing.F) {
	f.Add(`a\040b`)
	f.Add(`\`)
	f.Add(`\777`)
	f.Fuzz(func(t *testing.T, s string) {
		if len(host.UnescapeMount(s)) > len(s) {
			t.Error(s)
		}
	})
}
