package device

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/plugin"
)

// server is a machine with two Ethernet devices, one with combined channels and
// one with separate ones, and a bridge.
const server = `fettle archive v1
-- dir /sys/class/net --
-- link /sys/class/net/eth0 -> ../../devices/pci0000:00/0000:00:03.0/virtio0/net/eth0 --
-- link /sys/class/net/eth1 -> ../../devices/pci0000:00/0000:00:04.0/net/eth1 --
-- link /sys/class/net/br0 -> ../../devices/virtual/net/br0 --
-- file /sys/class/net/bonding_masters --
-- dir /sys/devices/pci0000:00/0000:00:03.0/virtio0/net/eth0 --
-- file /sys/devices/pci0000:00/0000:00:03.0/virtio0/net/eth0/uevent --
INTERFACE=eth0
IFINDEX=2
-- dir /sys/devices/pci0000:00/0000:00:04.0/net/eth1 --
-- file /sys/devices/pci0000:00/0000:00:04.0/net/eth1/uevent --
INTERFACE=eth1
IFINDEX=3
-- dir /sys/devices/virtual/net/br0 --
-- file 0600 /sys/module/nf_conntrack/parameters/hashsize --
65536
-- links --
eth0 index=2 kind=device driver=virtio_net parent=virtio0 altname=enp0s3
eth1 index=3 kind=device driver=igb parent=0000:00:04.0
br0 index=4 kind=bridge driver=bridge
-- net eth0 link --
mtu=1500
txqueuelen=1000
-- net eth0 features --
tx-checksum-ipv4=off fixed
tx-checksum-ip-generic=on
tx-checksum-sctp=off fixed
tx-scatter-gather=on
tx-generic-segmentation=on
tx-tcp-segmentation=on
tx-tcp-ecn-segmentation=off fixed
tx-tcp6-segmentation=off requested=on
rx-gro=on
rx-lro=off fixed
rx-vlan-filter=on fixed
-- net eth0 coalesce EOPNOTSUPP --
-- net eth0 pause EOPNOTSUPP --
-- net eth0 ring --
rx=256 max=256
tx=256 max=256
-- net eth0 channels --
combined=4 max=4
-- net eth0 wake-on-lan EOPNOTSUPP --
-- net eth1 link --
mtu=9000
txqueuelen=1000
-- net eth1 features --
rx-gro=on
-- net eth1 coalesce --
adaptive-rx=on
rx-usecs=3
tx-usecs=0
-- net eth1 pause --
autoneg=on
rx=on
tx=on
-- net eth1 ring --
rx=256 max=4096
tx=256 max=4096
-- net eth1 channels --
rx=2 max=8
tx=2 max=8
-- net eth1 wake-on-lan --
wake-on-lan=d max=pumbg
`

