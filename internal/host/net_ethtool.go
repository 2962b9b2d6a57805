package host

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// The formats of ethtool's parameters.
const (
	number = iota // u32
	flag          // u8, on or off
	split         // u8 of tcp-data-split: auto, off, on (ETHTOOL_TCP_DATA_SPLIT_*)
)

var splitWords = []string{"auto", "off", "on"}

// ethtoolParam is one attribute of ethtool's netlink family
// (Documentation/networking/ethtool-netlink.rst).
type ethtoolParam struct {
	name   string // as ethtool(8) takes it
	attr   uint16
	max    uint16 // the attribute with the largest value; 0 if there is none
	format int
}

// ethtoolGroup is a pair of commands. The ioctl's structure of each
// (include/uapi/linux/ethtool.h) is 32-bit words in the order of the netlink
// attributes, one place earlier; words is how many there are.
type ethtoolGroup struct {
	get, set           uint8
	ioctlGet, ioctlSet uint32
	words              int
	params             []ethtoolParam
}

var ethtoolGroups = map[NetGroup]ethtoolGroup{
	NetCoalesce: {unix.ETHTOOL_MSG_COALESCE_GET, unix.ETHTOOL_MSG_COALESCE_SET, 0xe, 0xf, 23, []ethtoolParam{
		{name: "adaptive-rx", attr: unix.ETHTOOL_A_COALESCE_USE_ADAPTIVE_RX, format: flag},
		{name: "adaptive-tx", attr: unix.ETHTOOL_A_COALESCE_USE_ADAPTIVE_TX, format: flag},
		{name: "rx-usecs", attr: unix.ETHTOOL_A_COALESCE_RX_USECS},
		{name: "rx-frames", attr: unix.ETHTOOL_A_COALESCE_RX_MAX_FRAMES},
		{name: "rx-usecs-irq", attr: unix.ETHTOOL_A_COALESCE_RX_USECS_IRQ},
		{name: "rx-frames-irq", attr: unix.ETHTOOL_A_COALESCE_RX_MAX_FRAMES_IRQ},
		{name: "tx-usecs", attr: unix.ETHTOOL_A_COALESCE_TX_USECS},
		{name: "tx-frames", attr: unix.ETHTOOL_A_COALESCE_TX_MAX_FRAMES},
		{name: "tx-usecs-irq", attr: unix.ETHTOOL_A_COALESCE_TX_USECS_IRQ},
		{name: "tx-frames-irq", attr: unix.ETHTOOL_A_COALESCE_TX_MAX_FRAMES_IRQ},
		{name: "stats-block-usecs", attr: unix.ETHTOOL_A_COALESCE_STATS_BLOCK_USECS},
		{name: "pkt-rate-low", attr: unix.ETHTOOL_A_COALESCE_PKT_RATE_LOW},
		{name: "rx-usecs-low", attr: unix.ETHTOOL_A_COALESCE_RX_USECS_LOW},
		{name: "rx-frames-low", attr: unix.ETHTOOL_A_COALESCE_RX_MAX_FRAMES_LOW},
		{name: "tx-usecs-low", attr: unix.ETHTOOL_A_COALESCE_TX_USECS_LOW},
		{name: "tx-frames-low", attr: unix.ETHTOOL_A_COALESCE_TX_MAX_FRAMES_LOW},
		{name: "pkt-rate-high", attr: unix.ETHTOOL_A_COALESCE_PKT_RATE_HIGH},
		{name: "rx-usecs-high", attr: unix.ETHTOOL_A_COALESCE_RX_USECS_HIGH},
		{name: "rx-frames-high", attr: unix.ETHTOOL_A_COALESCE_RX_MAX_FRAMES_HIGH},
		{name: "tx-usecs-high", attr: unix.ETHTOOL_A_COALESCE_TX_USECS_HIGH},
		{name: "tx-frames-high", attr: unix.ETHTOOL_A_COALESCE_TX_MAX_FRAMES_HIGH},
		{name: "sample-interval", attr: unix.ETHTOOL_A_COALESCE_RATE_SAMPLE_INTERVAL},
		{name: "cqe-mode-rx", attr: unix.ETHTOOL_A_COALESCE_USE_CQE_MODE_RX, format: flag},
		{name: "cqe-mode-tx", attr: unix.ETHTOOL_A_COALESCE_USE_CQE_MODE_TX, format: flag},
		// include/uapi/linux/ethtool_netlink.h, since Linux 6.3.
		{name: "tx-aggr-max-bytes", attr: 26},
		{name: "tx-aggr-max-frames", attr: 27},
		{name: "tx-aggr-time-usecs", attr: 28},
	}},
	NetPause: {unix.ETHTOOL_MSG_PAUSE_GET, unix.ETHTOOL_MSG_PAUSE_SET, 0x12, 0x13, 4, []ethtoolParam{
		{name: "autoneg", attr: unix.ETHTOOL_A_PAUSE_AUTONEG, format: flag},
		{name: "rx", attr: unix.ETHTOOL_A_PAUSE_RX, format: flag},
		{name: "tx", attr: unix.ETHTOOL_A_PAUSE_TX, format: flag},
	}},
	NetRing: {unix.ETHTOOL_MSG_RINGS_GET, unix.ETHTOOL_MSG_RINGS_SET, 0x10, 0x11, 9, []ethtoolParam{
		{name: "rx", attr: unix.ETHTOOL_A_RINGS_RX, max: unix.ETHTOOL_A_RINGS_RX_MAX},
		{name: "rx-mini", attr: unix.ETHTOOL_A_RINGS_RX_MINI, max: unix.ETHTOOL_A_RINGS_RX_MINI_MAX},
		{name: "rx-jumbo", attr: unix.ETHTOOL_A_RINGS_RX_JUMBO, max: unix.ETHTOOL_A_RINGS_RX_JUMBO_MAX},
		{name: "tx", attr: unix.ETHTOOL_A_RINGS_TX, max: unix.ETHTOOL_A_RINGS_TX_MAX},
		{name: "rx-buf-len", attr: unix.ETHTOOL_A_RINGS_RX_BUF_LEN},
		{name: "tcp-data-split", attr: unix.ETHTOOL_A_RINGS_TCP_DATA_SPLIT, format: split},
		{name: "cqe-size", attr: unix.ETHTOOL_A_RINGS_CQE_SIZE},
		{name: "tx-push", attr: unix.ETHTOOL_A_RINGS_TX_PUSH, format: flag},
		{name: "rx-push", attr: unix.ETHTOOL_A_RINGS_RX_PUSH, format: flag},
		{name: "tx-push-buf-len", attr: unix.ETHTOOL_A_RINGS_TX_PUSH_BUF_LEN, max: unix.ETHTOOL_A_RINGS_TX_PUSH_BUF_LEN_MAX},
		{name: "hds-thresh", attr: unix.ETHTOOL_A_RINGS_HDS_THRESH, max: unix.ETHTOOL_A_RINGS_HDS_THRESH_MAX},
	}},
	NetChannels: {unix.ETHTOOL_MSG_CHANNELS_GET, unix.ETHTOOL_MSG_CHANNELS_SET, 0x3c, 0x3d, 9, []ethtoolParam{
		{name: "rx", attr: unix.ETHTOOL_A_CHANNELS_RX_COUNT, max: unix.ETHTOOL_A_CHANNELS_RX_MAX},
		{name: "tx", attr: unix.ETHTOOL_A_CHANNELS_TX_COUNT, max: unix.ETHTOOL_A_CHANNELS_TX_MAX},
		{name: "other", attr: unix.ETHTOOL_A_CHANNELS_OTHER_COUNT, max: unix.ETHTOOL_A_CHANNELS_OTHER_MAX},
		{name: "combined", attr: unix.ETHTOOL_A_CHANNELS_COMBINED_COUNT, max: unix.ETHTOOL_A_CHANNELS_COMBINED_MAX},
	}},
}

