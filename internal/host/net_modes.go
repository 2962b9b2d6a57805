package host

import (
	"slices"
	"strings"
	"syscall"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// linkModes reads the advertised speeds of a device
// (Documentation/networking/ethtool-netlink.rst, LINKMODES_GET; since Linux 5.6). It omits
// other bits, such as pause frames.
func linkModes(device string) ([]NetParam, error) {
	var supported []string
	var offered map[string]bool
	negotiates := false
	err := ethtoolGet(unix.ETHTOOL_MSG_LINKMODES_GET, device, func(ad *netlink.AttributeDecoder) {
		switch ad.Type() {
		case unix.ETHTOOL_A_LINKMODES_OURS:
			names, set := bitset(ad)
			for _, n := range names {
				if IsSpeed(n) {
					supported = append(supported, n)
				}
			}
			offered = set
		case unix.ETHTOOL_A_LINKMODES_AUTONEG:
			negotiates = ad.Uint8() != 0
		}
	})
	if err != nil {
		return nil, err
	}
	if len(supported) == 0 {
		return nil, syscall.EOPNOTSUPP
	}
	var ours []string
	for _, n := range supported {
		if offered[n] {
			ours = append(ours, n)
		}
	}
	return []NetParam{{
		Name: advertise, Value: strings.Join(ours, " "), Max: strings.Join(supported, " "), Fixed: !negotiates,
	}}, nil
}

const advertise = "advertise"

// IsSpeed reports whether a link mode is a speed, such as 1000baseT/Full. The names of speeds
// begin with the megabits per second (net/ethtool/common.c, link_mode_names).
func IsSpeed(mode string) bool {
	digits := strings.TrimLeft(mode, "0123456789")
	return digits != mode && strings.HasPrefix(digits, "base")
}

// setLinkModes advertises exactly the given speeds. It keeps the other advertised bits.
func setLinkModes(device, value string) error {
	params, err := linkModes(device)
	if err != nil {
		return err
	}
	set := map[string]bool{}
	for n := range strings.FieldsSeq(value) {
		if !slices.Contains(strings.Fields(params[0].Max), n) {
			return syscall.EINVAL
		}
		set[n] = true
	}
	return ethtoolSet(unix.ETHTOOL_MSG_LINKMODES_SET, device, func(ae *netlink.AttributeEncoder) {
		ae.Nested(unix.ETHTOOL_A_LINKMODES_OURS, func(b *netlink.AttributeEncoder) error {
			return encodeBits(b, strings.Fields(params[0].Max), set)
		})
	})
}
