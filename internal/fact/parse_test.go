package fact

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
)

func TestParseCommandLine(t *testing.T) {
	for line, want := range map[string]map[string]string{
		"":                                {},
		"quiet root=/dev/sda1 ro\n":       {"quiet": "", "root": "/dev/sda1", "ro": ""},
		"a=1 a=2":                         {"a": "2"},
		`dyndbg="file x.c +p" b`:          {"dyndbg": "file x.c +p", "b": ""},
		"x -- --init-option=1":            {"x": ""},
		"root=UUID=1-2 kernel.panic=10  ": {"root": "UUID=1-2", "kernel.panic": "10"},
	} {
		if diff := cmp.Diff(want, ParseCommandLine(line)); diff != "" {
			t.Errorf("%q: %s", line, diff)
		}
	}
}

// A command line of a megabyte in a copy is not parsed, because no kernel has one.
func TestCommandLineIsShort(t *testing.T) {
	h := machine.Copy(t, map[string]string{"proc/cmdline": strings.Repeat("password=x ", 100_000)})
	k := Collect(h).Kernel
	if _, ok := k.CommandLine.Get(); ok || !strings.Contains(k.CommandLine.Unknown(), "/proc/cmdline cannot be read: command line of 1.05 MiB is longer than the maximum of 64 KiB") {
		t.Errorf("it is known, or unknown because %q", k.CommandLine.Unknown())
	}
}

func TestParseMounts(t *testing.T) {
	info := parseMounts(`61 1 253:0 / / rw,relatime shared:1 - xfs /dev/mapper/a rw,noquota
70 61 0:45 /sub /srv/a\040b ro,nosuid master:1 propagate_from:2 - nfs4 h:/e rw,vers=4.2
broken line
80 61 0:1 / /x rw - tmpfs
`, "/proc/self/mountinfo")
	want := []mountEntry{
		{"/", "xfs", "/dev/mapper/a", "253:0", "/", []string{"rw", "relatime"}, []string{"noquota"}},
		{"/srv/a b", "nfs4", "h:/e", "0:45", "/sub", []string{"ro", "nosuid"}, []string{"rw", "vers=4.2"}},
	}
	if diff := cmp.Diff(want, info, cmp.AllowUnexported(mountEntry{})); diff != "" {
		t.Error(diff)
	}
	plain := parseMounts("/dev/sda1 /boot ext4 rw,relatime 0 0\n", "/proc/mounts")
	if len(plain) != 1 || plain[0].point != "/boot" || plain[0].fsType != "ext4" || !slices.Equal(plain[0].superOptions, []string{"rw", "relatime"}) {
		t.Errorf("%+v", plain)
	}
}

func TestNaturalOrder(t *testing.T) {
	want := strings.Fields("cpu0 cpu2 cpu10 eth0 md1 node1 node10 sda sda1 sda10 sdb sdz sdaa tuned vda vdb")
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, Natural)
	// sda1 against sdb compares by letter; only whole disks compare by length.
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func TestPreemptionAndArch(t *testing.T) {
	for _, c := range []struct{ version, cmdline, want, unknown string }{
		{"#1 SMP PREEMPT_RT x", "", "rt", ""},
		{"#1 SMP PREEMPT_DYNAMIC x", "preempt=lazy", "lazy", ""},
		{"#1 SMP PREEMPT_DYNAMIC x", "quiet", "", "debugfs"},
		{"#1 SMP PREEMPT x", "", "full", ""},
		{"#1 SMP x", "", "", "none or voluntary"},
	} {
		k := Kernel{Version: Known(c.version, "v"), Parameters: Known(ParseCommandLine(c.cmdline), "c")}
		if f := preemption(&k); f.Or("") != c.want || !strings.Contains(f.Unknown(), c.unknown) {
			t.Errorf("%+v: %v %q", c, f.Or(""), f.Unknown())
		}
	}
	for release, want := range map[string]string{"5.14.0-427.el9.x86_64": "x86_64", "6.1.0-25-amd64": "x86_64", "6.1.0-arm64": "aarch64", "5.14.0-1.el9.s390x": "s390x", "6.18.44": ""} {
		if f := archOf(Known(release, "r")); f.Or("") != want {
			t.Errorf("%s: %q", release, f.Or(""))
		}
	}
}

