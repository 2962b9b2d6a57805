package override

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

func TestTmpfiles(t *testing.T) {
	check(t, `
-- proc/sys/vm/swappiness --
60
-- sys/kernel/mm/transparent_hugepage/enabled --
always
-- sys/kernel/mm/ksm/run --
0
-- sys/kernel/mm/ksm/sleep_millisecs --
0
-- etc/tmpfiles.d/thp.conf --
# Type Path Mode User Group Age Argument
w /sys/kernel/mm/transparent_hugepage/enabled - - - - never
w! "/proc/sys/vm/swappiness" - - - - 1
w /sys/kernel/mm/ksm/* - - - - 5
w+ /sys/kernel/mm/ksm/run - - - - \x31
f /sys/kernel/mm/ksm/sleep_millisecs - - - - 7
w /sys/kernel/mm/ksm/%m - - - - 1
d /run/x 0755 root root -
-- usr/lib/tmpfiles.d/zz.conf --
w /sys/kernel/mm/transparent_hugepage/enabled - - - - always
w+ /sys/kernel/mm/ksm/run - - - - 2
F /sys/kernel/mm/ksm/sleep_millisecs - - - - 8
-- usr/lib/tmpfiles.d/thp.conf --
w /sys/kernel/mm/transparent_hugepage/enabled - - - - madvise
`, map[string][]string{
		"/sys/kernel/mm/transparent_hugepage/enabled": {
			"/usr/lib/tmpfiles.d/thp.conf:1 madvise VOID hidden by /etc/tmpfiles.d/thp.conf, which has the same name",
			"/usr/lib/tmpfiles.d/zz.conf:1 always VOID overridden by the earlier line /etc/tmpfiles.d/thp.conf:2",
			"/etc/tmpfiles.d/thp.conf:2 never [admin]",
		},
		"vm.swappiness": {"/etc/tmpfiles.d/thp.conf:3 1 [admin]"},
		"/sys/kernel/mm/ksm/run": {
			"/etc/tmpfiles.d/thp.conf:4 5 [admin]", "/etc/tmpfiles.d/thp.conf:5 1 [admin]", "/usr/lib/tmpfiles.d/zz.conf:2 2"},
		"/sys/kernel/mm/ksm/sleep_millisecs": {
			"/etc/tmpfiles.d/thp.conf:6 7 [admin] VOID f writes only files that do not exist yet",
			"/usr/lib/tmpfiles.d/zz.conf:3 8 VOID overridden by the earlier line /etc/tmpfiles.d/thp.conf:6",
			"/etc/tmpfiles.d/thp.conf:4 5 [admin]"},
	})
}

const disks = `
-- sys/class/block/sda --
-> ../../devices/pci0/ata1/block/sda
-- sys/class/block/sda1 --
-> ../../devices/pci0/ata1/block/sda/sda1
-- sys/class/block/nvme0n1 --
-> ../../devices/pci0/nvme/nvme0/nvme0n1
-- sys/devices/pci0/ata1/block/sda/queue/scheduler --
[mq-deadline] none
-- sys/devices/pci0/ata1/block/sda/queue/rotational --
1
-- sys/devices/pci0/ata1/block/sda/queue/read_ahead_kb --
128
-- sys/devices/pci0/ata1/block/sda/sda1/partition --
1
-- sys/devices/pci0/ata1/uevent --

-- sys/devices/pci0/ata1/vendor --
ATA     
-- sys/devices/pci0/ata1/subsystem --
-> ../../../bus/scsi
-- sys/devices/pci0/nvme/nvme0/nvme0n1/queue/scheduler --
[none] mq-deadline
-- sys/devices/pci0/nvme/nvme0/nvme0n1/queue/rotational --
0
-- sys/class/net/enp3s0 --
-> ../../devices/pci0/net/enp3s0
-- sys/devices/pci0/net/enp3s0/mtu --
1500
-- sys/devices/pci0/net/enp3s0/tx_queue_len --
1000
`

