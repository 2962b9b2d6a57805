package fact

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host"
)

// storageTree is a machine with one of each kind of storage.
func storageTree(t *testing.T) *host.Host {
	dir := t.TempDir()
	file := func(name, text string) {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	link := func(name, to string) {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}
	disk := func(name, way, vendor, rotational string, lower ...string) {
		at := "sys/devices/" + way + "/" + name
		file(at+"/queue/rotational", rotational)
		if vendor != "" {
			file(at+"/device/vendor", vendor)
		}
		link("sys/block/"+name, "../devices/"+way+"/"+name)
		for _, l := range lower {
			link(at+"/slaves/"+l, "../../"+l)
		}
		if err := os.MkdirAll(filepath.Join(dir, at, "slaves"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	disk("sda", "pci0000:00/ata1/host0/target0:0:0/0:0:0:0/block", "ATA", "1")
	file("sys/devices/pci0000:00/ata1/host0/target0:0:0/0:0:0:0/block/sda/sda2/start", "2048")
	disk("sdb", "pci0000:00/host1/rport-1:0-0/target1:0:0/1:0:0:0/block", "PURE", "0")
	disk("sdc", "pci0000:00/host2/rport-2:0-0/target2:0:0/2:0:0:0/block", "PURE", "0")
	disk("sdd", "platform/host3/session1/target3:0:0/3:0:0:0/block", "LIO-ORG", "0")
	disk("sde", "pci0000:00/host4/port-4:0/end_device-4:0/target4:0:0/4:0:0:0/block", "HGST", "0")
	disk("sdf", "pci0000:00/host5/target5:0:0/5:0:0:0/block", "VMware", "1")
	disk("nvme0n1", "pci0000:00/nvme/nvme0", "", "0")
	disk("nvme1n1", "pci0000:00/nvme/nvme1", "", "0")
	disk("vda", "pci0000:00/virtio1/block", "", "1")
	disk("dm-0", "virtual/block", "", "1", "sda2")
	file("sys/devices/virtual/block/dm-0/dm/uuid", "LVM-abc")
	disk("dm-1", "virtual/block", "", "0", "sdb", "sdc")
	file("sys/devices/virtual/block/dm-1/dm/uuid", "mpath-36001")
	disk("dm-2", "virtual/block", "", "0", "dm-1")
	file("sys/devices/virtual/block/dm-2/dm/uuid", "LVM-def")
	disk("md0", "virtual/block", "", "0", "nvme0n1", "nvme1n1")
	file("sys/devices/virtual/block/md0/md/level", "raid1")
	for number, name := range map[string]string{"8:2": "sda/sda2", "253:0": "dm-0", "253:2": "dm-2", "9:0": "md0", "8:48": "sdd", "8:64": "sde", "8:80": "sdf", "254:0": "vda"} {
		link("sys/dev/block/"+number, "../../block/"+name)
	}
	file("proc/self/mountinfo", `1 0 254:0 / / rw - ext4 /dev/vda rw
2 1 253:0 / /lvm rw - xfs /dev/mapper/vg-a rw
3 1 253:2 / /san rw - xfs /dev/mapper/vg-b rw
4 1 9:0 / /raid rw - ext4 /dev/md0 rw
5 1 8:48 / /iscsi rw - ext4 /dev/sdd rw
6 1 8:64 / /sas rw - ext4 /dev/sde rw
7 1 8:80 / /vmware rw - ext4 /dev/sdf rw
8 1 0:30 / /nfs rw - nfs4 filer:/export rw
9 1 0:31 / /tmp rw - tmpfs tmpfs rw
10 1 0:32 /sub /btrfs rw - btrfs /dev/nvme0n1 rw
11 1 8:2 / /hidden rw - ext4 /dev/sda2 rw
12 1 0:33 / /hidden rw - tmpfs tmpfs rw
13 1 0:34 / /odd rw - overlay overlay rw`)
	file("san/data/file", "")
	link("srv/data", "/san/data")
	return host.Mounted(dir)
}

func TestStorageOf(t *testing.T) {
	h := storageTree(t)
	yes, no := true, false
	for dir, want := range map[string]Storage{
		"/var/lib": {Mount: "/", Type: "ext4", Source: "/dev/vda", Device: "vda", Class: ClassVirtual,
			Layers: []Layer{{Device: "vda", Transport: "virtio", Rotational: &yes}}},
		"/lvm/a": {Mount: "/lvm", Type: "xfs", Source: "/dev/mapper/vg-a", Device: "dm-0", Class: ClassHDD,
			Layers: []Layer{{Device: "dm-0", Transport: "dm", Kind: "lvm", Rotational: &yes, Lower: true}, {Device: "sda", Transport: "sata", Model: "ATA", Rotational: &yes}}},
		"/srv/data": {Mount: "/san", Type: "xfs", Source: "/dev/mapper/vg-b", Device: "dm-2", Class: ClassSAN,
			Layers: []Layer{{Device: "dm-2", Transport: "dm", Kind: "lvm", Rotational: &no, Lower: true}, {Device: "dm-1", Transport: "dm", Kind: "mpath", Rotational: &no, Lower: true},
				{Device: "sdb", Transport: "fc", Model: "PURE", Rotational: &no}, {Device: "sdc", Transport: "fc", Model: "PURE", Rotational: &no}}},
		"/raid": {Mount: "/raid", Type: "ext4", Source: "/dev/md0", Device: "md0", Class: ClassNVMe,
			Layers: []Layer{{Device: "md0", Transport: "md", Kind: "raid1", Rotational: &no, Lower: true}, {Device: "nvme0n1", Transport: "nvme", Rotational: &no}, {Device: "nvme1n1", Transport: "nvme", Rotational: &no}}},
		"/iscsi": {Mount: "/iscsi", Type: "ext4", Source: "/dev/sdd", Device: "sdd", Class: ClassSAN, Layers: []Layer{{Device: "sdd", Transport: "iscsi", Model: "LIO-ORG", Rotational: &no}}},
		"/sas":   {Mount: "/sas", Type: "ext4", Source: "/dev/sde", Device: "sde", Class: ClassSSD, Layers: []Layer{{Device: "sde", Transport: "sas", Model: "HGST", Rotational: &no}}},
		"/vmware": {Mount: "/vmware", Type: "ext4", Source: "/dev/sdf", Device: "sdf", Class: ClassVirtual,
			Layers: []Layer{{Device: "sdf", Transport: "scsi", Model: "VMware", Rotational: &yes}}},
		"/nfs":     {Mount: "/nfs", Type: "nfs4", Source: "filer:/export", Class: ClassNetwork},
		"/tmp/x/y": {Mount: "/tmp", Type: "tmpfs", Source: "tmpfs", Class: ClassMemory},
		"/tmpfoo": {Mount: "/", Type: "ext4", Source: "/dev/vda", Device: "vda", Class: ClassVirtual,
			Layers: []Layer{{Device: "vda", Transport: "virtio", Rotational: &yes}}},
		"/btrfs":  {Mount: "/btrfs", Type: "btrfs", Source: "/dev/nvme0n1", Device: "nvme0n1", Class: ClassNVMe, Layers: []Layer{{Device: "nvme0n1", Transport: "nvme", Rotational: &no}}},
		"/hidden": {Mount: "/hidden", Type: "tmpfs", Source: "tmpfs", Class: ClassMemory},
		"/odd":    {Mount: "/odd", Type: "overlay", Source: "overlay", Class: ClassUnknown},
	} {
		if d := cmp.Diff(want, StorageOf(h, dir)); d != "" {
			t.Errorf("%s (-want +got):\n%s", dir, d)
		}
	}
	if got := StorageOf(h, "/san").Leaves(); !cmp.Equal(got, []string{"sdb", "sdc"}) {
		t.Errorf("leaves %v", got)
	}
}