// NetParamNames lists the parameters that a group can have, as ethtool(8) takes
// them; none for features, whose names are the kernel's.
func NetParamNames(g NetGroup) []string {
	switch g {
	case NetLink:
		return []string{"mtu", "txqueuelen"}
	case NetWakeOnLAN:
		return []string{string(NetWakeOnLAN)}
	}
	var names []string
	for _, p := range ethtoolGroups[g].params {
		names = append(names, p.name)
	}
	return names
}

// NetParamIsSwitch is true for parameters that are on or off.
func NetParamIsSwitch(g NetGroup, name string) bool {
	p, ok := ethtoolGroups[g].find(name)
	return g == NetFeatures || ok && p.format == flag
}

func (g ethtoolGroup) find(name string) (ethtoolParam, bool) {
	for _, p := range g.params {
		if p.name == name {
			return p, true
		}
	}
	return ethtoolParam{}, false
}

func (g ethtoolGroup) read(device string) ([]NetParam, error) {
	values := map[uint16]uint32{}
	err := ask(g.get, device, func(ad *netlink.AttributeDecoder) {
		switch data := ad.Bytes(); len(data) {
		case 1:
			values[ad.Type()] = uint32(ad.Uint8())
		case 4:
			values[ad.Type()] = ad.Uint32()
		}
	})
	if errors.Is(err, syscall.EOPNOTSUPP) {
		// The device has none of it, or the kernel has no such command yet.
		values, err = g.readByIoctl(device)
	}
	if err != nil {
		return nil, err
	}
	var params []NetParam
	for _, p := range g.params {
		v, ok := values[p.attr]
		if !ok {
			continue
		}
		np := NetParam{Name: p.name, Value: p.text(v)}
		if most, ok := values[p.max]; ok && p.max != 0 {
			if most == 0 {
				continue // the ioctl's way to say that the device has none
			}
			np.Max = strconv.FormatUint(uint64(most), 10)
		}
		params = append(params, np)
	}
	if len(params) == 0 {
		return nil, syscall.EOPNOTSUPP
	}
	return params, nil
}

