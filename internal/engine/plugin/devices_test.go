package plugin_test

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
)

// listed is a plug-in with the given devices.
func listed(name string, devices ...string) plugin.Plugin {
	return plugin.Plugin{
		Name: name,
		Devices: func(context.Context, *host.Host) ([]string, error) {
			return append([]string(nil), devices...), nil
		},
		DevicePath: func(d string) string { return "/sys/class/" + name + "/" + d },
	}
}

func unit(name, typ, devices string) *profile.Unit {
	return &profile.Unit{Name: name, Type: typ, Enabled: true, Devices: devices, Pos: profile.Pos{File: "p.conf", Line: 3}}
}

func TestAssign(t *testing.T) {
	noUdev := listed("audio", "snd_hda_intel")
	noUdev.DevicePath = nil
	table := []plugin.Plugin{
		listed("disk", "sda", "sdb", "sdc", "vda", "cciss/c0d0"), listed("cpu", "cpu10", "cpu2", "cpu0"),
		{Name: "sysctl"}, listed("usb"), noUdev,
	}
	byRegex := func(name, typ, regex string) *profile.Unit {
		u := unit(name, typ, "*")
		u.DevicesUdevRegex = regex
		return u
	}
	for _, tt := range []struct {
		name     string
		units    []*profile.Unit
		want     map[string][]string
		problems []string
	}{
		{"all", []*profile.Unit{unit("disk", "disk", "*")}, map[string][]string{"disk": {"cciss/c0d0", "sda", "sdb", "sdc", "vda"}}, nil},
		{"as people count", []*profile.Unit{unit("cpu", "cpu", "")}, map[string][]string{"cpu": {"cpu0", "cpu2", "cpu10"}}, nil},
		{"first come", []*profile.Unit{unit("one", "disk", "sd[ab], vda"), unit("two", "disk", "*")},
			map[string][]string{"one": {"sda", "sdb", "vda"}, "two": {"cciss/c0d0", "sdc"}}, nil},
		{"negative", []*profile.Unit{unit("one", "disk", "!sd*")}, map[string][]string{"one": {"cciss/c0d0", "vda"}}, nil},
		{"negative and positive", []*profile.Unit{unit("one", "disk", "sd*\t!sdb,!sdc")}, map[string][]string{"one": {"sda"}}, nil},
		{"nothing left", []*profile.Unit{unit("one", "disk", "*"), unit("two", "disk", "sda")},
			map[string][]string{"one": {"cciss/c0d0", "sda", "sdb", "sdc", "vda"}, "two": nil},
			[]string{"p.conf:3: [two] does nothing: this machine has no unassigned disk device"}},
		{"no match", []*profile.Unit{unit("one", "disk", "xvd*")}, map[string][]string{"one": nil},
			[]string{"p.conf:3: [one] does nothing: devices=xvd* matches no unassigned device"}},
		{"all but some, and no other", []*profile.Unit{unit("one", "disk", "!sd* !vd*,!cciss*")}, map[string][]string{"one": nil}, nil},
		{"no device", []*profile.Unit{unit("usb", "usb", "*")}, map[string][]string{"usb": nil},
			[]string{"p.conf:3: [usb] does nothing: this machine has no unassigned usb device"}},
		{"types do not compete", []*profile.Unit{unit("a", "disk", "*da"), unit("b", "cpu", "*")},
			map[string][]string{"a": {"sda", "vda"}, "b": {"cpu0", "cpu2", "cpu10"}}, nil},
		{"no devices at all", []*profile.Unit{unit("s", "sysctl", "*"), unit("x", "nothing", "*")}, map[string][]string{}, nil},
		{"udev", []*profile.Unit{byRegex("u", "disk", "^ID_BUS=ata$"), unit("rest", "disk", "sd*")},
			map[string][]string{"u": {"sda", "sdc"}, "rest": {"sdb"}}, nil},
		{"udev lines by key", []*profile.Unit{byRegex("u", "disk", `^A=1\nA1=2\nDEVPATH=`)}, map[string][]string{"u": {"cciss/c0d0"}}, nil},
		{"udev without", []*profile.Unit{byRegex("u", "audio", "X")}, map[string][]string{"u": nil},
			[]string{`p.conf:3: [u]: plug-in "audio" has no udev devices, so devices_udev_regex cannot select any; use devices=`}},
		{"udev no match", []*profile.Unit{byRegex("u", "disk", "ID_BUS=fc")}, map[string][]string{"u": nil},
			[]string{"p.conf:3: [u] does nothing: devices_udev_regex=ID_BUS=fc matches no unassigned device"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := machine.Mounted(t, map[string]string{
				"/sys/class/disk/sda/uevent":        "ID_BUS=ata\n",
				"/sys/class/disk/sdb/uevent":        "ID_BUS=atapi\n",
				"/sys/class/disk/sdc/uevent":        "A=1\nID_BUS=ata\n",
				"/sys/class/disk/vda/":              "",
				"/sys/class/disk/cciss/c0d0/uevent": "A1=2\nA=1\n",
			})
			got, problems := plugin.Assign(context.Background(), h, table, tt.units)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var text []string
			for _, p := range problems {
				text = append(text, p.String())
			}
			if diff := cmp.Diff(tt.problems, text); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUdevProperties(t *testing.T) {
	const dir = "/sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda"
	h := machine.Mounted(t, map[string]string{
		dir + "/uevent":    "MAJOR=8\nMINOR=0\nDEVNAME=sda\nDEVTYPE=disk\nDISKSEQ=9\n",
		dir + "/subsystem": "-> ../../../../../../../../../class/block",
		"/sys/block/sda":   "-> ../devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda",
		"/run/udev/data/b8:0": "S:disk/by-path/pci-0000:00:1f.2-ata-1\nS:disk/by-id/ata-X\nI:2519412\nE:ID_MODEL=X=Y\nE:ID_SERIAL=1\n" +
			"G:systemd\nG:seat\nQ:systemd\nV:1\n\nnonsense\n",
		"/sys/devices/pci0000:00/0000:00:03.0/net/eth0/uevent":    "INTERFACE=eth0\nIFINDEX=2\n",
		"/sys/devices/pci0000:00/0000:00:03.0/net/eth0/subsystem": "-> /sys/class/net",
		"/sys/class/net/eth0":                          "-> /sys/devices/pci0000:00/0000:00:03.0/net/eth0",
		"/run/udev/data/n2":                            "E:ID_NET_DRIVER=virtio_net\n",
		"/sys/devices/system/cpu/cpu0/uevent":          "DRIVER=processor\n",
		"/sys/devices/system/cpu/cpu0/subsystem":       "-> ../../../../bus/cpu",
		"/run/udev/data/+cpu:cpu0":                     "E:ID_X=1\n",
		"/sys/devices/virtual/block/cciss!c0d0/uevent": "MAJOR=104\nMINOR=0\nDEVNAME=cciss/c0d0\n",
	})
	for _, tt := range []struct {
		dir  string
		want map[string]string
	}{
		{"/sys/block/sda", map[string]string{
			"DEVPATH": dir[len("/sys"):], "SUBSYSTEM": "block", "DEVNAME": "/dev/sda", "DEVTYPE": "disk", "DISKSEQ": "9",
			"MAJOR": "8", "MINOR": "0", "ID_MODEL": "X=Y", "ID_SERIAL": "1", "USEC_INITIALIZED": "2519412",
			"DEVLINKS": "/dev/disk/by-id/ata-X /dev/disk/by-path/pci-0000:00:1f.2-ata-1", "TAGS": ":seat:systemd:", "CURRENT_TAGS": ":systemd:",
		}},
		{"/sys/class/net/eth0", map[string]string{
			"DEVPATH": "/devices/pci0000:00/0000:00:03.0/net/eth0", "SUBSYSTEM": "net", "INTERFACE": "eth0", "IFINDEX": "2", "ID_NET_DRIVER": "virtio_net"}},
		{"/sys/devices/system/cpu/cpu0", map[string]string{
			"DEVPATH": "/devices/system/cpu/cpu0", "SUBSYSTEM": "cpu", "DRIVER": "processor", "ID_X": "1"}},
		{"/sys/devices/virtual/block/cciss!c0d0", map[string]string{
			"DEVPATH": "/devices/virtual/block/cciss!c0d0", "DEVNAME": "/dev/cciss/c0d0", "MAJOR": "104", "MINOR": "0"}},
	} {
		got, err := plugin.UdevProperties(h, tt.dir)
		if err != nil {
			t.Errorf("%s: %v", tt.dir, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.dir, diff)
		}
	}
	if _, err := plugin.UdevProperties(h, "/sys/class/net/eth9"); err == nil {
		t.Error("a device that is not there has properties")
	}
}

func TestUnknown(t *testing.T) {
	table := []plugin.Plugin{{Name: "sysctl"}, {Name: "cpu", Options: []plugin.Option{{Name: "governor"}}}}
	u := unit("x", "sysctls", "*")
	u.Where = map[string]profile.Pos{"type": {File: "throughput-performance/tuned.conf", Line: 14}}
	if got, want := plugin.UnknownType(table, u).String(), `throughput-performance/tuned.conf:14: unknown plug-in "sysctls" (did you mean "sysctl"?)`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	o := profile.Option{Name: "governer", Pos: profile.Pos{File: "a.conf", Line: 9}}
	if got, want := table[1].UnknownOption(o).String(), `a.conf:9: unknown option "governer" of [cpu] (did you mean "governor"?)`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestDevicesThatCannotBeTold tests unreadable properties of a device: then the devices of the unit
// are unknown, and so are those that an earlier unit of the type leaves to a later one.
func TestDevicesThatCannotBeTold(t *testing.T) {
	h, err := host.ParseArchive("a.txt", []byte("fettle archive v1\ntime 2026-11-21T16:00:00Z\n"))
	if err != nil {
		t.Fatal(err)
	}
	table := []plugin.Plugin{{
		Name: "disk", DevicePath: func(d string) string { return "/sys/class/disk/" + d },
		Devices: func(context.Context, *host.Host) ([]string, error) { return []string{"sda", "sdb"}, nil },
	}, {Name: "audio", Devices: func(context.Context, *host.Host) ([]string, error) { return []string{"card0"}, nil }}}
	regex := func(name, typ, re string) *profile.Unit {
		u := unit(name, typ, "*")
		u.DevicesUdevRegex = re
		return u
	}
	assigned, unknown, problems := plugin.AssignKnown(context.Background(), h, table, []*profile.Unit{
		unit("first", "disk", "sda"), regex("told", "disk", "ID=1"), unit("rest", "disk", "*"), unit("none", "disk", "xvd*"), regex("card", "audio", "ID=1"),
	})
	if len(assigned["first"]) != 1 || len(assigned["told"])+len(assigned["rest"])+len(assigned["card"]) != 0 {
		t.Errorf("assigned %v", assigned)
	}
	for name, want := range map[string]bool{"first": false, "told": true, "rest": true, "none": false, "card": true} {
		if (unknown[name] != nil) != want {
			t.Errorf("%s: unknown %v, want %v", name, unknown[name], want)
		}
	}
	var invalid *plugin.InvalidError
	if !errors.As(unknown["card"], &invalid) || errors.As(unknown["told"], &invalid) {
		t.Errorf("unknown %v", unknown)
	}
	if len(problems) != 1 {
		t.Errorf("problems %v, want one for [none]", problems)
	}
}

// TestUdevOnACopy tests that properties missing in a copy matter only for a regular expression that
// no other property matches.
func TestUdevOnACopy(t *testing.T) {
	const dir = "/sys/devices/pci0/virtio1/block/vda"
	uevent := map[string]string{dir + "/uevent": "MAJOR=254\nMINOR=0\nDEVNAME=vda\nDEVTYPE=disk\n", dir + "/subsystem": "-> /sys/class/block", "/sys/class/block/": ""}
	database := maps.Clone(uevent)
	database["/run/udev/data/b254:0"] = "E:ID_MODEL=QEMU\n"
	table := []plugin.Plugin{{
		Name: "disk", DevicePath: func(string) string { return dir },
		Devices: func(context.Context, *host.Host) ([]string, error) { return []string{"vda"}, nil },
	}}
	for _, c := range []struct {
		files          map[string]string
		regex          string
		taken, unknown bool
	}{
		{uevent, "DEVTYPE=disk", true, false},
		{uevent, "ID_SERIAL=abc", false, true}, // no database in the copy
		{uevent, "(ID_SERIAL=abc)|(DEVNAME=/dev/vda)", true, false},
		{database, "ID_SERIAL=abc", false, false},
		{database, "ID_MODEL=QEMU", true, false},
		{map[string]string{dir + "/size": "1"}, "DEVTYPE=disk", false, true},
	} {
		u := unit("x", "disk", "*")
		u.DevicesUdevRegex = c.regex
		assigned, unknown, _ := plugin.AssignKnown(t.Context(), machine.Copy(t, c.files), table, []*profile.Unit{u})
		if taken := len(assigned["x"]) == 1; taken != c.taken || (unknown["x"] != nil) != c.unknown {
			t.Errorf("%s: taken %v, unknown %v", c.regex, taken, unknown["x"])
		}
	}
}

// TestCopyDoesNotSay tests that data missing in a copy is unknown, and that a recorded absence is
// an absence.
func TestCopyDoesNotSay(t *testing.T) {
	h, err := host.ParseArchive("a.txt", []byte("fettle archive v1\ntime 2026-11-21T16:00:00Z\n"+
		"-- absent /sys/firmware/acpi/platform_profile --\n-- file 0444 /sys/firmware/acpi/pm_profile --\n4\n"))
	if err != nil {
		t.Fatal(err)
	}
	_, problems := plugin.Assign(context.Background(), h, []plugin.Plugin{{Name: "usb", Devices: func(_ context.Context, h *host.Host) ([]string, error) {
		_, err := h.Files.ReadDir("/sys/bus/usb/devices")
		return nil, err
	}}}, []*profile.Unit{unit("usb", "usb", "*")})
	if len(problems) != 1 || problems[0].String() != `p.conf:3: [usb]: the devices of plug-in "usb" cannot be listed: lstat /sys/bus/usb/devices: not recorded in this copy` {
		t.Errorf("problems: %v", problems)
	}
	for path, want := range map[string]plugin.Verdict{
		"/sys/firmware/acpi/platform_profile": plugin.Unsupported, "/sys/kernel/mm/transparent_hugepage/enabled": plugin.Unknown,
	} {
		if got := plugin.Lacks(h, plugin.Sysfs(path), profile.Option{}, "missing")[0]; got.Verdict != want {
			t.Errorf("%s: %s (%s), want %s", path, got.Verdict, got.Why, want)
		}
	}
}
