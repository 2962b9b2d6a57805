package device

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// NetKinds returns the setting kinds that this plug-in adds.
func NetKinds(h *host.Host) map[string]setting.Kind {
	return map[string]setting.Kind{netKind: kind{h}}
}

// kind is the setting kind of network device parameters, over netlink. A requested feature that is
// inactive, because a feature that it needs is off, reads as "off [requested on]", as ethtool -k
// prints it.
type kind struct{ host *host.Host }

// Resolve converts alternative names of a device and of a feature to the kernel's current name. A
// device that was renamed without keeping the old name as an alternative counts as a different
// device.
func (k kind) Resolve(s setting.Setting) (setting.Setting, error) {
	p, err := parsePlace(s.Name)
	if err != nil {
		return setting.Setting{}, err
	}
	if l, err := k.host.Net.Link(p.device); err == nil {
		p.device = l.Name
	}
	return netSetting(p.device, p.group, p.param), nil
}

func (k kind) Read(_ context.Context, s setting.Setting) (setting.Value, error) {
	p, err := parsePlace(s.Name)
	if err != nil {
		return setting.Value{}, err
	}
	params, err := k.host.Net.Params(p.device, p.group)
	switch {
	case host.Unknown(err):
		return setting.Value{}, err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EOPNOTSUPP):
		return setting.Absent, nil
	case err != nil:
		return setting.Value{}, err
	}
	np, ok := host.FindParam(params, p.param)
	if !ok {
		return setting.Absent, nil
	}
	return setting.Text(valueOf(np)), nil
}

func valueOf(p host.NetParam) string {
	if p.Requested != "" {
		return p.Value + " [requested " + p.Requested + "]"
	}
	return p.Value
}

// Write sets one parameter. For a feature it sets the requested state; whether the feature becomes
// active depends on others.
func (k kind) Write(_ context.Context, s setting.Setting, v setting.Value) error {
	p, err := parsePlace(s.Name)
	if err != nil {
		return err
	}
	if v.Absent {
		return fmt.Errorf("%s: a device parameter cannot be removed", s)
	}
	text := v.Text
	if _, requested, ok := strings.Cut(text, " [requested "); ok {
		text = strings.TrimSuffix(requested, "]")
	}
	return k.host.Net.SetParam(p.device, p.group, p.param, text)
}

func (kind) Equal(a, b setting.Value) bool { return a.Text == b.Text }

// leastMTU lists the minimum MTU in bytes per protocol (RFC 8200, section 5; RFC 791). Below it
// the kernel drops the device's addresses, their routes and its sysctls (net/ipv6/addrconf.c
// addrconf_notify, net/ipv4/devinet.c inetdev_event).
var leastMTU = []struct {
	family, name string
	bytes        int
}{{"ipv6", "IPv6", 1280}, {"ipv4", "IPv4", 68}}

// WhyIrreversible implements setting.Irreversible.
func (k kind) WhyIrreversible(s setting.Setting, _, want setting.Value) (why string, ok bool) {
	p, err := parsePlace(s.Name)
	if err != nil || p.group != host.NetLink || p.param != "mtu" {
		return "", false
	}
	n, err := strconv.Atoi(strings.TrimSpace(want.Text))
	if err != nil {
		return "", false // the kernel rejects it
	}
	for _, least := range leastMTU {
		if n >= least.bytes {
			continue
		}
		for _, d := range k.stack(p.device) {
			if plugin.Exists(k.host, confDir(least.family, d)) {
				return fmt.Sprintf("%s needs an MTU of %d bytes; below that %s loses addresses and routes for good", least.name, least.bytes, d), true
			}
		}
	}
	return "", false
}

// Alias implements setting.Aliaser for the attributes mtu and tx_queue_len in a device's /sys
// directory.
func (k kind) Alias(s setting.Setting) (setting.Setting, bool) {
	dir, attribute := path.Split(s.Name)
	param, ok := map[string]string{"mtu": "mtu", "tx_queue_len": "txqueuelen"}[attribute]
	if s.Kind != "sysfs" || !ok {
		return setting.Setting{}, false
	}
	class, device := path.Split(strings.TrimSuffix(dir, "/"))
	if class != classDir && !(strings.HasPrefix(class, "/sys/devices/") && strings.HasSuffix(class, "/net/")) {
		return setting.Setting{}, false
	}
	// A copy that has the file but no netlink data keeps the file's name.
	if _, err := k.host.Net.Params(device, host.NetLink); host.Unknown(err) {
		return setting.Setting{}, false
	}
	return netSetting(device, host.NetLink, param), true
}

func (kind) Lifetime() setting.Lifetime { return setting.Runtime }