func (p ethtoolParam) text(v uint32) string {
	switch {
	case p.format == flag:
		return onOff(v != 0)
	case p.format == split && int(v) < len(splitWords):
		return splitWords[v]
	}
	return strconv.FormatUint(uint64(v), 10)
}

func (p ethtoolParam) parse(text string) (uint32, error) {
	switch p.format {
	case flag:
		on, err := parseOnOff(text)
		if on {
			return 1, err
		}
		return 0, err
	case split:
		for i, w := range splitWords {
			if w == text {
				return uint32(i), nil
			}
		}
		return 0, fmt.Errorf("%q is not auto, on or off", text)
	}
	v, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is no number of 32 bits", text)
	}
	return uint32(v), nil
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func parseOnOff(text string) (bool, error) {
	switch text {
	case "on":
		return true, nil
	case "off":
		return false, nil
	}
	return false, fmt.Errorf("%q is not on or off", text)
}

func (g ethtoolGroup) write(device, name, value string) error {
	p, ok := g.find(name)
	if !ok {
		return errUnknownParam
	}
	v, err := p.parse(value)
	if err != nil {
		return err
	}
	err = tell(g.set, device, func(ae *netlink.AttributeEncoder) {
		if p.format == number {
			ae.Uint32(p.attr, v)
		} else {
			ae.Uint8(p.attr, uint8(v))
		}
	})
	if errors.Is(err, syscall.EOPNOTSUPP) && int(p.attr) <= g.words {
		if ierr := g.writeByIoctl(device, p, v); !errors.Is(ierr, syscall.EOPNOTSUPP) {
			return ierr
		}
	}
	return err
}

// features reads the device's features: what can be changed, what is wanted and
// what is active (net/ethtool/features.c).
func features(device string) ([]NetParam, error) {
	var names []string
	sets := map[uint16]map[string]bool{}
	err := ask(unix.ETHTOOL_MSG_FEATURES_GET, device, func(ad *netlink.AttributeDecoder) {
		if t := ad.Type(); t >= unix.ETHTOOL_A_FEATURES_HW && t <= unix.ETHTOOL_A_FEATURES_NOCHANGE {
			all, set := bitset(ad)
			if sets[t] = set; t == unix.ETHTOOL_A_FEATURES_HW {
				names = all // its mask has every feature that the kernel knows
			}
		}
	})
	if errors.Is(err, syscall.EOPNOTSUPP) {
		return featuresByIoctl(device)
	}
	if err != nil {
		return nil, err
	}
	params := make([]NetParam, 0, len(names))
	for _, name := range names {
		active, wanted := sets[unix.ETHTOOL_A_FEATURES_ACTIVE][name], sets[unix.ETHTOOL_A_FEATURES_WANTED][name]
		fixed := !sets[unix.ETHTOOL_A_FEATURES_HW][name] || sets[unix.ETHTOOL_A_FEATURES_NOCHANGE][name]
		params = append(params, feature(name, active, wanted, fixed))
	}
	return params, nil
}

func feature(name string, active, wanted, fixed bool) NetParam {
	p := NetParam{Name: name, Value: onOff(active), Fixed: fixed}
	if !fixed && active != wanted {
		p.Requested = onOff(wanted)
	}
	return p
}