func TestUdev(t *testing.T) {
	const sda, nvme, nic = "/sys/devices/pci0/ata1/block/sda/queue/", "/sys/devices/pci0/nvme/nvme0/nvme0n1/queue/", "/sys/devices/pci0/net/enp3s0/"
	check(t, disks+`
-- usr/lib/udev/rules.d/60-vendor.rules --
ACTION=="add|change", SUBSYSTEM=="block", \
  # a comment between
  KERNEL=="sd*[!0-9]|nvme*n[0-9]", ATTR{queue/rotational}=="1", ATTR{queue/scheduler}="bfq"
-- etc/udev/rules.d/99-mine.rules --
SUBSYSTEM!="block", GOTO="end"
KERNEL=="nvme[0-9]n[0-9]", ATTR{queue/rotational}=="0", ATTR{queue/scheduler}="kyber"
SUBSYSTEM=="block", ENV{ID_MODEL}=="Fast*", ATTR{queue/read_ahead_kb}="4096"
ENV{DEVTYPE}=="disk", KERNEL=="sd?", ATTRS{vendor}=="ATA", SUBSYSTEMS=="scsi", ATTR{queue/read_ahead_kb}="512"
KERNEL=="sda", ATTRS{vendor}=="IBM", ATTR{queue/read_ahead_kb}="1"
ACTION=="remove", KERNEL=="sda", ATTR{queue/read_ahead_kb}="2"
ENV{X}=="1", GOTO="later"
KERNEL=="sda", ATTR{queue/scheduler}="none"
LABEL="later"
KERNEL=="sda", ATTR{queue/scheduler}!="[none]*", ATTR{queue/scheduler}="deadline"
LABEL="end"
SUBSYSTEM=="net", KERNEL=="eth*", ATTR{mtu}="9000"
SUBSYSTEM=="net", KERNEL=="enp*", TEST=="tx_queue_len", ATTR{tx_queue_len}="5000", SYSCTL{net/ipv6/conf/$name/disable_ipv6}="1"
SUBSYSTEM=="net", KERNEL=="wlp*", ATTR{mtu}="1"
-- etc/udev/rules.d/bad.rules --
KERNEL=="sda" ATTR{x}="1
`, map[string][]string{
		sda + "scheduler": {
			"/usr/lib/udev/rules.d/60-vendor.rules:1 bfq",
			`/etc/udev/rules.d/99-mine.rules:8 none [admin] if not (ENV{X}=="1")`,
			`/etc/udev/rules.d/99-mine.rules:10 deadline [admin] if ATTR{queue/scheduler}!="[none]*"`,
		},
		nvme + "scheduler": {"/etc/udev/rules.d/99-mine.rules:2 kyber [admin]"},
		"/sys/class/block/sda/queue/read_ahead_kb": {
			`/etc/udev/rules.d/99-mine.rules:3 4096 [admin] if ENV{ID_MODEL}=="Fast*"`,
			"/etc/udev/rules.d/99-mine.rules:4 512 [admin]"},
		nic + "mtu":                         {`/etc/udev/rules.d/99-mine.rules:12 9000 [admin] if KERNEL=="eth*"`},
		nic + "tx_queue_len":                {"/etc/udev/rules.d/99-mine.rules:13 5000 [admin]"},
		"net.ipv6.conf.enp3s0.disable_ipv6": {"/etc/udev/rules.d/99-mine.rules:13 1 [admin]"},
	}, "/etc/udev/rules.d/bad.rules:1: ATTR: value without closing quote")
}

