package fact

import (
	"strings"
)

// Net is one network device (Documentation/ABI/testing/sysfs-class-net). It lacks values that
// only netlink provides (rings, coalescing, offloads).
type Net struct {
	// Kind is ethernet, loopback, bond, bridge, vlan, team, wireless, veth, tun,
	// vxlan, geneve, infiniband, ppp, dummy or other.
	Kind         Fact[string]   `json:"kind"`
	Physical     Fact[bool]     `json:"physical"` // it has a hardware device
	Driver       Fact[string]   `json:"driver"`
	State        Fact[string]   `json:"state"` // up, down, unknown, ... (RFC 2863)
	Carrier      Fact[bool]     `json:"carrier"`
	SpeedBps     Fact[int64]    `json:"speed_bits_per_second"`
	Duplex       Fact[string]   `json:"duplex"`
	MTUBytes     Fact[int64]    `json:"mtu_bytes"`
	TxQueueLen   Fact[int64]    `json:"tx_queue_len"`
	RxQueues     Fact[int64]    `json:"rx_queues"`
	TxQueues     Fact[int64]    `json:"tx_queues"`
	NUMANode     Fact[int64]    `json:"numa_node"`
	AddressKind  Fact[string]   `json:"address_kind"` // permanent, random, stolen, set
	BondMode     Fact[string]   `json:"bond_mode"`    // balance-rr, active-backup, 802.3ad, ...
	BondMembers  Fact[[]string] `json:"bond_members"`
	UpperDevice  Fact[string]   `json:"upper_device"`   // bond, bridge or team to which it belongs
	PCIID        Fact[string]   `json:"pci_id"`         // vendor:device
	GROFlushNS   Fact[int64]    `json:"gro_flush_ns"`   // gro_flush_timeout
	DeferHardIRQ Fact[int64]    `json:"defer_hard_irq"` // napi_defer_hard_irqs
}

const netDir = "/sys/class/net"

func collectNet(r *reader, f *Facts) {
	names, n := r.dir(netDir)
	f.Net.note = n
	for _, name := range names {
		if name == "bonding_masters" { // a file between the links
			continue
		}
		readNet(r, name, f.Net.add(name))
	}
}

func readNet(r *reader, name string, d *Net) {
	dir := netDir + "/" + name + "/"
	d.Kind = netKind(r, name)
	d.Physical = r.exists(dir + "device")
	d.Driver = r.link(dir + "device/driver")
	d.State = r.str(dir + "operstate")
	d.Carrier = r.flag(dir + "carrier")
	d.SpeedBps = r.minusOneAbsent(dir+"speed", 1_000_000)
	if Is(d.SpeedBps, 0) {
		d.SpeedBps = Absent[int64](d.SpeedBps.source)
	}
	if Is(d.SpeedBps, 4294967295*1_000_000) { // SPEED_UNKNOWN in old drivers
		d.SpeedBps = Absent[int64](d.SpeedBps.source)
	}
	d.Duplex = r.str(dir + "duplex")
	d.MTUBytes = r.int(dir + "mtu")
	d.TxQueueLen = r.int(dir + "tx_queue_len")
	queues, n := r.dir(dir + "queues")
	d.RxQueues = withNote(n, int64(len(numbered(queues, "rx-"))))
	d.TxQueues = withNote(n, int64(len(numbered(queues, "tx-"))))
	d.NUMANode = r.minusOneAbsent(dir+"device/numa_node", 1)
	d.AddressKind = convert(r.int(dir+"addr_assign_type"), func(kind int64) string {
		words := []string{"permanent", "random", "stolen", "set"} // include/uapi/linux/netdevice.h, NET_ADDR_*
		if kind >= 0 && kind < int64(len(words)) {
			return words[kind]
		}
		return "other"
	})
	d.BondMode = convert(r.str(dir+"bonding/mode"), func(s string) string { // "802.3ad 4"
		mode, _, _ := strings.Cut(s, " ")
		return mode
	})
	d.BondMembers = r.anyWords(dir + "bonding/slaves")
	d.UpperDevice = r.link(dir + "master")
	vendor, device := r.str(dir+"device/vendor"), r.str(dir+"device/device")
	if v, ok := vendor.Get(); ok {
		d.PCIID = convert(device, func(id string) string {
			return strings.TrimPrefix(v, "0x") + ":" + strings.TrimPrefix(id, "0x")
		})
	} else {
		d.PCIID = Fact[string]{note: vendor.note}
	}
	d.GROFlushNS = r.int(dir + "gro_flush_timeout")
	d.DeferHardIRQ = r.int(dir + "napi_defer_hard_irqs")
}

// netKind determines the kind of a device from its DEVTYPE (SET_NETDEV_DEVTYPE in its driver),
// else from its directories, else from ARPHRD (include/uapi/linux/if_arp.h).
func netKind(r *reader, name string) Fact[string] {
	dir := netDir + "/" + name + "/"
	uevent, n := r.text(dir + "uevent")
	if n.known() {
		switch t := keyed(uevent, "=")["DEVTYPE"]; t {
		case "wlan":
			return Known("wireless", dir+"uevent")
		case "bond", "bridge", "vlan", "vxlan", "geneve", "wireguard", "macvlan":
			return Known(t, dir+"uevent")
		}
	}
	for _, m := range []struct{ sub, kind string }{{"bonding", "bond"}, {"bridge", "bridge"}, {"tun_flags", "tun"}, {"wireless", "wireless"}} {
		if r.exists(dir + m.sub).Or(false) {
			return Known(m.kind, dir+m.sub)
		}
	}
	switch kind := r.int(dir + "type"); kind.Or(-1) {
	case 1:
		return Known("ethernet", kind.source)
	case 772:
		return Known("loopback", kind.source)
	case 32:
		return Known("infiniband", kind.source)
	case 512:
		return Known("ppp", kind.source)
	case -1:
		return Fact[string]{note: kind.note}
	default:
		return Known("other", kind.source)
	}
}
