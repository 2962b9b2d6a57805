// net is the plug-in for network devices: offloads, interrupt
// coalescing, pause frames, rings, channels, queue length, MTU and wake-on-LAN,
// over netlink.

package device

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// Net is the plug-in for [net] sections.
var Net = plugin.Plugin{
	Name:       "net",
	Doc:        "sets offloads, coalescing, rings, channels and wake-on-LAN of physical network devices, and the size of the connection tracking table",
	Devices:    netDevices,
	DevicePath: netSysDir,
	Dynamic:    netDynamic,
	Options: []plugin.Option{
		{Name: "dynamic", Default: "true", Control: true, Words: plugin.OnlyTrue, Check: plugin.CheckDynamic,
			Doc: "true or false: the advertised link speed follows the load if dynamic tuning is on; each change interrupts the link for some seconds"},
		{Name: "nf_conntrack_hashsize", Plan: planHashSize,
			Doc: "buckets of the connection tracking table, 1 or more; the kernel rounds up to a full page"},
		// Channels first: in many drivers a new number resets rings and interrupt moderation.
		// Among features, checksums come before those that need them.
		{Name: "channels", PerDevice: true, Plan: planGroup(host.NetChannels),
			Doc: "channels (an interrupt and its queues) as NAME N ...: rx, tx, other, combined (ethtool -l); if a device has only one of the forms combined N and rx N tx N, either form can be used"},
		{Name: "ring", PerDevice: true, Plan: planGroup(host.NetRing),
			Doc: "descriptors in each ring as NAME N ...: rx, rx-mini, rx-jumbo, tx (ethtool -g)"},
		{Name: "features", PerDevice: true, Plan: planGroup(host.NetFeatures),
			Doc: "offloads as NAME on|off ..., with the kernel's names or ethtool's (tx, sg, tso, gso, gro, lro, rxvlan, txvlan, ntuple, rxhash; ethtool -k)"},
		{Name: "coalesce", PerDevice: true, Plan: planGroup(host.NetCoalesce),
			Doc: "interrupt moderation as NAME VALUE ...: microseconds (rx-usecs), frames (rx-frames), on or off (adaptive-rx); ethtool -c"},
		{Name: "pause", PerDevice: true, Plan: planGroup(host.NetPause),
			Doc: "Ethernet flow control as NAME on|off ...: autoneg, rx, tx (ethtool -a)"},
		{Name: "txqueuelen", PerDevice: true, Plan: planLink("txqueuelen", 0, "a number of packets"),
			Doc: "length of the transmit queue in packets, 0 or more"},
		{Name: "mtu", PerDevice: true, Plan: planLink("mtu", 1, "a number of bytes"),
			Doc: "largest packet in bytes; less than 1280 is refused for a device with IPv6, because it would lose its IPv6 addresses"},
		{Name: "wake_on_lan", PerDevice: true, Plan: planWakeOnLAN,
			Doc: "events that wake the machine: letters of pumbagsf as in ethtool -s wol, d or 0 for none"},
	},
}

const classDir = "/sys/class/net/"

func netSysDir(device string) string { return classDir + device }

