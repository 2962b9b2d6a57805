package fact

import (
	"path"
	"strings"
)

// Disk is a block device other than a partition (Documentation/ABI/stable/sysfs-block).
type Disk struct {
	// Transport is nvme (on PCIe; otherwise nvme-tcp, nvme-rdma, nvme-fc), sata, sas, scsi,
	// fc, iscsi, usb, virtio, xen, mmc, md, dm, loop, zram, ram, nbd, rbd, drbd or other.
	Transport Fact[string] `json:"transport"`
	Vendor    Fact[string] `json:"vendor"`
	Model     Fact[string] `json:"model"`
	Firmware  Fact[string] `json:"firmware"`
	SizeBytes Fact[int64]  `json:"size_bytes"`
	Removable Fact[bool]   `json:"removable"`
	ReadOnly  Fact[bool]   `json:"read_only"`

	Scheduler          Fact[string]   `json:"scheduler"`
	SchedulersOffered  Fact[[]string] `json:"schedulers_available"`
	Rotational         Fact[bool]     `json:"rotational"`
	Requests           Fact[int64]    `json:"nr_requests"`
	ReadAheadBytes     Fact[int64]    `json:"read_ahead_bytes"`
	RequestAffinity    Fact[int64]    `json:"rq_affinity"`
	NoMerges           Fact[int64]    `json:"nomerges"`
	WritebackThrottleS Fact[float64]  `json:"writeback_throttling_s"` // 0 means off
	WriteCache         Fact[string]   `json:"write_cache"`            // write back, write through
	LogicalBlockBytes  Fact[int64]    `json:"logical_block_bytes"`
	PhysicalBlockBytes Fact[int64]    `json:"physical_block_bytes"`
	OptimalIOBytes     Fact[int64]    `json:"optimal_io_bytes"`
	DiscardMaxBytes    Fact[int64]    `json:"discard_max_bytes"` // absent without discard
	MaxRequestBytes    Fact[int64]    `json:"max_request_bytes"`
	HardwareMaxBytes   Fact[int64]    `json:"hardware_max_request_bytes"`
	AddRandom          Fact[bool]     `json:"add_random"`
	IOPoll             Fact[bool]     `json:"io_poll"`
	QueueDepth         Fact[int64]    `json:"queue_depth"`
	IOTimeoutS         Fact[float64]  `json:"io_timeout_s"`
	NUMANode           Fact[int64]    `json:"numa_node"`

	// LowerDevices are the components of a dm or md device. UpperDevices are the devices that
	// consist of this one.
	LowerDevices Fact[[]string] `json:"lower_devices"`
	UpperDevices Fact[[]string] `json:"upper_devices"`
	// MapperName is the device-mapper name (vg-lv, mpatha). MapperKind is its type: lvm,
	// mpath, crypt, part.
	MapperName Fact[string]   `json:"mapper_name"`
	MapperKind Fact[string]   `json:"mapper_kind"`
	RAIDLevel  Fact[string]   `json:"raid_level"`
	Partition  Set[Partition] `json:"partition"`
}

// Partition is one partition of a disk.
type Partition struct {
	StartBytes Fact[int64] `json:"start_bytes"`
	SizeBytes  Fact[int64] `json:"size_bytes"`
}

// sectorBytes is the unit of sizes in sysfs, independent of the device's sector size.
const sectorBytes = 512

func collectDisks(r *reader, f *Facts) {
	names, n := r.dir("/sys/block")
	f.Disk.note = n
	for _, name := range names {
		readDisk(r, name, f.Disk.add(name))
	}
}

