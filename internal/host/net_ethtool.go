package host

import (
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// The formats of ethtool parameters.
const (
	number = iota // u32
	flag          // u8, on or off
	split         // u8 of tcp-data-split: auto, off, on (ETHTOOL_TCP_DATA_SPLIT_*)
)

var splitWords = []string{"auto", "off", "on"}

// ethtoolParam describes one attribute of ethtool's netlink family
// (Documentation/networking/ethtool-netlink.rst).
type ethtoolParam struct {
	name   string // as in ethtool(8)
	attr   uint16
	max    uint16 // the attribute with the largest value; 0 if none
	format int
}

// ethtoolGroup describes a command that reads a group and one that sets it. The ioctl
// structure of each command (include/uapi/linux/ethtool.h) has words 32-bit words, in the
// order of the netlink attributes, shifted by one.
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
		// Source: include/uapi/linux/ethtool_netlink.h, since Linux 6.3.
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

// NetParamNames returns the names of a group's possible parameters, as in ethtool(8). It
// returns nil for features: the kernel defines their names.
func NetParamNames(g NetGroup) []string {
	switch g {
	case NetLink:
		return []string{"mtu", "txqueuelen"}
	case NetWakeOnLAN:
		return []string{string(NetWakeOnLAN)}
	case NetLinkModes:
		return []string{advertise}
	}
	var names []string
	for _, p := range ethtoolGroups[g].params {
		names = append(names, p.name)
	}
	return names
}

// NetParamIsSwitch reports whether a parameter has the values on and off.
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
	err := ethtoolGet(g.get, device, func(ad *netlink.AttributeDecoder) {
		switch data := ad.Bytes(); len(data) {
		case 1:
			values[ad.Type()] = uint32(ad.Uint8())
		case 4:
			values[ad.Type()] = ad.Uint32()
		}
	})
	if errors.Is(err, syscall.EOPNOTSUPP) {
		// The device lacks the group, or the kernel lacks the command.
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
				continue // in the ioctl, a maximum of 0 means that the device lacks the parameter
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
		return 0, fmt.Errorf("%q is not a 32-bit number", text)
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
	err = ethtoolSet(g.set, device, func(ae *netlink.AttributeEncoder) {
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
