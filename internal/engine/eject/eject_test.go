package eject

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
)

// TestKinds tests that the table says of every kind of setting how it is made permanent, and that
// the remaining kinds are those of products.
func TestKinds(t *testing.T) {
	h := machine.Copy(t, map[string]string{"/proc/version": "Linux\n"})
	all, own := audit.Kinds(h), table.Kinds(h)
	for name := range own {
		if permanent[name] == nil {
			t.Errorf("the kind %s is not in the table", name)
		}
	}
	for name := range permanent {
		if all[name] == nil && name != "tuner" {
			t.Errorf("the table has the unknown kind %s", name)
		}
	}
	for name := range all {
		if permanent[name] != nil {
			continue
		}
		r, err := Of(t.Context(), h, all, input("", name+":x=1"))
		if err != nil || len(r.Refused) != 1 || !strings.Contains(r.Refused[0].Why, "before fettle is removed") {
			t.Errorf("%s: %v %+v", name, err, r)
		}
	}
}

// input returns the input of settings with their values, all of which are in force.
func input(section string, values ...string) Input {
	p := &tune.Plan{}
	for _, v := range values {
		name, value, _ := strings.Cut(v, "=")
		s, err := setting.Parse(name)
		if err != nil {
			panic(err)
		}
		p.Steps = append(p.Steps, tune.Step{Setting: s, Want: setting.Text(value), Action: tune.Same, Unit: section})
	}
	return Input{Plan: p, InForce: true, Original: func(setting.Setting) setting.Value { return setting.Unknown }}
}

// base are files without which a copy would not know whether others are missing.
var base = map[string]string{
	"/bin/sh": "", "/etc/passwd": "", "/boot/": "", "/proc/version": "Linux\n", "/dev/": "",
	"/sys/module/nf_conntrack/initstate":                       "live\n",
	"/sys/module/kvm/initstate":                                "live\n",
	"/sys/module/kvm/parameters/halt_poll_ns":                  "200000\n",
	"/sys/module/workqueue/parameters/power_efficient":         "N\n",
	"/sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "performance\n",
	"/sys/devices/system/cpu/cpufreq/policy0/scaling_driver":   "acpi-cpufreq\n",
	"/sys/devices/system/cpu/cpufreq/policy1/scaling_governor": "performance\n",
	"/sys/module/acpi_cpufreq/initstate":                       "live\n",
	"/sys/kernel/mm/transparent_hugepage/enabled":              "always [madvise] never\n",
	"/sys/kernel/debug/sched/features":                         "A\n",
	"/sys/devices/pci0/ata1/host0/block/sda/queue/scheduler":   "[none] mq-deadline\n",
	"/sys/devices/pci0/ata1/host0/block/sda/queue/nr_requests": "64\n",
	"/sys/devices/pci0/virtio1/block/vda/queue/scheduler":      "[none] mq-deadline\n",
	"/sys/devices/pci0/virtio2/block/vdb/queue/scheduler":      "[none] mq-deadline\n",
	"/sys/class/block/sda/dev":                                 "8:0\n",
	"/run/udev/data/b8:0":                                      "E:ID_SERIAL=ST_1234\nE:ID_BUS=ata\n",
	"/usr/sbin/ethtool":                                        "",
	"/usr/sbin/hdparm":                                         "",
	"/etc/default/grub.d/":                                     "",
	"/boot/grub/grub.cfg":                                      "",
}

