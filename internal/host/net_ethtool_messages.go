package host

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"syscall"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// bitset decodes a verbose bit set into the names of all bits, and the state of each.
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
							if name != "" { // empty for bits internal to the kernel
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

// encodeBits encodes a verbose bit set that changes only the named bits.
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

// ethtoolFamily returns ethtool's generic netlink family. Its number is the same in every
// network namespace until the next boot.
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

// ethtoolGet sends a request of the ethtool family and calls decode for each
// attribute of the answer. The first attribute of every message is the header.
func ethtoolGet(command uint8, device string, decode func(*netlink.AttributeDecoder)) error {
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

// ethtoolSet sends a request that changes a device. Errors include the kernel's message, if any.
func ethtoolSet(command uint8, device string, encode func(*netlink.AttributeEncoder)) error {
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
	_ = c.SetOption(netlink.ExtendedAcknowledge, true) // error messages in addition to the errno, since Linux 4.12
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
