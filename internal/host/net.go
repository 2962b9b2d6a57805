package host

import (
	"fmt"
	"io"
	"io/fs"
)

// Net reads and sets parameters of the machine's network devices. They are grouped, with the
// names and values of ip(8) and ethtool(8).
type Net interface {
	// Links lists the devices by index.
	Links() ([]Link, error)
	// Link finds a device by its name or an alternative name. It returns fs.ErrNotExist
	// without a match.
	Link(name string) (Link, error)
	// Params reads one group of a device's parameters, without those that the device lacks.
	// The error is EOPNOTSUPP if the device lacks the whole group, and fs.ErrNotExist without
	// such a device.
	Params(device string, g NetGroup) ([]NetParam, error)
	// SetParam sets exactly one parameter. The driver may round the value.
	SetParam(device string, g NetGroup, name, value string) error
	// HoldTimestamping opens a socket with receive timestamps until Close. It keeps the
	// kernel's static key netstamp_needed_key enabled (net/core/dev.c, net_enable_timestamp).
	HoldTimestamping() (io.Closer, error)
}

// Link is one network device.
type Link struct {
	Index    int
	Name     string
	AltNames []string
	// Kind is the rtnetlink kind (veth, bridge, vlan, bond, ...), or "device" for
	// hardware and the loopback device.
	Kind string
	// Driver is the driver's name (ETHTOOL_GDRVINFO), or "" if unknown.
	Driver string
	// Parent is the parent device: a PCI address, "virtio2". It is empty for virtual devices
	// and before Linux 5.14.
	Parent string
}

// NetGroup is a group of parameters that the kernel returns together.
type NetGroup string

// Groups of parameters.
const (
	// NetLink contains mtu, in bytes, and txqueuelen, in packets (ip-link(8)).
	NetLink NetGroup = "link"
	// NetFeatures contains the kernel's feature names (net/ethtool/common.c,
	// netdev_features_strings), on or off (ethtool -k).
	NetFeatures NetGroup = "features"
	// NetCoalesce contains rx-usecs, adaptive-rx and the like (ethtool -c).
	NetCoalesce NetGroup = "coalesce"
	// NetPause contains autoneg, rx and tx, on or off (ethtool -a).
	NetPause NetGroup = "pause"
	// NetRing contains rx, rx-mini, rx-jumbo and tx, in descriptors, and the other values of
	// ethtool -g.
	NetRing NetGroup = "ring"
	// NetChannels contains rx, tx, other and combined, in channels (ethtool -l).
	NetChannels NetGroup = "channels"
	// NetWakeOnLAN contains the parameter wake-on-lan: ethtool's letters in the order
	// pumbagsf, or d for none.
	NetWakeOnLAN NetGroup = "wake-on-lan"
	// NetLinkModes contains the parameter advertise: the advertised speeds, separated by
	// spaces (ethtool -s advertise). Max lists the supported speeds, and Fixed means that
	// autonegotiation is off.
	NetLinkModes NetGroup = "link-modes"
)

// NetGroups lists all groups of parameters.
var NetGroups = []NetGroup{NetLink, NetFeatures, NetCoalesce, NetPause, NetRing, NetChannels, NetWakeOnLAN, NetLinkModes}

// NetParam is the current state of one parameter.
type NetParam struct {
	Name  string
	Value string
	// Requested is the requested value of a feature if it differs from the active value. For
	// example, segmentation offload is only active with checksums.
	Requested string
	// Max is the largest accepted value or the supported wake-on-LAN letters; "" if unknown.
	Max string
	// Fixed reports whether the parameter cannot be changed.
	Fixed bool
}

// FindParam finds a parameter by name. ok is false if it is missing.
func FindParam(params []NetParam, name string) (param NetParam, ok bool) {
	for _, p := range params {
		if p.Name == name {
			return p, true
		}
	}
	return NetParam{}, false
}

// noNet is the Net of a copy without recorded devices, or of a machine with only its files
// accessible.
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