// copyOf returns a function that ejects values of a copied machine.
func copyOf(t *testing.T, more map[string]string) func(values ...string) *Result {
	t.Helper()
	files := maps.Clone(base)
	maps.Copy(files, more)
	h := machine.Copy(t, files)
	return func(values ...string) *Result {
		t.Helper()
		r, err := Of(t.Context(), h, audit.Kinds(h), input("", values...))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
}

// content returns the lines of a result's files, each after its path, without the first line.
func content(r *Result) string {
	var b strings.Builder
	for _, f := range r.Files {
		b.WriteString(f.Path + "\n")
		for line := range strings.Lines(f.Content) {
			if strings.TrimSpace(line) != head {
				b.WriteString("  " + line)
			}
		}
	}
	for _, c := range r.Commands {
		b.WriteString("$ " + strings.Join(c.Argv, " ") + "\n")
	}
	return b.String()
}

// TestFiles tests the file of each kind.
func TestFiles(t *testing.T) {
	of := copyOf(t, nil)
	for _, c := range []struct {
		values []string
		want   string
	}{
		{[]string{"vm.swappiness=10", "net.ipv4.tcp_rmem=4096\t87380\t6291456"}, `/etc/sysctl.d/90-tuning.conf
  vm.swappiness = 10
  net.ipv4.tcp_rmem = 4096 87380 6291456
`},
		{[]string{"net.netfilter.nf_conntrack_max=1000"}, `/etc/modules-load.d/90-tuning.conf
  nf_conntrack
/etc/sysctl.d/90-tuning.conf
  net.netfilter.nf_conntrack_max = 1000
`},
		{[]string{"/sys/kernel/mm/transparent_hugepage/enabled=never", "/sys/module/workqueue/parameters/power_efficient=50%"}, `/etc/tmpfiles.d/90-tuning.conf
  w /sys/kernel/mm/transparent_hugepage/enabled - - - - never
  w /sys/module/workqueue/parameters/power_efficient - - - - 50%%
`},
		{[]string{"/sys/module/kvm/parameters/halt_poll_ns=0"}, `/etc/modprobe.d/90-tuning.conf
  options kvm halt_poll_ns=0
/etc/tmpfiles.d/90-tuning.conf
  w /sys/module/kvm/parameters/halt_poll_ns - - - - 0
`},
		{[]string{"/sys/kernel/debug/sched/features=NO_X"}, `/etc/tmpfiles.d/90-tuning.conf
  w /sys/kernel/debug/sched/features - - - - NO_X
/etc/systemd/system/systemd-tmpfiles-setup.service.d/90-tuning.conf
  [Unit]
  After=sys-kernel-debug.mount
`},
		// One line for all CPUs, after the driver, which is a module.
		{[]string{"/sys/devices/system/cpu/cpufreq/policy0/scaling_governor=performance", "/sys/devices/system/cpu/cpufreq/policy1/scaling_governor=performance"}, `/etc/modules-load.d/90-tuning.conf
  acpi_cpufreq
/etc/tmpfiles.d/90-tuning.conf
  w /sys/devices/system/cpu/cpufreq/policy[0-9]*/scaling_governor - - - - performance
/etc/systemd/system/systemd-tmpfiles-setup.service.d/90-tuning.conf
  [Unit]
  After=systemd-modules-load.service
`},
		// The CPUs differ, so a pattern would be wrong.
		{[]string{"/sys/devices/system/cpu/cpufreq/policy1/scaling_governor=powersave"}, `/etc/tmpfiles.d/90-tuning.conf
  w /sys/devices/system/cpu/cpufreq/policy1/scaling_governor - - - - powersave
`},
		// The scheduler comes before the depth of its queue; the SCSI disk has its serial number.
		{[]string{
			"/sys/devices/pci0/ata1/host0/block/sda/queue/nr_requests=256", "/sys/devices/pci0/ata1/host0/block/sda/queue/scheduler=mq-deadline",
			"/sys/devices/pci0/virtio1/block/vda/queue/scheduler=none", "/sys/devices/pci0/virtio2/block/vdb/queue/scheduler=none",
		}, `/etc/udev/rules.d/90-tuning.rules
  ACTION=="add|change|move", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", ENV{ID_SERIAL}=="ST_1234", ATTR{queue/scheduler}="mq-deadline", ATTR{queue/nr_requests}="256"
  ACTION=="add|change|move", SUBSYSTEM=="block", KERNEL=="vda|vdb", ATTR{queue/scheduler}="none"
`},
		// Turning huge pages on raises the reserve, and happens after systemd-sysctl.
		{[]string{"vm.min_free_kbytes=70000", "/sys/kernel/mm/transparent_hugepage/enabled=always"}, `/etc/tmpfiles.d/90-tuning.conf
  w /sys/kernel/mm/transparent_hugepage/enabled - - - - always
  w /proc/sys/vm/min_free_kbytes - - - - 70000
/etc/sysctl.d/90-tuning.conf
  vm.min_free_kbytes = 70000
`},
		{[]string{"net:eth0/mtu=9000", "net:eth0/ring-rx=4096", "net:eth0/feature-rx-gro=off", "hdparm:sda/apm=254"}, `/etc/udev/rules.d/90-tuning.rules
  ACTION=="add|change|move", SUBSYSTEM=="net", KERNEL=="eth0", ATTR{mtu}="9000"
  ACTION=="add|move", SUBSYSTEM=="net", KERNEL=="eth0", RUN+="/usr/sbin/ethtool -G $name rx 4096", RUN+="/usr/sbin/ethtool -K $name rx-gro off"
  ACTION=="add|move", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", ENV{ID_SERIAL}=="ST_1234", RUN+="/usr/sbin/hdparm -B 254 $devnode"
`},
		{[]string{"modprobe:nbd=+r nbds_max=8", "module:nbd=loaded nbds_max=8"}, `/etc/modprobe.d/90-tuning.conf
  options nbd nbds_max=8
/etc/modules-load.d/90-tuning.conf
  nbd
`},
		{[]string{"unit:a.service/LimitNOFILE=4096", "unit:a.service/LimitCORE=0", "unit:b.service/enabled=disabled", "unit:a.service/dropin/x.conf=[Service]\nNice=7\n"}, `/etc/systemd/system/a.service.d/zz-tuning.conf
  [Service]
  LimitNOFILE=4096
  LimitCORE=0
/etc/systemd/system/a.service.d/zz-tuning-x.conf
  [Service]
  Nice=7
$ systemctl disable b.service
`},
		{[]string{"manager:CPUAffinity=0-2", "slice:system.slice=0-2", "irqbalance:/etc/default/irqbalance=3"}, `/etc/systemd/system.conf.d/90-tuning.conf
  [Manager]
  CPUAffinity=
  CPUAffinity=0 1 2
/etc/systemd/system/system.slice.d/zz-tuning.conf
  [Slice]
  AllowedCPUs=0-2
/etc/systemd/system/irqbalance.service.d/zz-tuning.conf
  [Service]
  EnvironmentFile=-/etc/default/irqbalance-tuning
/etc/default/irqbalance-tuning
  IRQBALANCE_BANNED_CPULIST="3"
`},
		{[]string{"bootloader:grub:/boot/grub/grub.cfg=skew_tick=1 x=$y"}, `/etc/default/grub.d/zz-tuning.cfg
  GRUB_CMDLINE_LINUX_DEFAULT="${GRUB_CMDLINE_LINUX_DEFAULT:+$GRUB_CMDLINE_LINUX_DEFAULT }"'skew_tick=1 x=\$y'
$ update-grub
`},
		{[]string{"bootloader:grubenv=nohz=on"}, "$ grubby --update-kernel=ALL --args=nohz=on\n"},
		{[]string{"bootloader:bootc=nohz=on a=b"}, `/usr/lib/bootc/kargs.d/90-tuning.toml
  kargs = ["nohz=on", "a=b"]
`},
	} {
		r := of(c.values...)
		if got := content(r); got != c.want {
			t.Errorf("%q:\n%s\nwant\n%s", c.values, got, c.want)
		}
		if len(r.Refused) > 0 {
			t.Errorf("%q: refused %v", c.values, r.Refused)
		}
	}
}

// TestRefused tests that what no native file can keep is listed, and is in no file.
func TestRefused(t *testing.T) {
	of := copyOf(t, nil)
	for _, v := range []string{
		"irq:24=0-1", "pmqos:cpu_dma_latency=2", "script:/etc/tuned/x.sh=started", "task:1@2/affinity=0", "unit:a.service/active=active",
		"module:nbd=unloaded", "postgresql:shared_buffers=1GB", "/sys/fs/cgroup/x/cpu.max=1", "/sys/firmware/acpi/platform_profile=performance",
		"/sys/devices/platform/x/attribute=1", "bootloader:rpm-ostree=a b", "bootloader:grub:/boot/grub/grub.cfg=a\ninitrd=overlay",
		"file:/boot/loader/entries/x.conf=title", "net:eth0/advertise=0x20", "kernel.core_pattern=a\nb", "kernel.modprobe=",
		"/sys/devices/pci0/virtio1/block/vda/queue/scheduler=a\"b", "slice:system.slice=all",
	} {
		r := of(v)
		if len(r.Refused) != 1 || r.Refused[0].Why == "" || len(r.Values)+len(r.Files)+len(r.Commands) > 0 {
			t.Errorf("%q: %+v", v, r)
		}
	}
}

// TestPrecedence tests that the names of the files make the values win, and that a value that
// cannot win is not in a file.
func TestPrecedence(t *testing.T) {
	for _, c := range []struct {
		what  string
		files map[string]string
		value string
		file  string // that keeps the value; "" if it is refused
	}{
		{"no other file", nil, "vm.swappiness=10", "/etc/sysctl.d/90-tuning.conf"},
		{"an earlier file", map[string]string{"/usr/lib/sysctl.d/50-a.conf": "vm.swappiness=1\n"}, "vm.swappiness=10", "/etc/sysctl.d/90-tuning.conf"},
		{"a later file", map[string]string{"/usr/lib/sysctl.d/99-a.conf": "vm.swappiness=1\n"}, "vm.swappiness=10", "/etc/sysctl.d/zz-tuning.conf"},
		{"a later file with the same value", map[string]string{"/usr/lib/sysctl.d/99-a.conf": "vm.swappiness=10\n"}, "vm.swappiness=10", "/etc/sysctl.d/90-tuning.conf"},
		{"the last file", map[string]string{"/etc/sysctl.d/zzz.conf": "vm.swappiness=1\n"}, "vm.swappiness=10", ""},
		{"a later file with the other spelling", map[string]string{"/etc/sysctl.d/99-a.conf": "vm.dirty_bytes=1000000\n"}, "vm.dirty_ratio=10", "/etc/sysctl.d/zz-tuning.conf"},
		{"a later line of tmpfiles.d", map[string]string{"/usr/lib/tmpfiles.d/a.conf": "w /sys/kernel/mm/transparent_hugepage/enabled - - - - always\n"}, "/sys/kernel/mm/transparent_hugepage/enabled=never", "/etc/tmpfiles.d/90-tuning.conf"},
		{"a later file of modprobe.d", map[string]string{"/lib/modprobe.d/systemd.conf": "options nbd nbds_max=0\n"}, "modprobe:nbd=+r nbds_max=8", "/etc/modprobe.d/zz-tuning.conf"},
		{"a later file of modprobe.d about another option", map[string]string{"/lib/modprobe.d/systemd.conf": "options nbd max_part=0\n"}, "modprobe:nbd=nbds_max=8", "/etc/modprobe.d/90-tuning.conf"},
		{"the last file of modprobe.d", map[string]string{"/etc/modprobe.d/zzz.conf": "\noptions nbd nbds-max=0\n"}, "modprobe:nbd=nbds_max=8", ""},
		{"the first line of tmpfiles.d", map[string]string{"/usr/lib/tmpfiles.d/10-a.conf": "w /sys/kernel/mm/transparent_hugepage/enabled - - - - always\n"}, "/sys/kernel/mm/transparent_hugepage/enabled=never", "/etc/tmpfiles.d/00-tuning.conf"},
	} {
		of := copyOf(t, c.files)
		r := of(c.value)
		switch {
		case c.file == "" && (len(r.Refused) != 1 || len(r.Files) > 0 || !strings.Contains(r.Refused[0].Why, "zzz.conf:")):
			t.Errorf("%s: %+v", c.what, r)
		case c.file != "" && (len(r.Values) != 1 || !slices.Equal(r.Values[0].By, []string{c.file}) || len(r.Refused) > 0):
			t.Errorf("%s: %+v", c.what, r)
		}
	}
}

// TestTemplates tests that Ansible does not expand a file's content, and that all formats are YAML.
func TestTemplates(t *testing.T) {
	of := copyOf(t, nil)
	for _, format := range []string{Ansible, MachineConfig} {
		r := of("kernel.core_pattern=|/usr/bin/x {{ lookup('pipe', 'id') }} %e", "unit:a.service/enabled=enabled", "unit:a.service/LimitCORE=0", "bootloader:grubenv=nohz=on")
		if err := r.Convert(format); err != nil {
			t.Fatal(err)
		}
		var doc any
		if err := yaml.Unmarshal([]byte(strings.ReplaceAll(r.Files[0].Content, "!unsafe", "")), &doc); err != nil {
			t.Fatalf("%s: %v\n%s", format, err, r.Files[0].Content)
		}
		if len(r.Files) != 1 || len(r.Commands) > 0 || !strings.Contains(r.Files[0].Content, "nohz=on") {
			t.Errorf("%s: %+v", format, r)
		}
		if format == Ansible && !strings.Contains(r.Files[0].Content, "content: !unsafe") {
			t.Errorf("Ansible would expand the content:\n%s", r.Files[0].Content)
		}
	}
}

// TestUnnamedDisk tests that a disk whose record of udev has no serial number is reported.
func TestUnnamedDisk(t *testing.T) {
	for _, record := range []string{"E:ID_BUS=ata\n", "E:ID_SERIAL=\n"} {
		r := copyOf(t, map[string]string{"/run/udev/data/b8:0": record})("/sys/devices/pci0/ata1/host0/block/sda/queue/scheduler=mq-deadline")
		if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "sda") || !strings.Contains(r.Files[0].Content, `KERNEL=="sda"`) {
			t.Errorf("%q: %v %+v", record, r.Notes, r.Files)
		}
	}
}

// TestPlaybookConditions tests that the playbook adds kernel arguments if one of them is missing,
// and starts events for the subsystems of its rules only.
func TestPlaybookConditions(t *testing.T) {
	r := copyOf(t, nil)("bootloader:grubenv=nohz=on x='{{y}}'", "/sys/devices/pci0/virtio1/block/vda/queue/scheduler=none", "net.netfilter.nf_conntrack_max=1000")
	if err := r.Convert(Ansible); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{" or (", `nohz=on([ "]|$)`, "--subsystem-match=block", "systemd-modules-load"} {
		if !strings.Contains(r.Files[0].Content, want) {
			t.Errorf("no %q in\n%s", want, r.Files[0].Content)
		}
	}
	for line := range strings.Lines(r.Files[0].Content) {
		if strings.Contains(line, "{{") && !strings.Contains(line, "!unsafe") || strings.Contains(line, "subsystem-match=net") {
			t.Errorf("%q", line)
		}
	}
}