func TestServices(t *testing.T) {
	check(t, disks+`
-- etc/init.d/sysfsutils --
#!/bin/sh
-- etc/sysfs.conf --
block/sda/queue/read_ahead_kb = 256 # comment
mode block/sda/queue/read_ahead_kb = 600
nonsense
-- etc/sysfs.d/a.conf --
block/sda/queue/read_ahead_kb=1024
-- sys/block/sda --
-> ../devices/pci0/ata1/block/sda
-- sys/devices/system/cpu/cpufreq/policy0/scaling_governor --
powersave
-- sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq --
1
-- etc/sysconfig/cpupower --
# options
CPUPOWER_START_OPTS="frequency-set -g performance --max 2.5GHz"
-- usr/lib/systemd/system/cpupower.service --
[Unit]
-- etc/systemd/system/multi-user.target.wants/cpupower.service --
-> /usr/lib/systemd/system/cpupower.service
-- etc/default/cpufrequtils --
GOVERNOR="ondemand"
`, map[string][]string{
		"/sys/block/sda/queue/read_ahead_kb": {"/etc/sysfs.conf:1 256 [admin]", "/etc/sysfs.d/a.conf:1 1024 [admin]"},
		"/sys/devices/system/cpu/cpufreq/policy0/scaling_governor": {
			"/etc/default/cpufrequtils:1 ondemand [admin] VOID /etc/init.d/cpufrequtils, which applies this file, is not installed",
			"/etc/sysconfig/cpupower:2 performance [admin]"},
		"/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq": {"/etc/sysconfig/cpupower:2 2500000 [admin]"},
	}, `/etc/sysfs.conf:3: "nonsense": want PATH = VALUE, the path below /sys`)
}

func TestKubelet(t *testing.T) {
	const unit = `
-- usr/lib/systemd/system/kubelet.service --
[Service]
ExecStart=/usr/bin/kubelet
-- usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf --
[Service]
Environment="KUBELET_CONFIG_ARGS=--config=/etc/k/kubelet.yaml"
-- etc/k/kubelet.yaml --
kind: KubeletConfiguration
`
	const enabled = `
-- etc/systemd/system/multi-user.target.wants/kubelet.service --
-> /usr/lib/systemd/system/kubelet.service
-- etc/sysctl.d/10-a.conf --
kernel.panic = 0
`
	check(t, unit+enabled, map[string][]string{"kernel.panic": {
		"/etc/sysctl.d/10-a.conf:1 0 [admin]", "/usr/lib/systemd/system/kubelet.service 10"}})
	check(t, unit+"protectKernelDefaults: false"+enabled, map[string][]string{"vm.overcommit_memory": {"/etc/k/kubelet.yaml:2 1 [admin]"}})
	check(t, unit+"protectKernelDefaults: true"+enabled, map[string][]string{"vm.panic_on_oom": {
		"/etc/k/kubelet.yaml:2 0 [admin] VOID only checked: with protectKernelDefaults the kubelet does not start if the value differs"}})
	check(t, unit+"a: &a {x: 1}\nb: &b {protectKernelDefaults: true}\n<<: [*a, *b]"+enabled, map[string][]string{"vm.panic_on_oom": {
		"/etc/k/kubelet.yaml:3 0 [admin] VOID only checked: with protectKernelDefaults the kubelet does not start if the value differs"}})
	check(t, unit+"b: &b {protectKernelDefaults: true}\n<<: *b\nprotectKernelDefaults: false"+enabled, map[string][]string{"vm.panic_on_oom": {"/etc/k/kubelet.yaml:4 0 [admin]"}})
	check(t, unit+"protectKernelDefaults: true\nprotectKernelDefaults: false"+enabled, map[string][]string{"vm.panic_on_oom": {
		"/usr/lib/systemd/system/kubelet.service 0"}}, `/etc/k/kubelet.yaml: yaml: unmarshal errors:
  line 3: mapping key "protectKernelDefaults" already defined at line 2`)
	check(t, unit, map[string][]string{"kernel.panic": {
		"/usr/lib/systemd/system/kubelet.service 10 VOID kubelet.service is neither enabled nor running"}})
	check(t, unit+enabled+`
-- etc/systemd/system/kubelet.service --
-> /dev/null
`, map[string][]string{"vm.panic_on_oom": nil})
	check(t, unit+`
-- sys/fs/cgroup/system.slice/kubelet.service/cgroup.procs --
812
-- etc/default/kubelet --
KUBELET_EXTRA_ARGS=--protect-kernel-defaults
`, map[string][]string{"kernel.panic": {
		"/etc/default/kubelet:1 10 [admin] VOID only checked: with protectKernelDefaults the kubelet does not start if the value differs"}})
}

