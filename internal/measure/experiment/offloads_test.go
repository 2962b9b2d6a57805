package experiment

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
)

// TestSwitched: the active features of a group are switched off; fixed and suppressed ones stay.
func TestSwitched(t *testing.T) {
	features := []host.NetParam{
		{Name: "tx-tcp-segmentation", Value: "on"}, {Name: "tx-tcp-ecn-segmentation", Value: "off", Requested: "on"}, {Name: "tx-tcp6-segmentation", Value: "off"},
		{Name: "tx-tcp-mangleid-segmentation", Value: "on", Fixed: true}, {Name: "rx-gro", Value: "off"}, {Name: "rx-gro-hw", Value: "on"},
		{Name: "tx-checksum-ip-generic", Value: "on"}, {Name: "rx-checksum", Value: "on"}, {Name: "tx-checksum-sctp", Value: "on", Fixed: true},
	}
	for i, want := range []string{"off: net:eth0/feature-tx-tcp-segmentation", "on:", "on: net:eth0/feature-rx-gro", "off: net:eth0/feature-tx-checksum-ip-generic net:eth0/feature-rx-checksum"} {
		changes, to := switched(features, "eth0", offloadGroups[i].features)
		got := []string{to + ":"}
		for _, c := range changes {
			got = append(got, c.Setting.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", offloadGroups[i].name, got, want)
		}
	}
}