func netMachine(t testing.TB) *host.Host {
	t.Helper()
	h, err := host.ParseArchive("server", []byte(server))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestNetPlan(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lines []string
		want  []string
	}{
		{"features by their own and by ethtool's names", []string{"devices=eth0", "features=tx off gro off tx-generic-segmentation on"}, []string{
			"net:eth0/feature-tx-checksum-ip-generic = off # requested as tx",
			"net:eth0/feature-rx-gro = off # requested as gro",
			"net:eth0/feature-tx-generic-segmentation = on",
		}},
		{"a name for several features", []string{"devices=eth0", "features=tso: off; sg off, lro on"}, []string{
			"net:eth0/feature-tx-tcp-segmentation = off # requested as tso",
			"net:eth0/feature-tx-tcp6-segmentation = off # requested as tso",
			"net:eth0/feature-tx-scatter-gather = off # requested as sg",
			"net:eth0/feature-lro ! unsupported: eth0 cannot change rx-lro: it is fixed at off",
		}},
		{"what is fixed is as wanted, or not", []string{"devices=eth0", "features=rx-vlan-filter on rx-lro off ufo off tx-tcp-ecn-segmentation on gro maybe"}, []string{
			"net:eth0/feature-rx-vlan-filter = on",
			"net:eth0/feature-rx-lro = off",
			"net:eth0/feature-ufo ! unsupported: this kernel has no feature called tx-udp-fragmentation",
			"net:eth0/feature-tx-tcp-ecn-segmentation ! unsupported: eth0 cannot change tx-tcp-ecn-segmentation: it is fixed at off",
			`net:eth0/feature-gro ! rejected: "maybe" is not a value for gro: want on or off`,
		}},
		{"coalescing on every device", []string{"coalesce=adaptive-rx off rx-usecs 0x10 tx-frames 8 tx-usec 3 tx-usecs on"}, []string{
			"net:eth0/coalesce-adaptive-rx ! unsupported: the driver of eth0 has no coalesce parameters",
			"net:eth0/coalesce-rx-usecs ! unsupported: the driver of eth0 has no coalesce parameters",
			"net:eth0/coalesce-tx-frames ! unsupported: the driver of eth0 has no coalesce parameters",
			`net:eth0/coalesce-tx-usec ! rejected: no coalesce parameter is called "tx-usec"; valid names are …`,
			`net:eth0/coalesce-tx-usecs ! rejected: "on" is not a value for tx-usecs: want a whole number of 32 bits`,
			"net:eth1/coalesce-adaptive-rx = off",
			"net:eth1/coalesce-rx-usecs = 16",
			"net:eth1/coalesce-tx-frames ! unsupported: eth1 has no coalesce parameter tx-frames",
			`net:eth1/coalesce-tx-usec ! rejected: no coalesce parameter is called "tx-usec"; valid names are …`,
			`net:eth1/coalesce-tx-usecs ! rejected: "on" is not a value for tx-usecs: want a whole number of 32 bits`,
		}},
		{"rings", []string{"ring=rx 1024 tx 5000"}, []string{
			"net:eth0/ring-rx ! unsupported: rx of eth0 can be at most 256",
			"net:eth0/ring-tx ! unsupported: tx of eth0 can be at most 256",
			"net:eth1/ring-rx = 1024",
			"net:eth1/ring-tx ! unsupported: tx of eth1 can be at most 4096",
		}},
		{"combined channels where they are separate", []string{"channels=combined 2"}, []string{
			"net:eth0/channels-combined = 2",
			"net:eth1/channels-rx = 2",
			"net:eth1/channels-tx = 2",
		}},
		{"separate channels where they are combined", []string{"channels=rx 2 tx 3"}, []string{
			"net:eth0/channels-combined = 3",
			"net:eth1/channels-rx = 2",
			"net:eth1/channels-tx = 3",
		}},
		{"pause frames", []string{"devices=eth1", "pause=autoneg off rx off"}, []string{
			"net:eth1/pause-autoneg = off", "net:eth1/pause-rx = off",
		}},
		{"queue and packet", []string{"devices=eth1", "txqueuelen=5000", "mtu=1000"}, []string{
			"net:eth1/txqueuelen = 5000",
			"net:eth1/mtu = 1000",
		}},
		{"numbers that are none", []string{"devices=eth1", "txqueuelen=many", "mtu=0", "ring=rx", "nf_conntrack_hashsize=0"}, []string{
			`sysfs:/sys/module/nf_conntrack/parameters/hashsize ! rejected: "0" is not a value for nf_conntrack_hashsize: want a number of buckets, 1 or more`,
			`net:eth1/ring-* ! rejected: "rx" is not a value for ring: want names and values in turn, as ethtool takes them`,
			`net:eth1/txqueuelen ! rejected: "many" is not a value for txqueuelen: want a number of packets`,
			`net:eth1/mtu ! rejected: "0" is not a value for mtu: want a number of bytes`,
		}},
		{"wake on LAN", []string{"wake_on_lan=bgp"}, []string{
			"net:eth0/wake-on-lan ! unsupported: the driver of eth0 has no wake-on-lan parameters",
			"net:eth1/wake-on-lan = pbg",
		}},
		{"wake on nothing", []string{"devices=eth1", "wake_on_lan=g0"}, []string{"net:eth1/wake-on-lan = d"}},
		{"wake on what the device does not know", []string{"devices=eth1", "wake_on_lan=gs"}, []string{
			"net:eth1/wake-on-lan ! unsupported: eth1 supports only the wake-up events pumbg, not s"}},
		{"wake on what is none", []string{"devices=eth1", "wake_on_lan=magic!"}, []string{
			`net:eth1/wake-on-lan ! rejected: "magic!" is not a value for wake_on_lan: want letters of pumbagsf, or d for nothing`}},
		{"connection tracking", []string{"dynamic=0", "nf_conntrack_hashsize=131072"}, []string{
			"sysfs:/sys/module/nf_conntrack/parameters/hashsize = 131072"}},
		{"connection tracking in whole pages", []string{"nf_conntrack_hashsize=100000"}, []string{
			"sysfs:/sys/module/nf_conntrack/parameters/hashsize = 100352 # 100000 in whole pages of 512"}},
		{"devices by udev", []string{"devices_udev_regex=^INTERFACE=eth1$", "txqueuelen=1"}, []string{"net:eth1/txqueuelen = 1"}},
		{"left alone", []string{"features=", "coalesce=None", "mtu=none", "wake_on_lan=none"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := plugin.PlanPlugintest(t, Net, netMachine(t), plugin.Unit("net", tt.lines...))
			for i, l := range got {
				if before, _, ok := strings.Cut(l, "; valid names are "); ok {
					got[i] = before + "; valid names are …"
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestPlanOnACopy tests that a copy without the devices' parameters gives the verdict unknown.
func TestPlanOnACopy(t *testing.T) {
	files, _, _ := strings.Cut(server, "-- links --")
	h, err := host.ParseArchive("copy", []byte(files))
	if err != nil {
		t.Fatal(err)
	}
	got := plugin.PlanPlugintest(t, Net, h, plugin.Unit("net", "devices=eth1", "ring=rx 512", "wake_on_lan=g"))
	want := []string{
		"net:eth1/ring-rx ! unknown: not recorded in this copy",
		"net:eth1/wake-on-lan ! unknown: not recorded in this copy",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	v, err := NetKinds(h)[netKind].Read(context.Background(), netSetting("eth1", host.NetLink, "mtu"))
	if !host.Unknown(err) {
		t.Errorf("%v, %v", v, err)
	}
}

func TestKind(t *testing.T) {
	k := NetKinds(netMachine(t))[netKind]
	for name, want := range map[string]string{
		"eth0/mtu":                             "1500",
		"enp0s3/txqueuelen":                    "1000",
		"eth0/feature-tso":                     "means several features in ethtool (",
		"eth0/feature-gro":                     "on",
		"eth0/feature-generic-receive-offload": "on",
		"eth0/feature-tx-tcp6-segmentation":    "off [requested on]",
		"eth0/feature-none":                    "(absent)",
		"eth0/ring-rx":                         "256",
		"eth0/ring-rx-mini":                    "(absent)",
		"eth0/coalesce-rx-usecs":               "(absent)",
		"eth1/coalesce-adaptive-rx":            "on",
		"eth1/wake-on-lan":                     "d",
		"eth1/channels-rx":                     "2",
		"eth9/mtu":                             "(absent)",
		"eth0/speed":                           `unknown network device parameter "speed"`,
		"eth0/ring-size":                       `unknown network device parameter "ring-size"`,
		"eth0":                                 "want DEVICE/PARAMETER",
		"../eth0/mtu":                          "want DEVICE/PARAMETER",
		"../mtu":                               "want DEVICE/PARAMETER",
	} {
		s, err := k.Resolve(setting.Setting{Kind: netKind, Name: name})
		var v setting.Value
		if err == nil {
			v, err = k.Read(context.Background(), s)
		}
		if err != nil && !strings.Contains(err.Error(), want) || err == nil && v.String() != want {
			t.Errorf("%s: %v, %v; want %s", name, v, err, want)
		}
	}
	for name, want := range map[string]string{
		"enp0s3/mtu":       "net:eth0/mtu",
		"eth0/feature-gro": "net:eth0/feature-rx-gro",
		"eth0/feature-tx":  "",
		"eth9/mtu":         "net:eth9/mtu",
	} {
		s, err := k.Resolve(setting.Setting{Kind: netKind, Name: name})
		if (err == nil) != (want != "") || err == nil && s.String() != want {
			t.Errorf("%s resolves to %v, %v; want %s", name, s, err, want)
		}
	}
	kinds := setting.Kernel(k.(kind).host)
	kinds[netKind] = k
	for name, want := range map[string]string{
		"/sys/class/net/eth0/mtu":                                    "net:eth0/mtu",
		"/sys/devices/pci0000:00/0000:00:04.0/net/eth1/tx_queue_len": "net:eth1/txqueuelen",
		"/sys/devices/virtual/net/br0/mtu":                           "sysfs:/sys/devices/virtual/net/br0/mtu", // what netlink answers is not recorded
		"/sys/class/net/eth9/mtu":                                    "net:eth9/mtu",
		"/sys/class/net/eth0/gro_flush_timeout":                      "sysfs:/sys/devices/pci0000:00/0000:00:03.0/virtio0/net/eth0/gro_flush_timeout",
		"/sys/class/net/eth0/device/mtu":                             "sysfs:/sys/class/net/eth0/device/mtu",
	} {
		s, err := setting.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		if s, err = kinds.Resolve(s); err != nil || s.String() != want {
			t.Errorf("%s resolves to %v, %v; want %s", name, s, err, want)
		}
	}
	if err := k.Write(context.Background(), netSetting("eth0", host.NetLink, "mtu"), setting.Text("9000")); !errors.Is(err, host.ErrReadOnly) {
		t.Errorf("a copy was written: %v", err)
	}
	var coupled []string
	for _, s := range k.Coupled(netSetting("eth1", host.NetCoalesce, "adaptive-rx")) {
		coupled = append(coupled, s.String())
	}
	if diff := cmp.Diff([]string{"net:eth1/coalesce-rx-usecs", "net:eth1/coalesce-tx-usecs"}, coupled); diff != "" {
		t.Error(diff)
	}
}

func FuzzPairs(f *testing.F) {
	for _, s := range []string{"rx-usecs 3 tx-usecs 16", "tso: off; gso: off, gro on", "a", ":;,", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, ok := pairs(text)
		if ok != (len(list) > 0) {
			t.Fatalf("%q: %v, %v", text, list, ok)
		}
		for _, p := range list {
			if p.name == "" || p.value == "" || strings.ContainsAny(p.name+p.value, " \t\n:;,") {
				t.Errorf("%q: %+v", text, p)
			}
		}
	})
}

func FuzzParsePlace(f *testing.F) {
	for _, s := range []string{"eth0/mtu", "eth0/feature-gro", "e/ring-rx", "/", "eth0/", "a/b/c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		p, err := parsePlace(name)
		if err != nil {
			return
		}
		again, err := parsePlace(netSetting(p.device, p.group, p.param).Name)
		if err != nil || again != p {
			t.Errorf("%q: %+v, then %+v, %v", name, p, again, err)
		}
	})
}