// TestUnitsOnACopy tests a copy that does not record which units are enabled: a claim is
// conditional, never void. The link that enables a unit is enough, even without the unit's file.
func TestUnitsOnACopy(t *testing.T) {
	const wants = "/etc/systemd/system/multi-user.target.wants/saptune.service"
	note := map[string]string{"/etc/sysconfig/saptune": "NOTE_APPLY_ORDER=x\n", "/etc/saptune/extra/x.conf": "[sysctl]\nvm.swappiness = 10\n"}
	for _, c := range []struct{ name, more, content, want string }{
		{"nothing recorded", "/proc/version", "Linux\n", "10 [admin] if saptune.service is enabled; this copy does not record whether it is"},
		{"linked", wants, "-> /usr/lib/systemd/system/saptune.service", "10 [admin]"},
		{"not linked", "/etc/systemd/system/multi-user.target.wants/x.service", "-> /x", "10 [admin] VOID saptune.service, which applies this note, is not enabled"},
	} {
		files := map[string]string{c.more: c.content}
		for k, v := range note {
			files[k] = v
		}
		claims, _ := read(t, machine.Copy(t, files))
		got := claimsFor(t, claims, "sysctl:vm.swappiness")
		if want := "/etc/saptune/extra/x.conf:2 " + c.want; len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", c.name, got, want)
		}
	}
	ktune := map[string]string{"/etc/sysconfig/ktune": "SYSCTL=/etc/sysctl.ktune\n", "/etc/sysctl.ktune": "vm.swappiness = 10\n", "/etc/rc.d/rc3.d/S27ktune": "-> ../init.d/ktune"}
	claims, _ := read(t, machine.Copy(t, ktune))
	if got := claimsFor(t, claims, "sysctl:vm.swappiness"); len(got) != 1 || got[0] != "/etc/sysctl.ktune:1 10 [admin]" {
		t.Errorf("ktune by its link in rc.d: %q", got)
	}
}

// TestReadLive tests that this machine's own files can be parsed.
func TestReadLive(t *testing.T) {
	c, problems := read(t, host.Live())
	for _, p := range problems {
		t.Logf("problem: %s", p)
	}
	if u := c.Unknown(); len(u) > 0 {
		t.Errorf("unknown on a live machine: %v", u)
	}
	n := 0
	for s := range c.direct {
		for _, cl := range c.For(s) {
			n++
			if testing.Verbose() {
				t.Logf("%s: %s: %s", s, cl.Source, brief(cl))
			}
			if cl.File == "" || cl.When == "" || cl.Source == "" {
				t.Errorf("%s: incomplete claim %+v", s, cl)
			}
		}
	}
	t.Logf("%d claims", n)
}

// BenchmarkRead reads this machine's claims, as every plan does. The budget is 5 ms on a usual
// machine.
func BenchmarkRead(b *testing.B) {
	h := host.Live()
	kinds := setting.Kernel(h)
	for b.Loop() {
		Read(context.Background(), h, kinds)
	}
}

// BenchmarkFor looks up one sysctl on a machine with patterns.
func BenchmarkFor(b *testing.B) {
	h := host.Live()
	c, _ := Read(context.Background(), h, setting.Kernel(h))
	s := setting.Setting{Kind: "sysctl", Name: "net.ipv4.conf.all.rp_filter"}
	for b.Loop() {
		c.For(s)
	}
}

// BenchmarkTuners lists the tuners, which happens before every tune.
func BenchmarkTuners(b *testing.B) {
	for b.Loop() {
		_, _ = Tuners(context.Background(), host.Live())
	}
}