// netDevices lists the network devices with a bus device, as TuneD does: those outside sysfs's
// "virtual".
func netDevices(_ context.Context, h *host.Host) ([]string, error) {
	entries, err := h.Files.ReadDir(strings.TrimSuffix(classDir, "/"))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		real, err := h.Files.Resolve(classDir + e.Name())
		if err != nil {
			if host.Unknown(err) {
				return nil, err
			}
			continue
		}
		// bonding_masters is a file, not a link.
		if strings.HasPrefix(real, "/sys/devices/") && !strings.Contains(real, "/virtual/") {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// pair is one name and value in an option's list.
type pair struct{ name, value string }

// pairs splits "rx-usecs 3 tx-usecs 16". A colon after a name, commas and semicolons are
// separators too. It returns false for an invalid list.
func pairs(text string) ([]pair, bool) {
	words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\n\r\v\f:;,", r) })
	if len(words) == 0 || len(words)%2 != 0 {
		return nil, false
	}
	var out []pair
	for i := 0; i < len(words); i += 2 {
		out = append(out, pair{words[i], words[i+1]})
	}
	return out, true
}

// planGroup returns a function that plans a list of parameters of one netlink group.
func planGroup(g host.NetGroup) func(context.Context, *plugin.Request, profile.Option, string) ([]plugin.Item, error) {
	return func(_ context.Context, r *plugin.Request, o profile.Option, device string) ([]plugin.Item, error) {
		if plugin.IsNone(o.Value) {
			return nil, nil
		}
		list, ok := pairs(o.Value)
		if !ok {
			return plugin.BadValue(netSetting(device, g, "*"), o, "names and values in turn, as ethtool takes them"), nil
		}
		params, err := r.Host.Net.Params(device, g)
		if g == host.NetChannels && err == nil {
			list = eitherMode(list, params)
		}
		var items []plugin.Item
		for _, p := range list {
			items = append(items, planParam(device, g, p, params, err, o)...)
		}
		return items, nil
	}
}

// planParam plans one parameter. err is the reason why the parameters are unknown, or nil.
func planParam(device string, g host.NetGroup, p pair, params []host.NetParam, err error, o profile.Option) []plugin.Item {
	s := netSetting(device, g, p.name)
	refuse := func(v plugin.Verdict, format string, args ...any) []plugin.Item {
		it := plugin.Refuse(s, o, v, format, args...)
		it.Change.Want = setting.Text(p.value)
		return []plugin.Item{it}
	}
	value, want := parseValue(g, p)
	switch known := host.NetParamNames(g); {
	case known != nil && !slices.Contains(known, p.name):
		return refuse(plugin.Rejected, "no %s parameter is called %q; valid names are %s", g, p.name, strings.Join(known, ", "))
	case want != "":
		return refuse(plugin.Rejected, "%q is not a value for %s: want %s", p.value, p.name, want)
	case host.Unknown(err):
		return refuse(plugin.Unknown, "not recorded in this copy")
	case errors.Is(err, syscall.EOPNOTSUPP):
		return refuse(plugin.Unsupported, "the driver of %s has no %s parameters", device, g)
	case errors.Is(err, fs.ErrNotExist):
		return refuse(plugin.Unsupported, "network device %s was removed", device)
	case errors.Is(err, fs.ErrPermission): // only root can read wake-on-LAN
		return refuse(plugin.Unknown, "not readable: %v", err)
	case err != nil:
		return refuse(plugin.Unsupported, "%v", err)
	}
	if g == host.NetFeatures {
		return planFeature(device, p.name, value, params, o, refuse)
	}
	now, ok := host.FindParam(params, p.name)
	if !ok {
		return refuse(plugin.Unsupported, "%s has no %s parameter %s", device, g, p.name)
	}
	if most, err := strconv.ParseUint(now.Max, 10, 32); err == nil {
		if n, err := strconv.ParseUint(value, 10, 32); err == nil && n > most {
			return refuse(plugin.Unsupported, "%s of %s can be at most %d", p.name, device, most)
		}
	}
	return []plugin.Item{plugin.Want(s, value, o)}
}

// parseValue converts a value to the kernel's form. For an invalid value, want describes valid
// ones.
func parseValue(g host.NetGroup, p pair) (value, want string) {
	if host.NetParamIsSwitch(g, p.name) {
		if p.value != "on" && p.value != "off" {
			return "", "on or off"
		}
		return p.value, ""
	}
	if g == host.NetRing && p.name == "tcp-data-split" {
		if !slices.Contains([]string{"auto", "on", "off"}, p.value) {
			return "", "auto, on or off"
		}
		return p.value, ""
	}
	digits, base := p.value, 10
	if hex, ok := strings.CutPrefix(strings.ToLower(digits), "0x"); ok {
		digits, base = hex, 16
	}
	n, err := strconv.ParseUint(digits, base, 32)
	if err != nil {
		return "", "a whole number of 32 bits"
	}
	return strconv.FormatUint(n, 10), ""
}

// planFeature plans every changeable feature that a name covers.
func planFeature(device, name, value string, params []host.NetParam, o profile.Option, refuse func(v plugin.Verdict, format string, args ...any) []plugin.Item) []plugin.Item {
	pattern := name
	if p, ok := aliases[name]; ok {
		pattern = p
	}
	var items []plugin.Item
	var fixed []host.NetParam
	for _, p := range params {
		switch {
		case !matchFeature(pattern, p.Name):
		case p.Fixed:
			fixed = append(fixed, p)
		default:
			it := plugin.Want(netSetting(device, host.NetFeatures, p.Name), value, o)
			if p.Name != name {
				it.Why = fmt.Sprintf("requested as %s", name)
			}
			items = append(items, it)
		}
	}
	if len(items) > 0 {
		return items
	}
	for _, p := range fixed {
		if p.Value != value && (value == "off" || len(fixed) == 1) {
			return refuse(plugin.Unsupported, "%s cannot change %s: it is fixed at %s", device, p.Name, p.Value)
		}
		if p.Value == value { // not changeable, but as wanted
			return []plugin.Item{plugin.Want(netSetting(device, host.NetFeatures, p.Name), value, o)}
		}
	}
	if len(fixed) > 0 {
		return refuse(plugin.Unsupported, "%s cannot change any of %s: all are fixed at off", device, pattern)
	}
	return refuse(plugin.Unsupported, "this kernel has no feature called %s", pattern)
}

// eitherMode converts combined channels to equal numbers of receive and transmit channels if the
// device has only those, and vice versa.
func eitherMode(list []pair, params []host.NetParam) []pair {
	has := func(name string) bool {
		p, ok := host.FindParam(params, name)
		return ok && p.Max != "0"
	}
	var out []pair
	largest, merged := uint64(0), false
	for _, p := range list {
		n, err := strconv.ParseUint(p.value, 10, 32)
		switch {
		case err == nil && p.name == "combined" && !has("combined") && has("rx") && has("tx"):
			out = append(out, pair{"rx", p.value}, pair{"tx", p.value})
		case err == nil && (p.name == "rx" || p.name == "tx") && !has(p.name) && has("combined"):
			largest, merged = max(largest, n), true
		default:
			out = append(out, p)
		}
	}
	if merged {
		out = append(out, pair{"combined", strconv.FormatUint(largest, 10)})
	}
	return out
}

func planLink(param string, least int64, want string) func(context.Context, *plugin.Request, profile.Option, string) ([]plugin.Item, error) {
	return func(_ context.Context, _ *plugin.Request, o profile.Option, device string) ([]plugin.Item, error) {
		if plugin.IsNone(o.Value) {
			return nil, nil
		}
		return plugin.Number(netSetting(device, host.NetLink, param), o, least, math.MaxInt32, want), nil
	}
}

// planWakeOnLAN plans ethtool's letters; each d (or 0) clears the letters before it.
func planWakeOnLAN(_ context.Context, r *plugin.Request, o profile.Option, device string) ([]plugin.Item, error) {
	if plugin.IsNone(o.Value) {
		return nil, nil
	}
	s := netSetting(device, host.NetWakeOnLAN, string(host.NetWakeOnLAN))
	const order = "pumbagsf"
	text := strings.TrimSpace(o.Value)
	asked := map[rune]bool{}
	for _, c := range text {
		switch {
		case c == 'd' || c == '0':
			clear(asked)
		case strings.ContainsRune(order, c):
			asked[c] = true
		default:
			return plugin.BadValue(s, o, "letters of pumbagsf, or d for nothing"), nil
		}
	}
	var letters strings.Builder
	for _, c := range order {
		if asked[c] {
			letters.WriteRune(c)
		}
	}
	value := letters.String()
	if value == "" {
		value = "d"
	}
	params, err := r.Host.Net.Params(device, host.NetWakeOnLAN)
	items := planParam(device, host.NetWakeOnLAN, pair{string(host.NetWakeOnLAN), "0"}, params, err, o)
	items[0].Change.Want = setting.Text(value)
	if items[0].Verdict != "" {
		return items, nil
	}
	now, _ := host.FindParam(params, string(host.NetWakeOnLAN))
	for _, c := range value {
		if c != 'd' && !strings.ContainsRune(now.Max, c) {
			why := fmt.Sprintf("%s supports only the wake-up events %s, not %c", device, now.Max, c)
			if now.Max == "d" {
				why = device + " cannot wake this machine"
			}
			it := plugin.Refuse(s, o, plugin.Unsupported, "%s", why)
			it.Change.Want = setting.Text(value)
			return []plugin.Item{it}, nil
		}
	}
	return items, nil
}

const hashSize = "/sys/module/nf_conntrack/parameters/hashsize"

func planHashSize(_ context.Context, r *plugin.Request, o profile.Option, _ string) ([]plugin.Item, error) {
	if plugin.IsNone(o.Value) {
		return nil, nil
	}
	s := plugin.Sysfs(hashSize)
	n, err := strconv.ParseInt(strings.TrimSpace(o.Value), 10, 32)
	if err != nil || n < 1 {
		return plugin.BadValue(s, o, "a number of buckets, 1 or more"), nil
	}
	if !plugin.Exists(r.Host, hashSize) {
		return plugin.Lacks(r.Host, s, o, "the module nf_conntrack is not loaded"), nil
	}
	// nf_ct_alloc_hashtable: whole pages of 8-byte heads.
	perPage := r.Host.PageSize() / 8
	whole := (n + perPage - 1) / perPage * perPage
	it := plugin.Want(s, strconv.FormatInt(whole, 10), o)
	if whole != n {
		it.Why = fmt.Sprintf("%d in whole pages of %d", n, perPage)
	}
	return []plugin.Item{it}, nil
}
