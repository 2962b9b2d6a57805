package device

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// NetKindName is the kind of a network device's settings: net:eth0/mtu,
// net:eth0/ring-rx, net:eth0/coalesce-rx-usecs, net:eth0/feature-rx-gro,
// net:eth0/channels-combined, net:eth0/pause-autoneg, net:eth0/wake-on-lan.
const NetKindName = "net"

// prefixes come before a parameter's name in the name of its setting.
var prefixes = []struct {
	group  host.NetGroup
	prefix string
}{
	{host.NetFeatures, "feature-"},
	{host.NetCoalesce, "coalesce-"},
	{host.NetPause, "pause-"},
	{host.NetRing, "ring-"},
	{host.NetChannels, "channels-"},
	{host.NetWakeOnLAN, ""},
	{host.NetLinkModes, ""},
	{host.NetLink, ""},
}

// netPlace is one parameter of one device.
type netPlace struct {
	device string
	group  host.NetGroup
	param  string
}

// NetSetting names a parameter of a device by its group and ethtool(8)'s name.
func NetSetting(device string, g host.NetGroup, param string) setting.Setting {
	prefix := ""
	for _, p := range prefixes {
		if p.group == g {
			prefix = p.prefix
		}
	}
	return setting.Setting{Kind: NetKindName, Name: device + "/" + prefix + param}
}

func parsePlace(name string) (netPlace, error) {
	device, rest, ok := strings.Cut(name, "/")
	if !ok || device == "" || device == "." || device == ".." || rest == "" || strings.Contains(rest, "/") {
		return netPlace{}, fmt.Errorf("net:%s: want DEVICE/PARAMETER, such as net:eth0/mtu or net:eth0/ring-rx", name)
	}
	for _, p := range prefixes {
		param, ok := strings.CutPrefix(rest, p.prefix)
		if !ok || param == "" {
			continue
		}
		if p.group == host.NetFeatures {
			return featurePlace(device, param)
		}
		if slices.Contains(host.NetParamNames(p.group), param) {
			return netPlace{device, p.group, param}, nil
		}
	}
	return netPlace{}, fmt.Errorf("net:%s: no parameter of a network device is called %q; "+
		"want mtu, txqueuelen, wake-on-lan, advertise, or feature-, coalesce-, pause-, ring- or channels- before ethtool's name", name, rest)
}

// featurePlace takes the kernel's name of a feature, or a name of ethtool's own
// that stands for exactly one.
func featurePlace(device, name string) (netPlace, error) {
	pattern, ok := aliases[name]
	if !ok {
		return netPlace{device, host.NetFeatures, name}, nil
	}
	if strings.Contains(pattern, "*") {
		return netPlace{}, fmt.Errorf("net:%s/feature-%s: %s is ethtool's name for several features (%s); name one, see ethtool -k %s",
			device, name, name, pattern, device)
	}
	return netPlace{device, host.NetFeatures, pattern}, nil
}

// aliases are the names that ethtool(8) had before the kernel named its
// features, short and long, and the kernel's names that each stands for
// (ethtool's -K in its manual page; the long names are what -k prints).
var aliases = map[string]string{
	"rx": "rx-checksum", "rx-checksumming": "rx-checksum",
	"tx": "tx-checksum-*", "tx-checksumming": "tx-checksum-*",
	"sg": "tx-scatter-gather*", "scatter-gather": "tx-scatter-gather*",
	"tso": "tx-tcp*-segmentation", "tcp-segmentation-offload": "tx-tcp*-segmentation",
	"ufo": "tx-udp-fragmentation", "udp-fragmentation-offload": "tx-udp-fragmentation",
	"gso": "tx-generic-segmentation", "generic-segmentation-offload": "tx-generic-segmentation",
	"gro": "rx-gro", "generic-receive-offload": "rx-gro",
	"lro": "rx-lro", "large-receive-offload": "rx-lro",
	"rxvlan": "rx-vlan-hw-parse", "rx-vlan-offload": "rx-vlan-hw-parse",
	"txvlan": "tx-vlan-hw-insert", "tx-vlan-offload": "tx-vlan-hw-insert",
	"ntuple": "rx-ntuple-filter", "ntuple-filters": "rx-ntuple-filter",
	"rxhash": "rx-hashing", "receive-hashing": "rx-hashing",
}

// matchFeature compares a feature's name with a pattern that has one * at most.
func matchFeature(pattern, name string) bool {
	before, after, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	return len(name) >= len(before)+len(after) && strings.HasPrefix(name, before) && strings.HasSuffix(name, after)
}
