package linux

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/host"
)

// tunnels provides the tunnel devices, with the physical devices below them that are up.
var tunnels = platform.Source{
	Prefix: "tunnels",
	Sets:   []string{"tunnels"},
	Inputs: inputs("tunnels",
		fact.Input{Name: "*.kind", Type: fact.Text, Doc: "vxlan, geneve, wireguard"},
		fact.Input{Name: "*.mtu_bytes", Type: fact.Number, Doc: "largest packet inside the tunnel, in bytes; absent for devices of Open vSwitch, which have no limit"},
		fact.Input{Name: "*.overhead_bytes", Type: fact.Number, Unit: "bytes", Doc: "what the tunnel adds to each packet"},
		fact.Input{Name: "*.uplinks", Type: fact.List, Doc: "the physical devices that are up"},
		fact.Input{Name: "*.uplink_mtu_bytes", Type: fact.Number, Doc: "smallest MTU of the uplinks, in bytes"},
		fact.Input{Name: "*.uplink_bits_per_second", Type: fact.Number, Unit: "bit/s", Doc: "speed of the fastest uplink"},
		fact.Input{Name: "*.without_offload", Type: fact.List, Doc: "uplinks that do not segment packets inside a tunnel (tx-udp_tnl-segmentation)"},
	),
	Open: func(_ context.Context, s *platform.Subject) platform.Answers {
		t := &platform.Known{}
		devices, unknown := s.Items("net")
		if unknown != "" {
			t.Rest(unknown)
			return t
		}
		up := uplinksOf(s, devices)
		for _, name := range devices {
			kind, overhead := tunnelKind(s, name, devices)
			if kind == "" {
				continue
			}
			t.Add("tunnels", name)
			in := "tunnels." + name + "."
			t.Give(in+"kind", kind, "/sys/class/net/"+name)
			t.Give(in+"overhead_bytes", overhead, "")
			mtu := s.Answer("net." + name + ".mtu_bytes")
			if v, ok := mtu.Value.(float64); ok && v >= collectsMetadata {
				mtu = fact.Answer{At: mtu.At}
			}
			t.Put(mtu, in+"mtu_bytes")
			up.give(t, in)
		}
		return t
	},
}

// overheads are the bytes that a tunnel adds over IPv4: outer Ethernet, IP and UDP headers and its
// own header (OpenShift 4.4 Scalability and Performance, 12.1; RFC 7348; RFC 8926, with OVN's
// options; WireGuard's with padding, over IPv6).
var overheads = map[string]float64{"vxlan": 50, "geneve": 100, "wireguard": 80}

// collectsMetadata is the minimum MTU of the device that Open vSwitch uses for all tunnels
// (net/openvswitch/vport.c sets the maximum MTU).
const collectsMetadata = 65000

// tunnelKind returns the kind of a tunnel device, or "" for other devices. For pods of OVN and of
// OpenShift's older network, the MTU of a port of Open vSwitch counts.
func tunnelKind(s *platform.Subject, name string, all []string) (kind string, overhead float64) {
	has := func(prefix string) bool {
		return slices.ContainsFunc(all, func(n string) bool { return strings.HasPrefix(n, prefix) })
	}
	switch {
	case name == "ovn-k8s-mp0" && has("genev_sys_"):
		return "geneve", overheads["geneve"]
	case name == "tun0" && has("vxlan_sys_"):
		return "vxlan", overheads["vxlan"]
	}
	kind, _ = s.Answer("net." + name + ".kind").Value.(string)
	return kindOfTunnel(kind), overheads[kind]
}

func kindOfTunnel(kind string) string {
	if _, ok := overheads[kind]; ok {
		return kind
	}
	return ""
}

// uplinks are the physical devices that are up.
type uplinks struct {
	names      []string
	mtu, speed fact.Answer
	offload    fact.Answer
}

func uplinksOf(s *platform.Subject, devices []string) *uplinks {
	up := &uplinks{}
	without := []string{}
	for _, name := range devices {
		physical, _ := s.Answer("net." + name + ".physical").Value.(bool)
		if !physical || !carries(s, name) {
			continue
		}
		up.names = append(up.names, name)
		at := "/sys/class/net/" + name
		if v, ok := s.Answer("net." + name + ".mtu_bytes").Value.(float64); ok {
			if have, ok := up.mtu.Value.(float64); !ok || v < have {
				up.mtu = fact.Answer{Value: v, At: at + "/mtu"}
			}
		}
		if v, ok := s.Answer("net." + name + ".speed_bits_per_second").Value.(float64); ok {
			if have, ok := up.speed.Value.(float64); !ok || v > have {
				up.speed = fact.Answer{Value: v, At: at + "/speed"}
			}
		}
		params, err := s.Host.Net.Params(name, host.NetFeatures)
		if err != nil {
			up.offload = fact.Answer{Unknown: fmt.Sprintf("the offloads of %s: %v", name, err)}
			continue
		}
		if p, ok := host.FindParam(params, "tx-udp_tnl-segmentation"); !ok || p.Value != "on" {
			without = append(without, name)
		}
	}
	if up.offload.Unknown == "" {
		up.offload = fact.Answer{Value: without, At: "ethtool -k"}
	}
	return up
}

// carries reports whether a device has a link. A copy may only have its state, "up" with a link
// (RFC 2863).
func carries(s *platform.Subject, name string) bool {
	if carrier, ok := s.Answer("net." + name + ".carrier").Value.(bool); ok {
		return carrier
	}
	state, _ := s.Answer("net." + name + ".state").Value.(string)
	return state == "up"
}

// give answers for the devices below a tunnel, if there are any.
func (u *uplinks) give(t *platform.Known, in string) {
	if len(u.names) == 0 {
		return
	}
	t.Give(in+"uplinks", u.names, "/sys/class/net")
	t.Put(u.mtu, in+"uplink_mtu_bytes")
	t.Put(u.speed, in+"uplink_bits_per_second")
	t.Put(u.offload, in+"without_offload")
}
