package fact

import (
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// Storage describes the storage of a directory: its file system, and the devices below it down to
// the hardware.
type Storage struct {
	Mount  string `json:"mount"`
	Type   string `json:"type"` // of the file system
	Source string `json:"source"`
	// Device is the device of the file system, or "" without one (nfs, tmpfs).
	Device string `json:"device,omitempty"`
	// Layers are the devices below the file system. Each one precedes its components.
	Layers []Layer `json:"layers,omitempty"`
	Class  Class   `json:"class"`
}

// Layer is one device of a Storage.
type Layer struct {
	Device     string `json:"device"`
	Transport  string `json:"transport"`            // as in Disk
	Kind       string `json:"kind,omitempty"`       // for mapped devices: lvm, mpath, crypt, or the RAID level
	Model      string `json:"model,omitempty"`      // for hardware devices
	Rotational *bool  `json:"rotational,omitempty"` // as the device reports it; meaningless for virtual devices
	SizeBytes  int64  `json:"size_bytes,omitempty"` // 0 if unknown
	// Lower reports whether the device has lower devices.
	Lower bool `json:"has_lower_devices"`
}

// Class is a performance class of storage.
type Class string

// Classes. The slowest device determines the class of a storage.
const (
	ClassHDD     Class = "hdd"
	ClassSSD     Class = "ssd"
	ClassNVMe    Class = "nvme"
	ClassSAN     Class = "san"     // Fibre Channel, iSCSI, NVMe over fabrics, network block devices
	ClassVirtual Class = "virtual" // a hypervisor's disk with unknown backing
	ClassNetwork Class = "network file system"
	ClassMemory  Class = "memory"
	ClassUnknown Class = "unknown"
)

// networkTypes are the types of network file systems (statfs(2), filesystems(5)).
var networkTypes = []string{"nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "9p", "virtiofs", "afs", "lustre", "gpfs", "glusterfs", "fuse.glusterfs", "fuse.sshfs", "fuse.s3fs"}

// StorageOf describes the storage of a directory, as seen by this process, following symbolic
// links. Unknown parts are empty, and the class is then ClassUnknown.
func StorageOf(h *host.Host, dir string) Storage {
	r := newReader(h)
	at := dir
	if resolved, err := h.Files.Resolve(dir); err == nil {
		at = resolved
	}
	text, n := r.text("/proc/self/mountinfo")
	if !n.known() {
		text, n = r.mountTable()
	}
	s := Storage{Class: ClassUnknown}
	var found mountEntry
	for _, m := range parseMounts(text, n.source) {
		// Of several mounts on a mount point, only the last one is visible.
		if (at == m.point || m.point == "/" || strings.HasPrefix(at, m.point+"/")) && len(m.point) >= len(s.Mount) {
			s.Mount, s.Type, s.Source, found = m.point, m.fsType, m.source, m
		}
	}
	switch {
	case slices.Contains(networkTypes, s.Type):
		s.Class = ClassNetwork
		return s
	case s.Type == "tmpfs" || s.Type == "ramfs" || s.Type == "devtmpfs":
		s.Class = ClassMemory
		return s
	}
	device, _ := found.device(r, n.source).Get()
	if s.Device = device; device != "" {
		s.layers(r, wholeDisk(r, device), 0)
	}
	s.Class = s.class()
	return s
}

// wholeDisk returns the disk of a partition, or the device itself.
func wholeDisk(r *reader, device string) string {
	if Is(r.exists("/sys/block/"+device), true) {
		return device
	}
	disks, _ := r.dir("/sys/block")
	for _, d := range disks {
		if Is(r.exists("/sys/block/"+d+"/"+device), true) {
			return d
		}
	}
	return device
}

// maxLayerDepth is the maximum number of stacked devices.
const maxLayerDepth = 16

func (s *Storage) layers(r *reader, device string, depth int) {
	if depth > maxLayerDepth || slices.ContainsFunc(s.Layers, func(l Layer) bool { return l.Device == device }) {
		return
	}
	var d Disk
	readDisk(r, device, &d)
	lower := d.LowerDevices.Or(nil)
	l := Layer{Device: device, Transport: d.Transport.Or(""), Kind: firstKnown(d.MapperKind, d.RAIDLevel).Or(""), Model: strings.TrimSpace(d.Vendor.Or("") + " " + d.Model.Or("")), Lower: len(lower) > 0}
	l.SizeBytes = d.SizeBytes.Or(0)
	if rotational, ok := d.Rotational.Get(); ok {
		l.Rotational = &rotational
	}
	s.Layers = append(s.Layers, l)
	for _, name := range lower {
		s.layers(r, wholeDisk(r, name), depth+1)
	}
}

// Leaves returns the devices without lower devices.
func (s Storage) Leaves() (names []string) {
	for _, l := range s.Layers {
		if !l.Lower {
			names = append(names, l.Device)
		}
	}
	return names
}

// classBySpeed lists the classes, slowest first.
var classBySpeed = []Class{ClassUnknown, ClassSAN, ClassVirtual, ClassHDD, ClassSSD, ClassNVMe, ClassMemory}

func (s Storage) class() Class {
	at := len(classBySpeed)
	for _, l := range s.Layers {
		if !l.Lower {
			at = min(at, slices.Index(classBySpeed, l.class()))
		}
	}
	if at == len(classBySpeed) {
		return ClassUnknown
	}
	return classBySpeed[at]
}

func (l Layer) class() Class {
	switch l.Transport {
	case "nvme":
		return ClassNVMe
	case "fc", "iscsi", "nbd", "rbd", "drbd", "nvme-tcp", "nvme-rdma", "nvme-fc":
		return ClassSAN
	case "virtio", "xen":
		return ClassVirtual
	case "ram", "zram":
		return ClassMemory
	case "sata", "sas", "scsi", "usb", "mmc":
		switch {
		case l.Rotational == nil:
		case l.Transport == "scsi" && virtualModel(l.Model):
			return ClassVirtual
		case *l.Rotational:
			return ClassHDD
		default:
			return ClassSSD
		}
	}
	return ClassUnknown
}

// virtualModel reports whether a SCSI disk is a hypervisor's virtual disk.
func virtualModel(model string) bool {
	for _, vendor := range []string{"QEMU", "VMware", "Msft", "VBOX", "Google", "Xen"} {
		if strings.HasPrefix(model, vendor) {
			return true
		}
	}
	return false
}
