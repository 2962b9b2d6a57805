package host

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// features reads a device's features: whether each is changeable, requested and active
// (net/ethtool/features.c).
func features(device string) ([]NetParam, error) {
	var names []string
	sets := map[uint16]map[string]bool{}
	err := ethtoolGet(unix.ETHTOOL_MSG_FEATURES_GET, device, func(ad *netlink.AttributeDecoder) {
		if t := ad.Type(); t >= unix.ETHTOOL_A_FEATURES_HW && t <= unix.ETHTOOL_A_FEATURES_NOCHANGE {
			all, set := bitset(ad)
			if sets[t] = set; t == unix.ETHTOOL_A_FEATURES_HW {
				names = all // the mask of this bit set lists every feature of the kernel
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
	err = ethtoolSet(unix.ETHTOOL_MSG_FEATURES_SET, device, func(ae *netlink.AttributeEncoder) {
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

// wakeModes lists the wake-on-LAN modes in ethtool(8)'s order, with letter, netlink name
// (net/ethtool/common.c, wol_mode_names) and bit (WAKE_* of include/uapi/linux/ethtool.h).
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

// wakeOnLAN reads the wake-on-LAN modes, without the SecureOn password.
func wakeOnLAN(device string) ([]NetParam, error) {
	var known, on func(i int) bool
	err := ethtoolGet(unix.ETHTOOL_MSG_WOL_GET, device, func(ad *netlink.AttributeDecoder) {
		if ad.Type() == unix.ETHTOOL_A_WOL_MODES {
			all, set := bitset(ad)
			known = func(i int) bool { return slices.Contains(all, wakeModes[i].name) }
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
		return fmt.Errorf("%q: want d, or letters of pumbagsf in this order", letters)
	}
	err := ethtoolSet(unix.ETHTOOL_MSG_WOL_SET, device, func(ae *netlink.AttributeEncoder) {
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
