package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// liveNet accesses this kernel's network devices in the network namespace of the calling
// thread. It uses rtnetlink for links, and ethtool's netlink family for the rest. On older
// kernels it uses the ioctl.
type liveNet struct{}

func (liveNet) Links() ([]Link, error) {
	list, err := netlink.LinkList()
	for tries := 0; errors.Is(err, netlink.ErrDumpInterrupted) && tries < 3; tries++ {
		list, err = netlink.LinkList() // a device was added or removed during the listing
	}
	if err != nil {
		return nil, fmt.Errorf("network devices: %w", err)
	}
	links := make([]Link, 0, len(list))
	for _, l := range list {
		links = append(links, linkOf(l))
	}
	slices.SortFunc(links, func(a, b Link) int { return a.Index - b.Index })
	return links, nil
}

func linkOf(l netlink.Link) Link {
	a := l.Attrs()
	return Link{Index: a.Index, Name: a.Name, AltNames: a.AltNames, Kind: l.Type(), Parent: a.ParentDev, Driver: driverOf(a.Name)}
}

func (liveNet) Link(name string) (Link, error) {
	l, err := findLink(name)
	if err != nil {
		return Link{}, err
	}
	return linkOf(l), nil
}

func findLink(name string) (netlink.Link, error) {
	if name == "" {
		return nil, noDevice(`""`)
	}
	l, err := netlink.LinkByName(name)
	var none netlink.LinkNotFoundError
	switch {
	case errors.As(err, &none), errors.Is(err, syscall.ENODEV):
		return nil, noDevice(name)
	case err != nil:
		return nil, fmt.Errorf("network device %s: %w", name, err)
	}
	return l, nil
}

// driverOf returns the name of a device's driver, or "" if unknown.
func driverOf(name string) string {
	fd, err := ioctlSocket()
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	info, err := unix.IoctlGetEthtoolDrvinfo(fd, name)
	if err != nil {
		return ""
	}
	return unix.ByteSliceToString(info.Driver[:])
}

func (n liveNet) Params(device string, g NetGroup) ([]NetParam, error) {
	var params []NetParam
	var err error
	switch g {
	case NetLink:
		l, lerr := findLink(device)
		if lerr != nil {
			return nil, lerr
		}
		a := l.Attrs()
		return []NetParam{{Name: "mtu", Value: strconv.Itoa(a.MTU)}, {Name: "txqueuelen", Value: strconv.Itoa(a.TxQLen)}}, nil
	case NetFeatures:
		params, err = features(device)
	case NetWakeOnLAN:
		params, err = wakeOnLAN(device)
	case NetLinkModes:
		params, err = linkModes(device)
	default:
		eg, ok := ethtoolGroups[g]
		if !ok {
			return nil, fmt.Errorf("network device %s: unknown parameter group %q", device, g)
		}
		params, err = eg.read(device)
	}
	if err != nil {
		return nil, netError(device, string(g), err)
	}
	return params, nil
}

func (n liveNet) SetParam(device string, g NetGroup, name, value string) error {
	var err error
	switch g {
	case NetLink:
		err = setLink(device, name, value)
	case NetFeatures:
		err = setFeature(device, name, value)
	case NetWakeOnLAN:
		err = setWakeOnLAN(device, value)
	case NetLinkModes:
		err = setLinkModes(device, value)
	default:
		eg, ok := ethtoolGroups[g]
		if !ok {
			return fmt.Errorf("network device %s: unknown parameter group %q", device, g)
		}
		err = eg.write(device, name, value)
	}
	if err != nil {
		return netError(device, name+" "+value, err)
	}
	return nil
}

func setLink(device, name, value string) error {
	v, err := strconv.ParseUint(value, 10, 31)
	if err != nil {
		return fmt.Errorf("%q is not a number", value)
	}
	l, err := findLink(device)
	if err != nil {
		return err
	}
	switch name {
	case "mtu":
		return netlink.LinkSetMTU(l, int(v))
	case "txqueuelen":
		return netlink.LinkSetTxQLen(l, int(v))
	}
	return errUnknownParam
}

var errUnknownParam = errors.New("no such parameter")

// netError adds the device and the operation to an error. Errors for a missing device become
// fs.ErrNotExist.
func netError(device, what string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return err
	case errors.Is(err, syscall.ENODEV):
		return noDevice(device)
	}
	return fmt.Errorf("%s: %s: %w", device, what, err)
}

func (liveNet) HoldTimestamping() (io.Closer, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		return nil, fmt.Errorf("socket for timestamps: %w", err)
	}
	const flags = unix.SOF_TIMESTAMPING_RX_SOFTWARE | unix.SOF_TIMESTAMPING_SOFTWARE
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING, flags); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("socket option SO_TIMESTAMPING: %w", err)
	}
	return os.NewFile(uintptr(fd), "timestamping"), nil
}
