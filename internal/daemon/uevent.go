package daemon

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/host"
)

var native = binary.NativeEndian

// Uevent is a kernel event about a device (kobject_uevent(9), sd-device).
type Uevent struct {
	Action    string // add, remove, change, online, offline, move, bind, unbind
	Path      string // below /sys, such as /devices/virtual/block/loop0
	Subsystem string
	Type      string // DEVTYPE, such as disk or partition
}

// Name is the device's name in the kernel, with ! for / as in sysfs.
func (u Uevent) Name() string { return path.Base(u.Path) }

// subsystems lists the subsystems of devices that plug-ins tune.
var subsystems = map[string]bool{"block": true, "net": true, "cpu": true, "usb": true, "scsi_host": true, "scsi": true, "nvme": true, "sound": true, "drm": true}

// arrived reports whether a device has appeared.
func (u Uevent) arrived() bool {
	return subsystems[u.Subsystem] && (u.Action == "add" || u.Action == "online")
}

// left reports whether a device was removed.
func (u Uevent) left() bool {
	return subsystems[u.Subsystem] && (u.Action == "remove" || u.Action == "offline")
}

// Groups of NETLINK_KOBJECT_UEVENT (systemd, sd-device/device-monitor.c).
const (
	kernelGroup = 1
	udevGroup   = 2 // after udev's rules have run
)

// parseUevent parses a message of the kernel ("add@/devices/...", then NAME=VALUE each ended by a
// zero byte) or of udevd (a header, then the same list). It reports false for other messages.
func parseUevent(b []byte) (Uevent, bool) {
	var u Uevent
	if bytes.HasPrefix(b, []byte("libudev\x00")) {
		// prefix[8], magic in network order, header size, offset and length of
		// the properties (struct monitor_netlink_header).
		if len(b) < 40 || binary.BigEndian.Uint32(b[8:]) != 0xfeedcafe {
			return u, false
		}
		off, size := uint64(native.Uint32(b[16:])), uint64(native.Uint32(b[20:]))
		if off > uint64(len(b)) || size > uint64(len(b))-off {
			return u, false
		}
		b = b[off : off+size]
	} else {
		head, rest, ok := bytes.Cut(b, []byte{0})
		if !ok || bytes.IndexByte(head, '@') < 1 {
			return u, false
		}
		b = rest
	}
	for _, field := range bytes.Split(b, []byte{0}) {
		k, v, ok := strings.Cut(string(field), "=")
		if !ok {
			continue
		}
		switch k {
		case "ACTION":
			u.Action = v
		case "DEVPATH":
			u.Path = v
		case "SUBSYSTEM":
			u.Subsystem = v
		case "DEVTYPE":
			u.Type = v
		}
	}
	return u, u.Action != "" && strings.HasPrefix(u.Path, "/devices/")
}

// settle is the time to wait for more devices after the first: a disk brings partitions, a card
// brings ports.
const settle = 300 * time.Millisecond

// watchDevices returns a channel of device events, in batches. If udevd runs, it reads udevd's
// events, which follow udev's rules. Otherwise those rules could overwrite fettle's values.
func watchDevices(h *host.Host) (<-chan []Uevent, *os.File, error) {
	group := uint32(kernelGroup)
	if _, err := h.Files.Stat("/run/udev/control"); err == nil {
		group = udevGroup
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, nil, fmt.Errorf("device events: %w", err)
	}
	f := pollable(fd, "uevents")
	raw, err := f.SyscallConn()
	if err == nil {
		// Only root may send to the groups; the credentials prove that.
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
	}
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: group})
	}
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("device events: %w", err)
	}
	single := make(chan Uevent, 64)
	go func() {
		defer close(single)
		buf, oob := make([]byte, 16<<10), make([]byte, unix.CmsgSpace(unix.SizeofUcred))
		for {
			var n, oobn int
			var rerr error
			err := raw.Read(func(fd uintptr) bool {
				n, oobn, _, _, rerr = unix.Recvmsg(int(fd), buf, oob, 0)
				return rerr != unix.EAGAIN && rerr != unix.EINTR
			})
			if err != nil {
				return // closed
			}
			switch {
			case rerr == unix.ENOBUFS:
				// Messages were lost: an empty event makes the daemon check everything.
				single <- Uevent{Action: "add"}
			case rerr != nil:
				return
			case fromRoot(oob[:oobn]):
				if u, ok := parseUevent(buf[:n]); ok && (u.arrived() || u.left()) {
					single <- u
				}
			}
		}
	}()
	return batches(single, settle), f, nil
}

// batches groups events: one batch has all events within wait of its first.
func batches(in <-chan Uevent, wait time.Duration) <-chan []Uevent {
	out := make(chan []Uevent)
	go func() {
		defer close(out)
		for first := range in {
			batch := []Uevent{first}
			timer := time.NewTimer(wait)
		collect:
			for {
				select {
				case u, ok := <-in:
					if !ok {
						break collect
					}
					batch = append(batch, u)
				case <-timer.C:
					break collect
				}
			}
			timer.Stop()
			out <- batch
		}
	}()
	return out
}

func fromRoot(oob []byte) bool {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return false
	}
	for i := range messages {
		if c, err := unix.ParseUnixCredentials(&messages[i]); err == nil {
			return c.Uid == 0
		}
	}
	return false
}