func readDisk(r *reader, name string, d *Disk) {
	dir := "/sys/block/" + name + "/"
	q := dir + "queue/"
	d.Transport = transport(r, name)
	d.Vendor = r.optional(dir + "device/vendor")
	if v, ok := d.Vendor.Get(); ok && strings.HasPrefix(v, "0x") { // virtio's PCI vendor id
		d.Vendor = Absent[string](d.Vendor.source)
	}
	d.Model = r.optional(dir + "device/model")
	d.Firmware = firstKnown(r.optional(dir+"device/firmware_rev"), r.optional(dir+"device/rev"))
	d.SizeBytes = r.scaled(dir+"size", sectorBytes)
	d.Removable = r.flag(dir + "removable")
	d.ReadOnly = r.flag(dir + "ro")
	d.Scheduler = r.chosen(q + "scheduler")
	d.SchedulersOffered = r.words(q + "scheduler")
	d.Rotational = r.flag(q + "rotational")
	d.Requests = r.int(q + "nr_requests")
	d.ReadAheadBytes = r.scaled(q+"read_ahead_kb", 1024)
	d.RequestAffinity = r.int(q + "rq_affinity")
	d.NoMerges = r.int(q + "nomerges")
	d.WritebackThrottleS = microseconds(r.int(q + "wbt_lat_usec"))
	d.WriteCache = r.str(q + "write_cache")
	d.LogicalBlockBytes = r.int(q + "logical_block_size")
	d.PhysicalBlockBytes = r.int(q + "physical_block_size")
	d.OptimalIOBytes = r.zeroAbsent(q+"optimal_io_size", 1)
	d.DiscardMaxBytes = r.zeroAbsent(q+"discard_max_bytes", 1)
	d.MaxRequestBytes = r.scaled(q+"max_sectors_kb", 1024)
	d.HardwareMaxBytes = r.scaled(q+"max_hw_sectors_kb", 1024)
	d.AddRandom = r.flag(q + "add_random")
	d.IOPoll = r.flag(q + "io_poll")
	d.QueueDepth = r.int(dir + "device/queue_depth")
	d.IOTimeoutS = milliseconds(r.int(q + "io_timeout"))
	d.NUMANode = firstKnown(r.minusOneAbsent(dir+"device/numa_node", 1), r.minusOneAbsent(dir+"device/device/numa_node", 1))
	d.LowerDevices = lowerDevices(r, dir)
	d.UpperDevices = r.names(dir + "holders")
	d.MapperName = r.str(dir + "dm/name")
	d.MapperKind = convert(r.optional(dir+"dm/uuid"), func(uuid string) string {
		kind, _, _ := strings.Cut(uuid, "-")
		if strings.HasPrefix(kind, "part") {
			kind = "part"
		}
		return strings.ToLower(kind)
	})
	d.RAIDLevel = r.optional(dir + "md/level")
	partitions(r, dir, name, d)
}

// lowerDevices returns the components of a disk. A hardware disk has none, even if a copy
// lacks the list.
func lowerDevices(r *reader, dir string) Fact[[]string] {
	lower := r.names(dir + "slaves")
	to, err := r.files.Readlink(strings.TrimSuffix(dir, "/"))
	if lower.unknown != "" && err == nil && strings.Contains(to, "/devices/") && !strings.Contains(to, "/devices/virtual/") {
		return Absent[[]string](lower.source)
	}
	return lower
}

// names returns the names in a directory.
func (r *reader) names(p string) Fact[[]string] {
	names, n := r.dir(p)
	return withNote(n, append([]string{}, names...))
}

// partitions reads the partitions of a disk: the subdirectories of its directory that begin
// with its name, such as sda1 and nvme0n1p1.
func partitions(r *reader, dir, name string, d *Disk) {
	names, n := r.dir(strings.TrimSuffix(dir, "/"))
	d.Partition.note = n
	for _, part := range names {
		rest, ok := strings.CutPrefix(part, name)
		if !ok || strings.Trim(rest, "p0123456789") != "" || rest == "" {
			continue
		}
		p := d.Partition.add(part)
		p.StartBytes = r.scaled(dir+part+"/start", sectorBytes)
		p.SizeBytes = r.scaled(dir+part+"/size", sectorBytes)
	}
}

// namedTransports maps device name prefixes to transports.
var namedTransports = []struct{ prefix, transport string }{
	{"nvme", "nvme"}, {"vd", "virtio"}, {"xvd", "xen"}, {"mmcblk", "mmc"}, {"md", "md"}, {"dm-", "dm"},
	{"loop", "loop"}, {"zram", "zram"}, {"ram", "ram"}, {"nbd", "nbd"}, {"rbd", "rbd"}, {"drbd", "drbd"},
}

// transport determines how a disk is attached. It uses the disk's name, else its path in the
// device tree (named by drivers/scsi/scsi_transport_*.c), else its vendor.
func transport(r *reader, name string) Fact[string] {
	if t, n := r.text("/sys/block/" + name + "/device/transport"); strings.HasPrefix(name, "nvme") && n.known() && t != "" && t != "pcie" {
		return Known("nvme-"+t, n.source)
	}
	for _, t := range namedTransports {
		if strings.HasPrefix(name, t.prefix) {
			return Known(t.transport, "/sys/block/"+name)
		}
	}
	link := "/sys/block/" + name
	to, err := r.files.Readlink(link)
	if n := noteOf(link, err); n.unknown != "" {
		return Fact[string]{note: n}
	}
	way := path.Join("/sys/block", to)
	vendor, _ := r.text(link + "/device/vendor")
	for _, m := range []struct {
		part, transport string
	}{
		{"/usb", "usb"}, {"/rport-", "fc"}, {"/session", "iscsi"}, {"/virtio", "virtio"}, {"/fc_host", "fc"},
	} {
		if strings.Contains(way, m.part) {
			return Known(m.transport, link)
		}
	}
	switch {
	case strings.HasPrefix(strings.TrimSpace(vendor), "ATA"): // also behind a SAS controller
		return Known("sata", link+"/device/vendor")
	case strings.Contains(way, "/end_device-"), strings.Contains(way, "/port-"):
		return Known("sas", link)
	case strings.Contains(way, "/ata"):
		return Known("sata", link)
	case strings.HasPrefix(name, "sd"), strings.HasPrefix(name, "sr"):
		return Known("scsi", link)
	}
	return Known("other", link)
}