func TestVirtualization(t *testing.T) {
	intel := "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu ht"
	arm := "processor\t: 0\nFeatures\t: fp asimd crc32\nCPU implementer\t: 0x41\nCPU part\t: 0xd08"
	for _, c := range []struct {
		name                         string
		files                        map[string]string
		hypervisor, container, cloud string
		bare                         bool
	}{
		{"bare metal", map[string]string{"/proc/cpuinfo": intel, "/proc/1/cgroup": "0::/init.scope", "/sys/class/dmi/id/sys_vendor": "HPE"}, "", "", "", true},
		{"bare metal of a cloud", map[string]string{"/proc/cpuinfo": intel, "/proc/1/cgroup": "0::/init.scope", "/sys/class/dmi/id/sys_vendor": "Amazon EC2", "/sys/class/dmi/id/product_name": "m5.metal"}, "", "", "aws", true},
		{"azure", map[string]string{"/proc/cpuinfo": intel + " hypervisor", "/proc/1/cgroup": "0::/", "/sys/class/dmi/id/sys_vendor": "Microsoft Corporation", "/sys/class/dmi/id/product_name": "Virtual Machine", "/sys/class/dmi/id/chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77"}, "hyperv", "", "azure", false},
		{"hyper-v at home", map[string]string{"/proc/cpuinfo": intel + " hypervisor", "/proc/1/cgroup": "0::/", "/sys/class/dmi/id/sys_vendor": "Microsoft Corporation", "/sys/class/dmi/id/product_name": "Virtual Machine"}, "hyperv", "", "", false},
		{"google", map[string]string{"/proc/cpuinfo": intel + " hypervisor", "/proc/1/cgroup": "0::/", "/sys/class/dmi/id/sys_vendor": "Google", "/sys/class/dmi/id/product_name": "Google Compute Engine"}, "google", "", "google", false},
		{"alibaba", map[string]string{"/proc/cpuinfo": intel + " hypervisor", "/proc/1/cgroup": "0::/", "/sys/class/dmi/id/sys_vendor": "Alibaba Cloud", "/sys/class/dmi/id/product_name": "Alibaba Cloud ECS"}, "kvm", "", "alibaba", false},
		{"oracle cloud", map[string]string{"/proc/cpuinfo": intel + " hypervisor", "/proc/1/cgroup": "0::/", "/sys/class/dmi/id/sys_vendor": "QEMU", "/sys/class/dmi/id/chassis_asset_tag": "OracleCloud.com"}, "qemu", "", "oracle", false},
		{"vmware", map[string]string{"/proc/cpuinfo": intel + " hypervisor", "/proc/1/cgroup": "0::/", "/sys/class/dmi/id/sys_vendor": "VMware, Inc."}, "vmware", "", "", false},
		{"xen guest", map[string]string{"/proc/cpuinfo": intel + " hypervisor", "/proc/1/cgroup": "0::/", "/sys/hypervisor/type": "xen", "/sys/class/dmi/id/sys_vendor": "Xen"}, "xen", "", "", false},
		{"xen control domain", map[string]string{"/proc/cpuinfo": intel + " hypervisor", "/proc/1/cgroup": "0::/", "/sys/hypervisor/type": "xen", "/proc/xen/capabilities": "control_d", "/sys/class/dmi/id/sys_vendor": "HPE"}, "", "", "", true},
		{"arm64 of QEMU without KVM", map[string]string{"/proc/cpuinfo": arm, "/proc/1/cgroup": "0::/", "/proc/device-tree/fw-cfg@9020000/compatible": "qemu,fw-cfg-mmio\x00"}, "qemu", "", "", false},
		{"arm64 of KVM", map[string]string{"/proc/cpuinfo": arm, "/proc/1/cgroup": "0::/", "/proc/device-tree/hypervisor/compatible": "linux,kvm\x00"}, "kvm", "", "", false},
		{"arm64 of another hypervisor", map[string]string{"/proc/cpuinfo": arm, "/proc/1/cgroup": "0::/", "/proc/device-tree/hypervisor/compatible": "acme,v\x00"}, "other", "", "", false},
		{"arm64 board", map[string]string{"/proc/cpuinfo": arm, "/proc/1/cgroup": "0::/", "/proc/device-tree/model": "Acme\x00"}, "", "", "", true},
		{"docker on metal", map[string]string{"/proc/cpuinfo": intel, "/.dockerenv": "", "/sys/class/dmi/id/sys_vendor": "HPE"}, "", "docker", "", false},
		{"podman", map[string]string{"/proc/cpuinfo": intel, "/run/.containerenv": "", "/sys/class/dmi/id/sys_vendor": "HPE"}, "", "podman", "", false},
		{"pod", map[string]string{"/proc/cpuinfo": intel, "/proc/1/cgroup": "0::/kubepods.slice/x", "/sys/class/dmi/id/sys_vendor": "HPE"}, "", "kubernetes", "", false},
	} {
		v := Collect(machine.Mounted(t, c.files)).Virtualization
		if v.Hypervisor.Or("") != c.hypervisor || v.Container.Or("") != c.container || v.Cloud.Or("") != c.cloud || v.BareMetal.Or(!c.bare) != c.bare {
			t.Errorf("%s: hypervisor %q (%s), container %q (%s), cloud %q (%s), bare metal %v (%s)", c.name, v.Hypervisor.Or(""), v.Hypervisor.Unknown(), v.Container.Or(""), v.Container.Unknown(), v.Cloud.Or(""), v.Cloud.Unknown(), v.BareMetal.Or(false), v.BareMetal.Unknown())
		}
	}
}

