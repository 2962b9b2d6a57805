package override

import (
	"testing"

	"fettle.dev/fettle/internal/setting"
	"github.com/google/go-cmp/cmp"
)

// TestSaptune tests saptune's notes: the last note wins, an override replaces or removes a value,
// and the tags of a section are a condition.
func TestSaptune(t *testing.T) {
	c, problems := read(t, claimMachine(t, `
-- etc/sysconfig/saptune --
TUNE_FOR_SOLUTIONS="HANA"
NOTE_APPLY_ORDER="2205917 1984787 mine gone"
-- usr/lib/systemd/system/saptune.service --
[Service]
-- etc/systemd/system/multi-user.target.wants/saptune.service --
-> /usr/lib/systemd/system/saptune.service
-- var/lib/saptune/working/notes/2205917 --
[version]
VERSION=1
[sysctl]
vm.swappiness = 10
kernel.pid_max="1000" # a reason
[vm]
THP=Never
[vm:os=15-[5-7]]
THP=madvise
-- var/lib/saptune/working/notes/1984787 --
[sysctl]
vm.swappiness > 20
net.core.somaxconn=4096
-- etc/saptune/override/1984787 --
[sysctl]
vm.swappiness = 30
net.core.somaxconn =
-- etc/saptune/extra/mine.conf --
[sys]
kernel.mm.ksm.run=1
[block]
IO_SCHEDULER=none, mq-deadline
-- sys/kernel/mm/transparent_hugepage/enabled --
x
-- sys/kernel/mm/ksm/run --
0
`))
	for name, want := range map[string][]string{
		"sysctl:vm.swappiness":      {"/var/lib/saptune/working/notes/2205917:4 10", "/etc/saptune/override/1984787:2 30 [admin]"},
		"sysctl:kernel.pid_max":     {"/var/lib/saptune/working/notes/2205917:5 1000"},
		"sysctl:net.core.somaxconn": {"/etc/saptune/override/1984787:3  [admin] VOID left untouched by /etc/saptune/override/1984787:3"},
		"/sys/kernel/mm/transparent_hugepage/enabled": {
			"/var/lib/saptune/working/notes/2205917:7 never",
			"/var/lib/saptune/working/notes/2205917:9 madvise if the tags of its section match this machine: os=15-[5-7]",
		},
		"/sys/kernel/mm/ksm/run": {"/etc/saptune/extra/mine.conf:2 1 [admin]"},
	} {
		if diff := cmp.Diff(want, claimsFor(t, c, name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if len(problems) != 1 || len(c.Unread(Saptune)) != 1 {
		t.Errorf("problems %v: want the one note that was not found", problems)
	}
}

// TestSaptuneByHand tests that saptune's notes are not applied without its service, unless an
// administrator applied them.
func TestSaptuneByHand(t *testing.T) {
	const files = `
-- etc/sysconfig/saptune --
NOTE_APPLY_ORDER="1"
-- var/lib/saptune/working/notes/1 --
[sysctl]
vm.swappiness = 10
`
	c, _ := read(t, claimMachine(t, files))
	if got := claimsFor(t, c, "sysctl:vm.swappiness"); len(got) != 1 || got[0] != "/var/lib/saptune/working/notes/1:2 10 VOID saptune.service, which applies this note, is not enabled" {
		t.Errorf("not enabled: %q", got)
	}
	c, _ = read(t, claimMachine(t, files+"-- run/saptune/saved_state/1 --\n{}\n"))
	if got := claimsFor(t, c, "sysctl:vm.swappiness"); len(got) != 1 || got[0] != "/var/lib/saptune/working/notes/1:2 10" {
		t.Errorf("applied by hand: %q", got)
	}
}

// TestTLP tests TLP's files: drop-ins come before tlp.conf, a parameter for one power source is
// conditional, and nothing is applied without TLP's service.
func TestTLP(t *testing.T) {
	const files = `
-- usr/share/tlp/defaults.conf --
NMI_WATCHDOG=0
MAX_LOST_WORK_SECS_ON_AC=15
MAX_LOST_WORK_SECS_ON_BAT=60
-- etc/tlp.d/10-x.conf --
NMI_WATCHDOG=1
MEM_SLEEP_ON_AC=s2idle
-- etc/tlp.conf --
NMI_WATCHDOG="0"
#MEM_SLEEP_ON_AC=deep
-- sys/power/mem_sleep --
s2idle
`
	enabled := files + `-- usr/lib/systemd/system/tlp.service --
[Service]
-- etc/systemd/system/multi-user.target.wants/tlp.service --
-> /usr/lib/systemd/system/tlp.service
`
	ac, bat := "the machine is on external power (TLP's performance profile)", "the machine is on battery (TLP's balanced profile)"
	c, _ := read(t, claimMachine(t, enabled))
	for name, want := range map[string][]string{
		"sysctl:kernel.nmi_watchdog":         {"/etc/tlp.conf:1 0 [admin]"},
		"sysctl:vm.dirty_expire_centisecs":   {"/usr/share/tlp/defaults.conf:2 1500 if " + ac, "/usr/share/tlp/defaults.conf:3 6000 if " + bat},
		"/sys/power/mem_sleep":               {"/etc/tlp.d/10-x.conf:2 s2idle [admin] if " + ac},
		"sysctl:vm.dirty_background_ratio":   nil,
		"sysctl:fs.xfs.age_buffer_centisecs": {"/usr/share/tlp/defaults.conf:2 1500 if " + ac, "/usr/share/tlp/defaults.conf:3 6000 if " + bat},
	} {
		if diff := cmp.Diff(want, claimsFor(t, c, name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	c, _ = read(t, claimMachine(t, files))
	if got := claimsFor(t, c, "sysctl:kernel.nmi_watchdog"); len(got) != 1 || got[0] != "/etc/tlp.conf:1 0 [admin] VOID tlp.service, which applies this file, is not enabled" {
		t.Errorf("without its service: %q", got)
	}
	c, _ = read(t, claimMachine(t, enabled+"-- etc/tlp.d/90.conf --\nTLP_ENABLE=0\n"))
	if got := claimsFor(t, c, "sysctl:kernel.nmi_watchdog"); len(got) != 1 || got[0] != "/etc/tlp.conf:1 0 [admin] VOID TLP is switched off: TLP_ENABLE=0 in /etc/tlp.d/90.conf" {
		t.Errorf("switched off: %q", got)
	}
}

// TestKtune tests that ktune applies its own files in order, then the administrator's files again.
func TestKtune(t *testing.T) {
	c, _ := read(t, claimMachine(t, `
-- etc/sysconfig/ktune --
SYSCTL="/etc/sysctl.ktune"
USE_KTUNE_D="yes"
SYSCTL_POST="/etc/sysctl.conf"
-- etc/rc3.d/S27ktune --
x
-- etc/sysctl.ktune --
vm.dirty_ratio = 40
kernel.pid_max = >4194303
vm.swappiness = 5
-- etc/ktune.d/tunedadm.conf --
vm.dirty_ratio = 20
-- etc/sysctl.conf --
vm.swappiness = 60
`))
	for name, want := range map[string]string{"vm.dirty_ratio": "/etc/ktune.d/tunedadm.conf:1", "vm.swappiness": "/etc/sysctl.conf:1"} {
		all := c.For(setting.Setting{Kind: "sysctl", Name: name})
		if w, ok := Winner(all); !ok || w.Place() != want || w.Source != Ktune {
			t.Errorf("%s: %v, %+v; want %s", name, ok, w, want)
		}
	}
	if got := claimsFor(t, c, "sysctl:kernel.pid_max"); len(got) != 1 || got[0] != "/etc/sysctl.ktune:2 4194303 [admin] if the current value is lower" {
		t.Errorf("raised: %q", got)
	}
}

// TestPowerProfile tests that ppd.conf maps a power profile to TuneD's profile.
func TestPowerProfile(t *testing.T) {
	h := claimMachine(t, `
-- etc/tuned/ppd_base_profile --
balanced
-- etc/tuned/ppd.conf --
[main]
default=balanced
[profiles]
# PPD = TuneD
power-saver=powersave
balanced=balanced
performance=throughput-performance
[battery]
balanced=balanced-battery
`)
	for profile, line := range map[string]int{"balanced": 6, "balanced-battery": 9, "powersave": 0, "mine": 0} {
		if m, ok := PowerProfile(h, profile); m.Line != line || ok != (line > 0) || m.Battery != (line == 9) {
			t.Errorf("%s: %+v, %v; want line %d", profile, m, ok, line)
		}
	}
}

// TestMaySet tests the settings that a tuner may set in addition to those in its files.
func TestMaySet(t *testing.T) {
	for _, c := range []struct {
		tuner, file string
		want        bool
	}{
		{"TuneD", "/proc/sys/vm/swappiness", true},
		{"TLP", "/proc/sys/vm/swappiness", false},
		{"TLP", "/sys/devices/pci0000:00/0000:00:04.0/virtio1/block/vda/queue/scheduler", true},
		{"power-profiles-daemon", "/sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference", true},
		{"power-profiles-daemon", "/proc/sys/kernel/panic", false},
		{"numad", "/proc/sys/kernel/numa_balancing", true},
		{"numad", "/proc/sys/kernel/numa_balancing_x", false},
		{"bpftune", "/proc/sys/net/ipv4/tcp_rmem", true},
		{"irqbalance", "/proc/irq/7/smp_affinity", true},
		{"irqbalance", "/proc/sys/vm/swappiness", false},
	} {
		if got := (Tuner{Name: c.tuner}).MaySet([]string{c.file}); got != c.want {
			t.Errorf("%s, %s: %v", c.tuner, c.file, got)
		}
	}
}