// TestSystemdSysctlAndProcps tests the results of systemd-sysctl 252 and procps 4.0 of Debian 12
// for the same files. The claims follow systemd-sysctl, which a machine with systemd runs at boot.
func TestSystemdSysctlAndProcps(t *testing.T) {
	testkitroot.Real(t, "runs systemd-sysctl and procps in the Debian test root")
	const key = "net/ipv4/conf/eth0/rp_filter"
	cases := []struct {
		name, text      string
		systemd, procps string
	}{
		{"exclusion after an assignment", "net.ipv4.conf.eth0.rp_filter = 2\n-net.ipv4.conf.eth0.rp_filter\n", untouched, "2"},
		{"and before a pattern", "net.ipv4.conf.eth0.rp_filter = 2\n-net.ipv4.conf.eth0.rp_filter\nnet.ipv4.conf.*.rp_filter = 1\n", untouched, "2"},
		{"exclusion before an assignment", "-net.ipv4.conf.eth0.rp_filter\nnet.ipv4.conf.eth0.rp_filter = 2\n", "2", "2"},
		{"exclusion of a pattern", "net.ipv4.conf.*.rp_filter = 1\n-net.ipv4.conf.eth0.rp_filter\n", untouched, untouched},
		{"pattern after the key", "net.ipv4.conf.eth0.rp_filter = 2\nnet.ipv4.conf.*.rp_filter = 1\n", "2", "2"},
	}
	root := testkitroot.New(t, testkitroot.Options{})
	for i, c := range cases {
		for _, program := range []string{"systemd", "procps"} {
			dir := filepath.Join(root.Share(), program, string(rune('a'+i)))
			machine.WriteFile(t, dir, "proc/sys/"+key, untouched)
			machine.WriteFile(t, dir, "etc/sysctl.d/10-a.conf", c.text)
		}
	}
	root.Must("sh", "-euc", `
for d in etc/sysctl.d run/sysctl.d usr/local/lib/sysctl.d usr/lib/sysctl.d; do
  mkdir -p "/${d%/*}"; rm -rf "/$d"
done
rm -f /etc/sysctl.conf
for program in systemd procps; do
  for tree in "$1/$program"/*; do
    rm -rf /etc/sysctl.d; ln -s "$tree/etc/sysctl.d" /etc/sysctl.d
    mount --bind "$tree/proc/sys" /proc/sys
    if [ $program = systemd ]; then /lib/systemd/systemd-sysctl; else /sbin/sysctl --system; fi >"$tree/log" 2>&1 || :
    umount /proc/sys
  done
done`, "sh", root.Share())
	for i, c := range cases {
		left := func(program string) string {
			b, err := os.ReadFile(filepath.Join(root.Share(), program, string(rune('a'+i)), "proc/sys", key))
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		text := func(s string) string {
			if s == untouched {
				return s
			}
			return s + "\n"
		}
		if got := left("systemd"); got[:min(len(got), len(text(c.systemd)))] != text(c.systemd) {
			t.Errorf("%s: systemd-sysctl leaves %q, want %q", c.name, got, c.systemd)
		}
		if got := left("procps"); got[:min(len(got), len(text(c.procps)))] != text(c.procps) {
			t.Errorf("%s: procps leaves %q, want %q", c.name, got, c.procps)
		}
		h, err := host.Copy(filepath.Join(root.Share(), "systemd", string(rune('a'+i))))
		if err != nil {
			t.Fatal(err)
		}
		claims, _ := read(t, h)
		want := untouched
		if w, ok := claims.Winner(setting.Setting{Kind: "sysctl", Name: "net.ipv4.conf.eth0.rp_filter"}); ok {
			want = w.Value.Text
		}
		if want != c.systemd {
			t.Errorf("%s: the winner is %q, systemd-sysctl leaves %q", c.name, want, c.systemd)
		}
	}
}
