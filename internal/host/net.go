package host

import (
	"fmt"
	"io"
	"io/fs"
)

// Net is the machine's network devices. A device's parameters come in groups,
// with the names and values that ip(8) and ethtool(8) print.
type Net interface {
	// Links lists the devices in order of index.
	Links() ([]Link, error)
	// Link finds a device by its name or one of its alternative names;
	// fs.ErrNotExist if there is none.
	Link(name string) (Link, error)
	// Params reads one group of a device. A parameter that the device does not
	// have is left out; a device without the whole group gives EOPNOTSUPP, and
	// no device of that name fs.ErrNotExist.
	Params(device string, g NetGroup) ([]NetParam, error)
	// SetParam sets one parameter and leaves the others as they are. The driver
	// may round: read it back.
	SetParam(device string, g NetGroup, name, value string) error
	// HoldTimestamping opens a socket that asks for receive timestamps and
	// keeps it until Close: the kernel's static key netstamp_needed_key stays
	// on so long (net/core/dev.c, net_enable_timestamp).
	HoldTimestamping() (io.Closer, error)
}

// Link is one network device.
type Link struct {
	Index    int
	Name     string
	AltNames []string
	// Kind is rtnetlink's (veth, bridge, vlan, bond, ...); "device" for
	// hardware and the loopback device.
	Kind string
	// Driver is the driver's name (ETHTOOL_GDRVINFO); "" if it has none.
	Driver string
	// Parent is the device behind it: a PCI address, "virtio2". A virtual
	// device has none; neither has any before Linux 5.14, which does not say.
	Parent string
}

// NetGroup is a group of parameters that the kernel answers together.
type NetGroup string

// The groups and their parameters.
const (
	// NetLink has mtu, in bytes, and txqueuelen, in packets (ip-link(8)).
	NetLink NetGroup = "link"
	// NetFeatures has the kernel's names (net/ethtool/common.c,
	// netdev_features_strings), on or off (ethtool -k).
	NetFeatures NetGroup = "features"
	// NetCoalesce has rx-usecs, adaptive-rx and the like (ethtool -c).
	NetCoalesce NetGroup = "coalesce"
	// NetPause has autoneg, rx and tx, on or off (ethtool -a).
	NetPause NetGroup = "pause"
	// NetRing has rx, rx-mini, rx-jumbo and tx, in descriptors, and what else
	// ethtool -g prints.
	NetRing NetGroup = "ring"
	// NetChannels has rx, tx, other and combined, in channels (ethtool -l).
	NetChannels NetGroup = "channels"
	// NetWakeOnLAN has the parameter wake-on-lan: ethtool's letters in its
	// order pumbagsf, or d for none.
	NetWakeOnLAN NetGroup = "wake-on-lan"
	// NetLinkModes has the parameter advertise: the speeds that the device offers
	// to the other end, separated by spaces (ethtool -s advertise); Max are those
	// that it could, and Fixed says that it does not negotiate.
	NetLinkModes NetGroup = "link-modes"
)

// NetGroups lists the groups.
var NetGroups = []NetGroup{NetLink, NetFeatures, NetCoalesce, NetPause, NetRing, NetChannels, NetWakeOnLAN, NetLinkModes}

// NetParam is one parameter as it is.
type NetParam struct {
	Name  string
	Value string
	// Requested is what was asked for where the device does otherwise at
	// present, for features only: without checksums there is no segmentation
	// offload, whoever wants it.
	Requested string
	// Max is the largest value that the device takes, or the wake-on-LAN
	// letters that it knows; "" if it does not say.
	Max string
	// Fixed says that nobody can change it.
	Fixed bool
}

// FindParam finds a parameter by name.
func FindParam(params []NetParam, name string) (NetParam, bool) {
	for _, p := range params {
		if p.Name == name {
			return p, true
		}
	}
	return NetParam{}, false
}

// noNet is a copy without recorded answers, or a machine that is seen through
// its files only.
type noNet struct{}

func notRecordedNet(what string) error {
	return NotRecorded("network device " + what)
}

func (noNet) Links() ([]Link, error)         { return nil, notRecordedNet("list") }
func (noNet) Link(name string) (Link, error) { return Link{}, notRecordedNet(name) }
func (noNet) Params(device string, g NetGroup) ([]NetParam, error) {
	return nil, notRecordedNet(device + ": " + string(g))
}

func (noNet) SetParam(device string, _ NetGroup, name, _ string) error {
	return readOnly("set "+name, device)
}
func (noNet) HoldTimestamping() (io.Closer, error) { return nil, ErrReadOnly }

func noDevice(name string) error {
	return fmt.Errorf("network device %s: %w", name, fs.ErrNotExist)
}