func setFeature(device, name, value string) error {
	on, err := parseOnOff(value)
	if err != nil {
		return err
	}
	err = tell(unix.ETHTOOL_MSG_FEATURES_SET, device, func(ae *netlink.AttributeEncoder) {
		ae.Nested(unix.ETHTOOL_A_FEATURES_WANTED, func(set *netlink.AttributeEncoder) error {
			return encodeBits(set, []string{name}, map[string]bool{name: on})
		})
	})
	if errors.Is(err, syscall.EOPNOTSUPP) {
		if ierr := setFeatureByIoctl(device, name, on); !errors.Is(ierr, syscall.EOPNOTSUPP) {
			return ierr
		}
	}
	return err
}

// wakeModes are the wake-on-LAN modes in the order in which ethtool(8) prints
// them: its letter, the netlink name (net/ethtool/common.c, wol_mode_names) and
// the bit (WAKE_* of include/uapi/linux/ethtool.h).
var wakeModes = []struct {
	letter byte
	name   string
	bit    uint32
}{
	{'p', "phy", 1 << 0}, {'u', "ucast", 1 << 1}, {'m', "mcast", 1 << 2}, {'b', "bcast", 1 << 3},
	{'a', "arp", 1 << 4}, {'g', "magic", 1 << 5}, {'s', "magicsecure", 1 << 6}, {'f', "filter", 1 << 7},
}

func wakeLetters(has func(i int) bool) string {
	var b strings.Builder
	for i, m := range wakeModes {
		if has(i) {
			b.WriteByte(m.letter)
		}
	}
	if b.Len() == 0 {
		return "d"
	}
	return b.String()
}

// wakeOnLAN reads the modes. The password of SecureOn is not asked for.
func wakeOnLAN(device string) ([]NetParam, error) {
	var known, on func(i int) bool
	err := ask(unix.ETHTOOL_MSG_WOL_GET, device, func(ad *netlink.AttributeDecoder) {
		if ad.Type() == unix.ETHTOOL_A_WOL_MODES {
			all, set := bitset(ad)
			known = func(i int) bool { return contains(all, wakeModes[i].name) }
			on = func(i int) bool { return set[wakeModes[i].name] }
		}
	})
	if errors.Is(err, syscall.EOPNOTSUPP) {
		var w []uint32
		if w, err = ethtoolIoctl(device, ioctlGetWake, make([]uint32, wakeWords)); err == nil {
			known = func(i int) bool { return w[1]&wakeModes[i].bit != 0 }
			on = func(i int) bool { return w[2]&wakeModes[i].bit != 0 }
		}
	}
	if err != nil {
		return nil, err
	}
	if known == nil {
		return nil, syscall.EOPNOTSUPP
	}
	p := NetParam{Name: string(NetWakeOnLAN), Value: wakeLetters(on), Max: wakeLetters(known)}
	p.Fixed = p.Max == "d"
	return []NetParam{p}, nil
}

func contains(list []string, name string) bool {
	for _, s := range list {
		if s == name {
			return true
		}
	}
	return false
}

func setWakeOnLAN(device, letters string) error {
	var names []string
	var bits uint32
	set := map[string]bool{}
	for _, m := range wakeModes {
		names = append(names, m.name)
		if strings.IndexByte(letters, m.letter) >= 0 {
			set[m.name] = true
			bits |= m.bit
		}
	}
	if letters != wakeLetters(func(i int) bool { return set[wakeModes[i].name] }) {
		return fmt.Errorf("%q is not d or letters of pumbagsf in this order", letters)
	}
	err := tell(unix.ETHTOOL_MSG_WOL_SET, device, func(ae *netlink.AttributeEncoder) {
		ae.Nested(unix.ETHTOOL_A_WOL_MODES, func(b *netlink.AttributeEncoder) error {
			return encodeBits(b, names, set)
		})
	})
	if errors.Is(err, syscall.EOPNOTSUPP) {
		w, ierr := ethtoolIoctl(device, ioctlGetWake, make([]uint32, wakeWords))
		if ierr == nil {
			w[2] = bits
			_, ierr = ethtoolIoctl(device, ioctlSetWake, w)
		}
		if !errors.Is(ierr, syscall.EOPNOTSUPP) {
			return ierr
		}
	}
	return err
}

