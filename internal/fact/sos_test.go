package fact

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/machine"
)

// A sosreport has some files as copies and some as command output; what it
// lacks is unknown with the file's name, never zero.
func TestSosreport(t *testing.T) {
	f := Collect(machine.Copy(t, map[string]string{
		"proc/meminfo":                       "MemTotal:       8152064 kB\nMemFree: 1 kB\nHugePages_Total:       4\nHugePages_Free:        3\nHugepagesize:       2048 kB\n",
		"proc/cpuinfo":                       "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon\nphysical id\t: 0\ncore id\t\t: 0\nflags\t\t: fpu hypervisor\n\nprocessor\t: 1\nphysical id\t: 0\ncore id\t\t: 1\nflags\t\t: fpu hypervisor\n",
		"proc/cmdline":                       "BOOT_IMAGE=/vmlinuz root=/dev/mapper/rhel-root ro quiet\n",
		"proc/mounts":                        "/dev/mapper/rhel-root / xfs rw,relatime 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
		"etc/os-release":                     "ID=\"rhel\"\nVERSION_ID=\"9.4\"\nPRETTY_NAME=\"RHEL 9.4\"\n",
		"sos_commands/kernel/sysctl_-a":      "kernel.osrelease = 5.14.0-427.el9.x86_64\nkernel.numa_balancing = 1\nvm.zone_reclaim_mode = 0\n",
		"sos_commands/hardware/dmidecode":    "# dmidecode 3.5\n\nHandle 0x0100, DMI type 1, 27 bytes\nSystem Information\n\tManufacturer: VMware, Inc.\n\tProduct Name: VMware Virtual Platform\n",
		"sys/block/sda/queue/scheduler":      "none [mq-deadline]\n",
		"etc/tuned/active_profile":           "virtual-guest\n",
		"sos_commands/memory/swapon_--bytes": "x\n",
	}))
	for name, want := range map[string]any{
		"kernel.release":                 "5.14.0-427.el9.x86_64",
		"kernel.arch":                    "x86_64",
		"numa.balancing":                 int64(1),
		"machine.vendor":                 "VMware, Inc.",
		"virtualization.hypervisor":      "vmware",
		"cpu.count":                      int64(2),
		"cpu.cores":                      int64(2),
		"memory.total_bytes":             int64(8152064 << 10),
		"memory.huge_pages.2048kB.total": int64(4),
		"disk.sda.scheduler":             "mq-deadline",
		"mount./.type":                   "xfs",
		"mount./.device":                 "rhel-root",
		"services.tuned_profile":         "virtual-guest",
		"os.id":                          "rhel",
		"virtualization.bare_metal":      false,
		"cgroup.version":                 int64(2),
	} {
		if it, ok := f.Lookup(name); !ok || it.Value != want {
			t.Errorf("%s: %v (unknown %q), want %v", name, it.Value, it.Unknown, want)
		}
	}
	for name, why := range map[string]string{
		"disk.sda.nr_requests":                  "/sys/block/sda/queue/nr_requests is not in this copy",
		"memory.transparent_huge_pages.enabled": "is not in this copy",
		"net":                                   "/sys/class/net is not in this copy",
		"net.eth0.mtu_bytes":                    "/sys/class/net is not in this copy",
		"cpu.frequency.policy":                  "is not in this copy",
		"services.tuner.tuned.running":          "",
		"numa.count":                            "is not in this copy",
		"kernel.boot_id":                        "is not in this copy",
	} {
		if it, ok := f.Lookup(name); !ok || it.Value != nil || it.Absent || it.Unknown == "" || !strings.Contains(it.Unknown, why) {
			t.Errorf("%s: %+v, want unknown: %s", name, it, why)
		}
	}
	for _, it := range f.List() {
		if it.Absent && !strings.HasPrefix(it.Source, "/proc/meminfo") && !strings.HasPrefix(it.Source, "/proc/cpuinfo") &&
			!strings.HasPrefix(it.Source, "/etc/os-release") && !strings.HasPrefix(it.Source, "/proc/mounts") {
			t.Errorf("%s is absent in a copy that cannot know: %+v", it.Name, it)
		}
	}
}
