package table

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/testkit/root"
)

// TestAsTuneD applies one profile with Debian's TuneD and with fettle's plug-ins to two copies of a
// simulated machine and compares the results. Plain files replace the kernel, so the test compares
// which value is written to which file. TestUnlikeTuneD has the few intended differences.
func TestAsTuneD(t *testing.T) {
	root.Real(t, "runs TuneD")
	for _, tt := range []struct {
		name, profile string
		writes        int // at least
	}{
		{"disks by name", `
[late]
type=disk
priority=5
readahead=1
scheduler_quantum=4
[first]
type=disk
devices=sd*,!sdb
readahead=>64
scheduler_quantum=16
[second]
type=disk
devices=!sda	!nvme*
elevator=none
readahead=8192 s
[third]
type=disk
devices=*
readahead=<4
[nothing left]
type=disk
elevator=bfq
`, 4},
		{"disks multiplied", `
[disk]
readahead_multiply=4
[cpu]
devices=!cpu0
governor=userspace|performance
pm_qos_resume_latency_us=4
`, 17},
		{"devices by udev", `
[a]
type=disk
devices_udev_regex=^DEVNAME=/dev/sd[b-z]$
readahead=512
[b]
type=disk
devices_udev_regex=^DEVPATH=/devices/.*/target0:0:0/
readahead=1024
[c]
type=disk
devices_udev_regex=SUBSYSTEM=blockx|^DEVTYPE=partition
readahead=2048
[d]
type=cpu
devices_udev_regex=^ID_TEST=one$
pm_qos_resume_latency_us=11
[e]
type=cpu
devices_udev_regex=^CURRENT_TAGS=:now:$
pm_qos_resume_latency_us=12
[f]
type=cpu
devices_udev_regex=^TAGS=:.*once.*:$
pm_qos_resume_latency_us=13
[g]
type=cpu
devices_udev_regex=^DEVLINKS=/dev/by-test/x$
pm_qos_resume_latency_us=14
[h]
type=cpu
devices_udev_regex=^USEC_INITIALIZED=123$
pm_qos_resume_latency_us=15
[rest]
type=cpu
devices_udev_regex=^SUBSYSTEM=cpu$
pm_qos_resume_latency_us=n/a
`, 10},
		{"cpus", `
[one]
type=cpu
devices=cpu[0-3]
governor=ondemand | performance
energy_performance_preference=performance
min_perf_pct=80
max_perf_pct=90
no_turbo=1
pm_qos_resume_latency_us=170
[two]
type=cpu
devices=cpu[4-5],cpu9
governor=conservative|schedutil
energy_perf_bias=power
energy_performance_preference=quiet|balance_power
min_perf_pct=10
[three]
type=cpu
energy_performance_preference=power
pm_qos_resume_latency_us=5
`, 20},
		{"memory and variables", `
[vm]
transparent_hugepages=never
transparent_hugepage.defrag=defer+madvise
[sysctl]
vm.swappiness=>5
vm.dirty_ratio=<5
net.core.somaxconn="4096"
net.ipv4.tcp_rmem=4096 87380 16777216
kernel.nothing=1
[sysfs]
/sys/devices/system/cpu/cpu[0-3]/power//energy_perf_bias=9
/sys/class/block/sd?/queue/nr_requests=100
/sys/class/block/*/queue/nothing=1
/sys/../etc/motd=x
`, 9},
		{"small ones", `
[usb]
devices=!2-*
autosuspend=1
[scsi_host]
devices=host7
alpm=medium_power
[audio]
timeout=10
reset_controller=1
`, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			theirs, calls := byTuneD(t, tt.profile)
			ours := byUs(t, tt.profile)
			if diff := cmp.Diff(theirs, ours); diff != "" {
				t.Errorf("(-TuneD +fettle):\n%s", diff)
			}
			if len(theirs) < tt.writes {
				t.Errorf("TuneD changed only %d values, want at least %d for a comparison worth the name: %v\n%v", len(theirs), tt.writes, theirs, calls)
			}
		})
	}
}

// TestUnlikeTuneD tests both sides of each intended difference.
func TestUnlikeTuneD(t *testing.T) {
	root.Real(t, "runs TuneD")
	const text = `
[sda]
type=disk
devices=sda
elevator=cfq
[sdb]
type=disk
devices=sdb
readahead=4095
[usb]
devices=1-1
autosuspend=5
[cpu0]
type=cpu
devices=cpu0
governor=performance
energy_performance_preference=power
[cpu1]
type=cpu
devices=cpu1
pm_qos_resume_latency_us=cstate.name:C1E
energy_performance_preference=77
[scsi_host]
alpm=medium_power
`
	const host0 = "/sys/devices/pci0000:00/0000:00:05.0/host0/"
	theirs, _ := byTuneD(t, text)
	ours := byUs(t, text)
	for _, tt := range []struct{ why, path, theirs, ours string }{
		{"the schedulers of Linux before 5.0 are mapped", host0 + "target0:0:0/0:0:0:0/block/sda/queue/scheduler", "cfq", "bfq"},
		{"the kernel kept whole pages of read-ahead", host0 + "target0:0:1/0:0:1:0/block/sdb/queue/read_ahead_kb", "4095", "4092"},
		{"autosuspend is in seconds, as documented", "/sys/devices/usb1/1-1/power/autosuspend", "0", "5"},
		{"the kernel refuses the preference under the governor performance",
			"/sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference", "power", "unchanged"},
		{"idle states are taken for one CPU, too, as in newer TuneD", "/sys/devices/system/cpu/cpu1/power/pm_qos_resume_latency_us", "unchanged", "4"},
		{"a preference may be a number, as in newer TuneD", "/sys/devices/system/cpu/cpufreq/policy1/energy_performance_preference", "unchanged", "77"},
		{"ports that take disks while running are left alone, as in newer TuneD",
			"/sys/devices/pci0000:00/0000:00:1f.2/ata7/host8/scsi_host/host8/link_power_management_policy", "medium_power", "unchanged"},
	} {
		left := func(changes map[string]string) string {
			if v, ok := changes[tt.path]; ok {
				return v
			}
			return "unchanged"
		}
		if left(theirs) != tt.theirs || left(ours) != tt.ours {
			t.Errorf("%s: %s: TuneD left %s and fettle %s, want %s and %s", tt.why, tt.path, left(theirs), left(ours), tt.theirs, tt.ours)
		}
	}
}