// bitset reads a verbose bit set: the names in it, and those that are set.
func bitset(ad *netlink.AttributeDecoder) (names []string, set map[string]bool) {
	set = map[string]bool{}
	noMask := false
	ad.Nested(func(ad *netlink.AttributeDecoder) error {
		for ad.Next() {
			switch ad.Type() {
			case unix.ETHTOOL_A_BITSET_NOMASK:
				noMask = true
			case unix.ETHTOOL_A_BITSET_BITS:
				ad.Nested(func(ad *netlink.AttributeDecoder) error {
					for ad.Next() {
						ad.Nested(func(ad *netlink.AttributeDecoder) error {
							name, value := "", false
							for ad.Next() {
								switch ad.Type() {
								case unix.ETHTOOL_A_BITSET_BIT_NAME:
									name = ad.String()
								case unix.ETHTOOL_A_BITSET_BIT_VALUE:
									value = true
								}
							}
							if name != "" { // a bit of the kernel's own
								names = append(names, name)
								set[name] = value
							}
							return nil
						})
					}
					return nil
				})
			}
		}
		return nil
	})
	if noMask {
		for _, name := range names {
			set[name] = true
		}
	}
	return names, set
}

// encodeBits writes a verbose bit set that changes the named bits only.
func encodeBits(ae *netlink.AttributeEncoder, names []string, set map[string]bool) error {
	ae.Nested(unix.ETHTOOL_A_BITSET_BITS, func(bits *netlink.AttributeEncoder) error {
		for _, name := range names {
			bits.Nested(unix.ETHTOOL_A_BITSET_BITS_BIT, func(bit *netlink.AttributeEncoder) error {
				bit.String(unix.ETHTOOL_A_BITSET_BIT_NAME, name)
				bit.Flag(unix.ETHTOOL_A_BITSET_BIT_VALUE, set[name])
				return nil
			})
		}
		return nil
	})
	return nil
}

// ethtoolFamily is the number of ethtool's generic netlink family, the same in
// every network namespace until the next boot.
var ethtoolFamily = sync.OnceValues(func() (genetlink.Family, error) {
	c, err := genetlink.Dial(nil)
	if err != nil {
		return genetlink.Family{}, err
	}
	defer c.Close()
	f, err := c.GetFamily("ethtool")
	if errors.Is(err, fs.ErrNotExist) { // before Linux 5.6
		return f, syscall.EOPNOTSUPP
	}
	return f, err
})

// ask sends a request of the ethtool family and hands each attribute of the
// answer to decode. Every message has the header as its first attribute.
func ask(command uint8, device string, decode func(*netlink.AttributeDecoder)) error {
	messages, err := execute(command, device, netlink.Request, nil)
	if err != nil {
		return err
	}
	for _, m := range messages {
		ad, err := netlink.NewAttributeDecoder(m.Data)
		if err != nil {
			return err
		}
		for ad.Next() {
			decode(ad)
		}
		if err := ad.Err(); err != nil {
			return fmt.Errorf("ethtool's netlink answer: %w", err)
		}
	}
	return nil
}

// tell sends a request that changes something. The kernel's own words go with
// the error where it has any.
func tell(command uint8, device string, encode func(*netlink.AttributeEncoder)) error {
	_, err := execute(command, device, netlink.Request|netlink.Acknowledge, encode)
	return err
}

func execute(command uint8, device string, flags netlink.HeaderFlags, encode func(*netlink.AttributeEncoder)) ([]genetlink.Message, error) {
	const header, omitReply = 1, 2 // ETHTOOL_A_*_HEADER of every message, ETHTOOL_FLAG_OMIT_REPLY
	family, err := ethtoolFamily()
	if err != nil {
		return nil, err
	}
	ae := netlink.NewAttributeEncoder()
	ae.Nested(header, func(h *netlink.AttributeEncoder) error {
		h.String(unix.ETHTOOL_A_HEADER_DEV_NAME, device)
		if encode != nil {
			h.Uint32(unix.ETHTOOL_A_HEADER_FLAGS, omitReply)
		}
		return nil
	})
	if encode != nil {
		encode(ae)
	}
	data, err := ae.Encode()
	if err != nil {
		return nil, err
	}
	c, err := genetlink.Dial(nil)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	_ = c.SetOption(netlink.ExtendedAcknowledge, true) // words beside the errno, since Linux 4.12
	messages, err := c.Execute(genetlink.Message{
		Header: genetlink.Header{Command: command, Version: family.Version}, Data: data,
	}, family.ID, flags)
	var op *netlink.OpError
	if errors.As(err, &op) && op.Err != nil {
		if op.Message != "" {
			return nil, fmt.Errorf("%w (%s)", op.Err, op.Message)
		}
		return nil, op.Err
	}
	return messages, err
}
