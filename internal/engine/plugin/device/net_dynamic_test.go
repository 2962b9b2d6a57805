package device

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/plugin"
)

func TestNetDynamic(t *testing.T) {
	const all, few = "10baseT/Half 10baseT/Full 100baseT/Half 100baseT/Full 1000baseT/Full", "10baseT/Half 10baseT/Full 100baseT/Half 100baseT/Full"
	for _, tt := range []struct {
		name, modes string // of eth1
		lines       []string
		low         string // the slow speeds; "": no loop
		items       []string
	}{
		{"a gigabit", `advertise="` + all + `" max="` + all + `"`, nil, few, nil},
		{"what its administrator offers", `advertise="100baseT/Full 1000baseT/Full" max="` + all + `"`, nil, "100baseT/Full", nil},
		{"a fixed speed", `advertise="` + all + `" max="` + all + `" fixed`, []string{"dynamic=1"}, "",
			[]string{"net:eth1/advertise ! unsupported: the speed of eth1 is fixed: it does not negotiate"}},
		{"fast only", `advertise=10000baseT/Full max=10000baseT/Full`, []string{"dynamic=1"}, "",
			[]string{"net:eth1/advertise ! unsupported: eth1 does not offer link speeds both above 100 Mb/s and at or below it, as dynamic tuning requires"}},
		{"fast only, and nobody asks", `advertise=10000baseT/Full max=10000baseT/Full`, nil, "", nil},
		{"not wanted", `advertise="` + all + `" max="` + all + `"`, []string{"dynamic=0"}, "", nil},
		{"nonsense", `advertise="` + all + `" max="` + all + `"`, []string{"dynamic=2"}, "", nil},
	} {
		h, err := host.ParseArchive("server", []byte(server+"-- net eth1 link-modes --\n"+tt.modes+"\n-- net eth0 link-modes EOPNOTSUPP --\n"))
		if err != nil {
			t.Fatal(err)
		}
		loops, items := plugin.Loops(t, Net, h, NetKinds(h), plugin.Unit("net", append([]string{"devices=eth1"}, tt.lines...)...))
		if diff := cmp.Diff(tt.items, items); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
		var low string
		for _, l := range loops {
			low = l.Places[0].Values[0].Text
		}
		if low != tt.low {
			t.Errorf("%s: slow is %q, want %q", tt.name, low, tt.low)
		}
	}
	// A device without speeds is not mentioned, unless asked for.
	h, err := host.ParseArchive("server", []byte(server+"-- net eth0 link-modes EOPNOTSUPP --\n"))
	if err != nil {
		t.Fatal(err)
	}
	if loops, items := plugin.Loops(t, Net, h, NetKinds(h), plugin.Unit("net", "devices=eth0")); len(loops)+len(items) != 0 {
		t.Errorf("%d loops, %v", len(loops), items)
	}
}

func TestExpectedLoad(t *testing.T) {
	if got := beginNet(1000).Most; got != [2]float64{78643200, 78643200} {
		t.Errorf("a gigabit is expected to carry %v bytes", got)
	}
	for mode, want := range map[string]int{"10baseT/Half": 10, "2500baseT/Full": 2500, "100000baseKR4/Full": 100000} {
		if got := megabits(mode); got != want || !host.IsSpeed(mode) {
			t.Errorf("%s: %d", mode, got)
		}
	}
	for _, mode := range []string{"Autoneg", "TP", "Pause", "Asym_Pause", "Backplane", ""} {
		if host.IsSpeed(mode) {
			t.Errorf("%q is a speed", mode)
		}
	}
}

func TestSpeedIsAPlace(t *testing.T) {
	s := netSetting("eth0", host.NetLinkModes, advertise)
	if s != (setting.Setting{Kind: "net", Name: "eth0/advertise"}) {
		t.Errorf("%s", s)
	}
	if p, err := parsePlace(s.Name); err != nil || p.group != host.NetLinkModes {
		t.Errorf("%+v, %v", p, err)
	}
}