// Coupled lists settings that a write changes in addition to the parameter. It omits changes
// without a setting: the receive hashing table (RSS) and interrupts, which the driver assigns
// again when the number of channels changes.
func (k kind) Coupled(s setting.Setting) []setting.Setting {
	p, err := parsePlace(s.Name)
	if err != nil {
		return nil
	}
	dir := netSysDir(p.device)
	switch p.group {
	case host.NetCoalesce, host.NetPause, host.NetRing:
		// Drivers share interrupt moderation between directions and change it under adaptive-*.
		// They negotiate pause frames with the other end, and may size rings together.
		return k.rest(p)
	case host.NetChannels:
		// net/core/dev.c, netif_set_real_num_rx_queues and _tx_queues: removed queues lose their
		// settings; the driver assigns the others again (netif_set_xps_queue).
		out := k.rest(p)
		for _, a := range []string{"rx-*/rps_cpus", "rx-*/rps_flow_cnt", "tx-*/xps_cpus", "tx-*/xps_rxqs", "tx-*/tx_maxrate",
			"tx-*/byte_queue_limits/limit_max", "tx-*/byte_queue_limits/limit_min"} {
			out = append(out, k.attributes(dir+"/queues/"+a)...)
		}
		return out
	case host.NetFeatures:
		// Other features keep their requested state. netdev_sync_lower_features also turns LRO off
		// below a bond, bridge or VLAN.
		if p.param != "rx-lro" {
			return nil
		}
		return k.neighbors(dir, "lower_", func(d string) setting.Setting { return netSetting(d, p.group, p.param) })
	case host.NetWakeOnLAN:
		// Drivers enable wake-up of the bus device together with it (device_set_wakeup_enable).
		return k.attributes(dir + "/device/power/wakeup")
	}
	if p.param != "mtu" {
		return nil
	}
	// VLANs follow a smaller MTU of the lower device (vlan_device_event). A bond and a bridge
	// follow, and set their members' MTU. IPv6 follows with its own copy (addrconf_notify).
	var out []setting.Setting
	for _, d := range k.stack(p.device) {
		if d != p.device {
			out = append(out, netSetting(d, host.NetLink, "mtu"))
		}
		if plugin.Exists(k.host, confDir("ipv6", d)+"/mtu") {
			out = append(out, plugin.Sysctl("net.ipv6.conf."+strings.ReplaceAll(d, ".", "/")+".mtu"))
		}
	}
	return out
}

func confDir(family, device string) string { return "/proc/sys/net/" + family + "/conf/" + device }

// stack returns the device and all devices stacked on it or below it.
func (k kind) stack(device string) []string {
	out := []string{device}
	name := func(d string) setting.Setting { return setting.Setting{Kind: netKind, Name: d} }
	for _, prefix := range []string{"upper_", "lower_"} {
		for _, s := range k.neighbors(netSysDir(device), prefix, name) {
			out = append(out, s.Name)
		}
	}
	return out
}

// rest returns the other parameters in the parameter's group.
func (k kind) rest(p netPlace) []setting.Setting {
	params, err := k.host.Net.Params(p.device, p.group)
	if err != nil {
		return nil
	}
	var out []setting.Setting
	for _, np := range params {
		if np.Name != p.param {
			out = append(out, netSetting(p.device, p.group, np.Name))
		}
	}
	return out
}

func (k kind) attributes(pattern string) []setting.Setting {
	paths, err := host.Glob(k.host.Files, pattern)
	if err != nil {
		return nil
	}
	var out []setting.Setting
	for _, p := range paths {
		if plugin.Exists(k.host, p) {
			out = append(out, plugin.Sysfs(p))
		}
	}
	return out
}

// neighbors returns the devices stacked on this one (upper_) or below it (lower_). sysfs has a
// link for each (net/core/dev.c, netdev_adjacent_sysfs_add).
func (k kind) neighbors(dir, prefix string, name func(device string) setting.Setting) []setting.Setting {
	entries, err := k.host.Files.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []setting.Setting
	for _, e := range entries {
		if d, ok := strings.CutPrefix(e.Name(), prefix); ok {
			out = append(out, name(d))
		}
	}
	return out
}

// netKind is the setting kind of network devices: net:eth0/mtu, net:eth0/ring-rx,
// net:eth0/coalesce-rx-usecs, net:eth0/feature-rx-gro, net:eth0/channels-combined,
// net:eth0/pause-autoneg, net:eth0/wake-on-lan.
const netKind = "net"

// prefixes maps each parameter group to the prefix of its settings' names.
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

// netPlace is one parameter of one network device.
type netPlace struct {
	device string
	group  host.NetGroup
	param  string
}

// netSetting returns the setting of a parameter, given its group and its name in ethtool(8).
func netSetting(device string, g host.NetGroup, param string) setting.Setting {
	prefix := ""
	for _, p := range prefixes {
		if p.group == g {
			prefix = p.prefix
		}
	}
	return setting.Setting{Kind: netKind, Name: device + "/" + prefix + param}
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
	return netPlace{}, fmt.Errorf("net:%s: unknown network device parameter %q; "+
		"want mtu, txqueuelen, wake-on-lan, advertise, or ethtool's name with the prefix feature-, coalesce-, pause-, ring- or channels-", name, rest)
}

// featurePlace returns the place of a feature, named by the kernel's name or by an ethtool name
// for exactly one feature.
func featurePlace(device, name string) (netPlace, error) {
	pattern, ok := aliases[name]
	if !ok {
		return netPlace{device, host.NetFeatures, name}, nil
	}
	if strings.Contains(pattern, "*") {
		return netPlace{}, fmt.Errorf("net:%s/feature-%s: %s means several features in ethtool (%s); name one of them (see ethtool -k %s)",
			device, name, name, pattern, device)
	}
	return netPlace{device, host.NetFeatures, pattern}, nil
}

// aliases maps ethtool(8)'s older feature names, short and long, to the kernel's names (-K in its
// manual page; -k prints the long names).
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

// matchFeature reports whether a feature's name matches a pattern, which has at most one *.
func matchFeature(pattern, name string) bool {
	before, after, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	return len(name) >= len(before)+len(after) && strings.HasPrefix(name, before) && strings.HasSuffix(name, after)
}