func TestTransport(t *testing.T) {
	pci := "../devices/pci0000:00/0000:00:1f.2/"
	for _, c := range []struct{ name, link, vendor, want string }{
		{"sda", pci + "ata1/host0/target0:0:0/0:0:0:0/block/sda", "ATA", "sata"},
		{"sdb", pci + "host0/port-0:0/end_device-0:0/target0:0:0/0:0:0:0/block/sdb", "SEAGATE", "sas"},
		{"sdb", pci + "host0/port-0:0/end_device-0:0/target0:0:0/0:0:0:0/block/sdb", "ATA", "sata"},
		{"sdc", pci + "host1/rport-1:0-0/target1:0:0/1:0:0:0/block/sdc", "PURE", "fc"},
		{"sdd", "../devices/platform/host2/session1/target2:0:0/2:0:0:0/block/sdd", "LIO-ORG", "iscsi"},
		{"sde", pci + "usb1/1-1/1-1:1.0/host3/target3:0:0/3:0:0:0/block/sde", "SanDisk", "usb"},
		{"sdf", pci + "virtio1/host4/target4:0:0/4:0:0:0/block/sdf", "QEMU", "virtio"},
		{"sdg", pci + "host0/target0:2:0/0:2:0:0/block/sdg", "DELL", "scsi"},
		{"nvme0n1", pci + "nvme/nvme0/nvme0n1", "", "nvme"},
		{"vda", pci + "virtio1/block/vda", "", "virtio"},
		{"dm-0", "../devices/virtual/block/dm-0", "", "dm"},
		{"md127", "../devices/virtual/block/md127", "", "md"},
	} {
		at := "/sys/" + strings.TrimPrefix(c.link, "../")
		f := Collect(machine.Mounted(t, map[string]string{
			"/sys/block/" + c.name: "-> " + c.link, at + "/device": "-> ../..", at + "/size": "8",
			at[:max(0, strings.LastIndex(at, "/block/"))] + "/vendor": c.vendor,
		}))
		d := f.Disk.Get(c.name)
		if d == nil || d.Transport.Or("") != c.want {
			t.Errorf("%s %s: %+v, want %s", c.name, c.link, d, c.want)
		}
		if d != nil && !Is(d.SizeBytes, 4096) {
			t.Errorf("%s: size %+v", c.name, d.SizeBytes)
		}
	}
}

// No file content makes a collector fail.
func FuzzCollect(f *testing.F) {
	paths := []string{
		"/proc/cpuinfo", "/proc/meminfo", "/proc/swaps", "/proc/self/mountinfo", "/proc/cmdline", "/proc/uptime", "/proc/version",
		"/etc/os-release", "/sys/devices/system/cpu/online", "/sys/devices/system/node/node0/distance", "/sys/block/sda/queue/scheduler",
		"/sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list", "/sys/class/net/eth0/speed", "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
	}
	f.Add(uint8(0), "processor: 0\n\nprocessor: 1\nphysical id: 0\n", "0-1")
	f.Add(uint8(1), "MemTotal: 18446744073709551615 kB", "0")
	f.Add(uint8(3), "1 2 3:4 / / rw - ext4 /dev/x rw", "0,2-4095")
	f.Add(uint8(10), "[none", "")
	f.Fuzz(func(t *testing.T, which uint8, content, online string) {
		var b strings.Builder
		b.WriteString("fettle archive v1\n")
		dirs := map[string]bool{}
		for i, p := range paths {
			text := content
			if i != int(which)%len(paths) {
				text = online
			}
			if strings.ContainsAny(text, "\\") || strings.HasPrefix(text, "-- ") || strings.Contains(text, "\n-- ") {
				return // escapes of archives have tests of their own
			}
			b.WriteString("-- file " + p + " --\n" + text + "\n")
			for at := p; strings.LastIndexByte(at, '/') > 0; {
				at = at[:strings.LastIndexByte(at, '/')]
				dirs[at] = true
			}
		}
		for d := range dirs {
			b.WriteString("-- dir " + d + " --\n")
		}
		h, err := host.ParseArchive("fuzz", []byte(b.String()))
		if err != nil {
			t.Fatal(err)
		}
		facts := Collect(h)
		for _, r := range facts.Collectors {
			if r.Error != "" {
				t.Error(r.Error)
			}
		}
		Brief(facts)
		if _, err := facts.MarshalJSON(); err != nil {
			t.Error(err)
		}
	})
}
