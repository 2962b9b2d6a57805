package linux

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/unit"
)

// linuxMachine is a machine of some files: open is hosttest.Mounted, where what is not
// there is absent, or hosttest.Copy, where that is unknown.
func linuxMachine(t *testing.T, open func(testing.TB, map[string]string) *host.Host, files map[string]string) *platform.Subject {
	t.Helper()
	h := open(t, files)
	return platform.NewSubject(t.Context(), h, setting.Kernel(h), slices.Concat(platform.Facts(), Sources()))
}

// expect compares answers: a value, nil for absent, or an error's text for
// unknown.
func expect(t *testing.T, s *platform.Subject, want map[string]any) {
	t.Helper()
	for input, w := range want {
		got := s.Answer(input)
		if text, ok := w.(error); ok {
			if !strings.Contains(got.Unknown, text.Error()) {
				t.Errorf("%s is %+v, want it unknown because of %q", input, got, text)
			}
			continue
		}
		if got.Unknown != "" || !same(got.Value, w) {
			t.Errorf("%s is %#v (unknown: %s), want %#v", input, got.Value, got.Unknown, w)
		}
	}
}

func same(a, b any) bool {
	x, ok := a.([]string)
	y, both := b.([]string)
	if ok && both {
		return slices.Equal(x, y)
	}
	return a == b
}

type unknown string

func (u unknown) Error() string { return string(u) }

func TestSysctls(t *testing.T) {
	files := map[string]string{
		"proc/sys/vm/swappiness":          "60\n",
		"proc/sys/vm/dirty_ratio":         "20\n",
		"proc/sys/kernel/sem":             "32000\t1024000000\t500\t32000\n",
		"proc/sys/net/ipv4/conf/eth0/foo": "1\n",
		"proc/sys/net/ipv4/conf/lo/foo":   "0\n",
		"usr/lib/sysctl.d/10-vendor.conf": "vm.dirty_ratio = 20\nvm.swappiness = 30\n",
		"etc/sysctl.d/90-db.conf":         "# ours\nvm.swappiness=10\nkernel.sem = 32000 1024000000 500 32000\nnet.ipv4.conf.*.foo = 1\nvm.not_here = 5\n",
	}
	s := linuxMachine(t, machine.Mounted, files)
	items, why := s.Items("sysctls")
	if want := []string{"kernel.sem", "net.ipv4.conf.eth0.foo", "net.ipv4.conf.lo.foo", "vm.dirty_ratio", "vm.not_here", "vm.swappiness"}; why != "" || !slices.Equal(items, want) {
		t.Fatalf("the sysctls are %v (%s), want %v", items, why, want)
	}
	expect(t, s, map[string]any{
		"sysctls.vm.swappiness.claimed": "10", "sysctls.vm.swappiness.running": "60", "sysctls.vm.swappiness.same": false,
		"sysctls.vm.swappiness.administrator": true, "sysctls.vm.swappiness.losers": []string{"/usr/lib/sysctl.d/10-vendor.conf:2"},
		"sysctls.vm.dirty_ratio.same": true, "sysctls.vm.dirty_ratio.administrator": false,
		"sysctls.kernel.sem.same":             true,
		"sysctls.net.ipv4.conf.eth0.foo.same": true, "sysctls.net.ipv4.conf.lo.foo.same": false,
		"sysctls.vm.not_here.running": nil, "sysctls.vm.not_here.same": nil,
	})
	if at := s.Answer("sysctls.vm.swappiness.same").At; at != "/etc/sysctl.d/90-db.conf:2" {
		t.Errorf("the winner is said to be at %s", at)
	}

	// In a copy that lacks a directory it is unknown whether the line there wins;
	// what is as one line says passes anyway.
	delete(files, "usr/lib/sysctl.d/10-vendor.conf")
	s = linuxMachine(t, machine.Copy, files)
	expect(t, s, map[string]any{"sysctls.vm.swappiness.same": unknown("not in this copy"), "sysctls.kernel.sem.same": true})
	// A file that was not read may have the last line of any key: that is one unknown.
	files["etc/sysctl.d/95-huge.conf"] = strings.Repeat("x", 1<<20)
	s = linuxMachine(t, machine.Mounted, files)
	if items, why := s.Items("sysctls"); len(items) > 0 || !strings.HasPrefix(why, "/etc/sysctl.d/95-huge.conf: not read: the file has 1 MiB") {
		t.Errorf("with a file that is not read the set is %v (%q), want unknown", items, why)
	}
	s = linuxMachine(t, machine.Copy, map[string]string{"proc/sys/vm/swappiness": "60\n"})
	if _, why := s.Items("sysctls"); !strings.Contains(why, "not in this copy") {
		t.Errorf("without any file the set is %q, want unknown", why)
	}
}

func TestHugePools(t *testing.T) {
	dir := "sys/kernel/mm/hugepages/hugepages-"
	files := map[string]string{"proc/meminfo": "MemTotal: 1000 kB\nHugepagesize:    2048 kB\n", "etc/sysctl.d/huge.conf": "vm.nr_hugepages=8192\n",
		"proc/sys/vm/nr_hugepages": "7000\n", "proc/cmdline": "quiet hugepagesz=1G hugepages=4\n"}
	for size, n := range map[string]string{"2048kB": "7000", "1048576kB": "4"} {
		for name, v := range map[string]string{"nr_hugepages": n, "free_hugepages": "0", "resv_hugepages": "0", "surplus_hugepages": "0", "nr_overcommit_hugepages": "0"} {
			files[dir+size+"/"+name] = v + "\n"
		}
	}
	s := linuxMachine(t, machine.Mounted, files)
	expect(t, s, map[string]any{
		"hugepools.2048kB.asked": 8192.0, "hugepools.2048kB.obtained": 7000.0, "hugepools.1048576kB.asked": 4.0, "hugepools.1048576kB.obtained": 4.0,
		"hugepools.sizes": []string{"2048kB", "1048576kB"},
	})
	if at := s.Answer("hugepools.2048kB.asked").At; at != "/etc/sysctl.d/huge.conf:1" {
		t.Errorf("asked for at %s", at)
	}
}

func TestUsage(t *testing.T) {
	s := linuxMachine(t, machine.Mounted, map[string]string{
		"proc/sys/fs/file-nr":  "2560\t10\t9223372036854775807\n",
		"proc/pressure/memory": "some avg10=1.00 avg60=2.00 avg300=3.50 total=12\nfull avg10=0.00 avg60=0.10 avg300=0.25 total=3\n",
		"proc/vmstat":          "pswpin 300\npswpout 700\noom_kill 2\n",
		"proc/uptime":          "1000.00 1.00\n",
		"proc/1/comm":          "systemd\n", "proc/77/comm": "haproxy\n", "proc/78/comm": "haproxy\n",
	})
	expect(t, s, map[string]any{
		"usage.files_open": 2550.0, "usage.files_max": float64(math.MaxInt64),
		"pressure.memory_some_percent": 3.5, "pressure.memory_full_percent": 0.25, "pressure.io_full_percent": nil,
		"activity.swap_pages_per_s": 1.0, "activity.oom_kills": 2.0,
		"programs.running": []string{"haproxy", "systemd"},
	})
	s = linuxMachine(t, machine.Copy, map[string]string{"proc/sys/fs/file-nr": "many\n", "etc/hostname": "x"})
	expect(t, s, map[string]any{
		"usage.files_open": unknown("three numbers"), "activity.oom_kills": unknown("/proc/vmstat is not in this copy"),
		"pressure.cpu_some_percent": unknown("/proc/pressure/cpu is not in this copy"), "programs.running": unknown("no processes"),
	})
}

func TestProcesses(t *testing.T) {
	files := map[string]string{
		"sys/devices/system/node/node0/cpulist": "0-1\n", "sys/devices/system/node/node1/cpulist": "2-3\n",
		"sys/devices/system/node/node0/meminfo": "Node 0 MemTotal: 33554432 kB\nNode 0 MemFree: 1048576 kB\n", "sys/devices/system/node/node1/meminfo": "Node 1 MemTotal: 16777216 kB\nNode 1 MemFree: 4194304 kB\n",
		"proc/10/status":    "Name:\tpostgres\nVmRSS:\t 8388608 kB\nCpus_allowed_list:\t0-3\n",
		"proc/10/numa_maps": "7f00 default anon=1000 N0=750 N1=250 kernelpagesize_kB=4\n7f10 default file=/x N0=0 N1=0\n",
		"proc/11/status":    "Name:\tqemu\nVmRSS:\t 4194304 kB\nCpus_allowed_list:\t2-3\n",
		"proc/11/numa_maps": "7f00 default huge N0=3 N1=1 kernelpagesize_kB=2048\n",
		"proc/13/status":    "Name:\tjava\nVmRSS:\t 2097152 kB\n",
		"proc/13/numa_maps": "7f00 default anon=1000 N0=750 N1=250 kernelpagesize_kB=4\n",
		"proc/12/status":    "Name:\tbash\nVmRSS:\t 4000 kB\nCpus_allowed_list:\t0-3\n",
	}
	s := linuxMachine(t, machine.Mounted, files)
	if items, why := s.Items("processes"); why != "" || !slices.Equal(items, []string{"postgres[10]", "qemu[11]", "java[13]"}) {
		t.Fatalf("the big processes are %v (%s)", items, why)
	}
	expect(t, s, map[string]any{
		"processes.postgres[10].local_percent": 75.0, "processes.postgres[10].bound": false, "processes.postgres[10].node_bytes": 17179869184.0,
		"processes.postgres[10].nodes": "0-1", "processes.java[13].nodes": unknown("the CPUs that the process may use"), "processes.java[13].room": "node 1 has 4 GiB free",
		"processes.qemu[11].local_percent": 25.0, "processes.qemu[11].bound": true, "processes.qemu[11].resident_bytes": 4294967296.0,
		"processes.java[13].local_percent": unknown("the CPUs that the process may use"), "processes.java[13].bound": unknown("the CPUs that the process may use"),
	})
	for name := range files {
		if strings.HasPrefix(name, "sys/devices/system/node/node1") {
			delete(files, name)
		}
	}
	s = linuxMachine(t, machine.Mounted, files)
	if items, why := s.Items("processes"); why != "" || len(items) > 0 {
		t.Errorf("with one node the processes are %v (%s), want none", items, why)
	}
}

func TestLocalShare(t *testing.T) {
	cpus := func(list string) unit.CPUSet {
		s, err := unit.ParseCPUList(list)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	nodes := map[int]unit.CPUSet{0: cpus("0-7"), 1: cpus("8-15"), 2: cpus("")} // the third has memory only
	for _, c := range []struct {
		name    string
		bytes   map[int]float64
		allowed string
		percent float64
		bound   bool
	}{
		{"free, aligned", map[int]float64{0: 100}, "0-15", 100, false},
		{"free, spread", map[int]float64{0: 50, 1: 50}, "0-15", 50, false},
		{"bound and near", map[int]float64{1: 9, 0: 1}, "8-9", 90, true},
		{"bound and far", map[int]float64{2: 9, 1: 1}, "8-15", 10, true},
		{"no memory", nil, "0-15", 100, false},
	} {
		if p, b := localShare(c.bytes, nodes, cpus(c.allowed)); p != c.percent || b != c.bound {
			t.Errorf("%s: %v %v, want %v %v", c.name, p, b, c.percent, c.bound)
		}
	}
}

func TestTunnels(t *testing.T) {
	dev := func(name, uevent, mtu string) map[string]string {
		d := "sys/class/net/" + name + "/"
		return map[string]string{d + "uevent": uevent, d + "mtu": mtu, d + "type": "1", d + "carrier": "1", d + "operstate": "up"}
	}
	files := map[string]string{"sys/class/net/eth0/device": "-> ../../../devices/pci0/eth0", "sys/class/net/eth0/speed": "25000\n", "sys/devices/pci0/eth0/vendor": "0x8086\n"}
	for _, m := range []map[string]string{
		dev("eth0", "", "1500"), dev("flannel.1", "DEVTYPE=vxlan\n", "1450"), dev("genev_sys_6081", "DEVTYPE=geneve\n", "65000"), dev("ovn-k8s-mp0", "", "1400"),
	} {
		for k, v := range m {
			files[k] = v + "\n"
		}
	}
	s := linuxMachine(t, machine.Mounted, files)
	if items, why := s.Items("tunnels"); why != "" || !slices.Equal(items, []string{"flannel.1", "genev_sys_6081", "ovn-k8s-mp0"}) {
		t.Fatalf("the tunnels are %v (%s)", items, why)
	}
	expect(t, s, map[string]any{
		"tunnels.flannel.1.mtu_bytes": 1450.0, "tunnels.flannel.1.overhead_bytes": 50.0, "tunnels.flannel.1.uplink_mtu_bytes": 1500.0,
		"tunnels.flannel.1.uplinks": []string{"eth0"}, "tunnels.flannel.1.uplink_bits_per_second": 25e9,
		"tunnels.genev_sys_6081.mtu_bytes": nil, "tunnels.ovn-k8s-mp0.mtu_bytes": 1400.0, "tunnels.ovn-k8s-mp0.overhead_bytes": 100.0,
		"tunnels.flannel.1.without_offload": unknown("eth0"), // the mount has no netlink
	})
}

// A copy may have the state of a device and not its carrier.
func TestUplinkOfACopy(t *testing.T) {
	for state, want := range map[string]any{"up\n": 1500.0, "down\n": nil} {
		s := linuxMachine(t, machine.Copy, map[string]string{
			"sys/class/net/eth0/device/driver": "-> ../../../../bus/pci/drivers/mlx5_core", "sys/class/net/eth0/mtu": "1500\n", "sys/class/net/eth0/operstate": state,
			"sys/class/net/tun0/mtu": "1450\n", "sys/class/net/vxlan_sys_4789/mtu": "65000\n",
		})
		expect(t, s, map[string]any{"tunnels.tun0.uplink_mtu_bytes": want, "tunnels.tun0.mtu_bytes": 1450.0})
	}
}

func TestUnits(t *testing.T) {
	const limits = "Limit                     Soft Limit           Hard Limit           Units     \n" +
		"Max open files            1024                 4096                 files     \nMax core file size        0                    unlimited            bytes     \n"
	files := map[string]string{
		"usr/lib/systemd/system/web.service":                    "[Service]\nExecStart=/bin/web\nLimitNOFILE=1024\nLimitCORE=infinity\n",
		"etc/systemd/system/web.service.d/limits.conf":          "# more\n[Service]\nLimitNOFILE=65536\n",
		"usr/lib/systemd/system/big.service":                    "[Service]\nLimitNOFILE=infinity\n",
		"usr/lib/systemd/system/idle.service":                   "[Service]\nLimitNOFILE=5\n",
		"sys/fs/cgroup/system.slice/web.service/cgroup.procs":   "77\n78\n",
		"sys/fs/cgroup/system.slice/big.service/cgroup.procs":   "79\n",
		"sys/fs/cgroup/system.slice/idle.service/cgroup.procs":  "",
		"sys/fs/cgroup/system.slice/run-1.service/cgroup.procs": "80\n",
		"proc/77/limits": limits, "proc/79/limits": strings.Replace(limits, "4096   ", "1048576", 1), "proc/sys/fs/nr_open": "1048576\n",
	}
	s := linuxMachine(t, machine.Mounted, files)
	if items, why := s.Items("units"); why != "" || !slices.Equal(items, []string{"big.service LimitNOFILE", "web.service LimitCORE", "web.service LimitNOFILE"}) {
		t.Fatalf("the limits are of %q (%s)", items, why)
	}
	expect(t, s, map[string]any{
		"units.web.service LimitNOFILE.claimed": "65536", "units.web.service LimitNOFILE.running": "4096", "units.web.service LimitNOFILE.same": false,
		"units.web.service LimitCORE.claimed": "unlimited", "units.web.service LimitCORE.same": true,
		"units.big.service LimitNOFILE.claimed": "1048576", "units.big.service LimitNOFILE.same": true,
	})
	if at := s.Answer("units.web.service LimitNOFILE.same").At; at != "/etc/systemd/system/web.service.d/limits.conf:3" {
		t.Errorf("the line is said to be %s", at)
	}
	delete(files, "proc/79/limits")
	s = linuxMachine(t, machine.Copy, files)
	expect(t, s, map[string]any{"units.big.service LimitNOFILE.same": unknown("not recorded")})
	for name := range files {
		if strings.HasPrefix(name, "usr/lib/") {
			delete(files, name)
		}
	}
	s = linuxMachine(t, machine.Copy, files)
	expect(t, s, map[string]any{"units.web.service.same": unknown("the file of web.service"), "units.web.service LimitNOFILE.same": false, "units.big.service.same": unknown("big.service")})
}

func TestFilesystems(t *testing.T) {
	s := linuxMachine(t, machine.Mounted, map[string]string{
		"proc/1/mountinfo":                  "20 1 8:1 / / rw - xfs /dev/sda1 rw\n21 20 8:17 / /var/lib/containers rw - xfs /dev/sdb1 rw\n22 20 0:50 / /var/lib/pulp rw - nfs4 filer:/pulp rw\n",
		"sys/block/sda/size":                "41943040\n",
		"sys/block/sda/queue/rotational":    "1\n",
		"sys/block/sda/sda1/partition":      "1\n",
		"sys/block/sda/sda1/size":           "20971520\n",
		"sys/block/sda/sda1/start":          "2048\n",
		"sys/block/sda/sda1/dev":            "8:1\n",
		"sys/block/sdb/size":                "419430400\n",
		"sys/block/sdb/queue/rotational":    "0\n",
		"sys/block/sdb/sdb1/partition":      "1\n",
		"sys/block/sdb/sdb1/size":           "419428352\n",
		"sys/block/sdb/sdb1/start":          "2048\n",
		"sys/block/sdb/sdb1/dev":            "8:17\n",
		"sys/dev/block/8:1":                 "-> ../../block/sda/sda1",
		"sys/dev/block/8:17":                "-> ../../block/sdb/sdb1",
		"var/lib/containers/storage/marker": "",
		"var/lib/pulp/marker":               "",
		"var/log/messages":                  "",
	})
	expect(t, s, map[string]any{
		"filesystems./var/log.mount": "/", "filesystems./var/log.device_bytes": 20971520.0 * 512, "filesystems./var/log.rotational": true,
		"filesystems./var/lib/containers.mount": "/var/lib/containers", "filesystems./var/lib/containers.device_bytes": 419428352.0 * 512,
		"filesystems./var/lib/containers.rotational": false,
		"filesystems./var/lib/pulp.type":             "nfs4", "filesystems./var/lib/pulp.device_bytes": nil,
		"filesystems./var/lib/etcd.type": nil,
	})
}

func TestTuning(t *testing.T) {
	enabled := map[string]string{
		"etc/tuned/active_profile": "throughput-performance\n", "usr/lib/systemd/system/tuned.service": "[Service]\n",
		"etc/systemd/system/multi-user.target.wants/tuned.service": "-> /usr/lib/systemd/system/tuned.service",
	}
	s := linuxMachine(t, machine.Mounted, enabled)
	expect(t, s, map[string]any{"tuning.profile": "throughput-performance", "tuning.local_profile": "throughput-performance", "tuning.by": "TuneD", "tuning.tuners": []string{"TuneD"}})

	s = linuxMachine(t, machine.Mounted, enabled)
	s.InForce = func() ([]string, error) { return []string{"virtual-guest", "own"}, nil }
	expect(t, s, map[string]any{"tuning.profile": "virtual-guest own", "tuning.by": "fettle", "tuning.tuners": []string{"TuneD", "fettle"}})

	s = linuxMachine(t, machine.Mounted, map[string]string{"etc/hostname": "x"})
	expect(t, s, map[string]any{"tuning.profile": nil, "tuning.tuners": []string{}})
	s.InForce = nil

	// numad holds two settings: it counts where the profiles in force set one of them.
	enabled["usr/lib/systemd/system/numad.service"] = "[Service]\n"
	enabled["etc/systemd/system/multi-user.target.wants/numad.service"] = "-> /usr/lib/systemd/system/numad.service"
	expect(t, linuxMachine(t, machine.Mounted, enabled), map[string]any{"tuning.tuners": unknown("numad is also in force")})
	for planned, want := range map[string][]string{"/proc/sys/vm/swappiness": {"TuneD"}, "/proc/sys/kernel/numa_balancing": {"TuneD", "numad"}, "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs": {"TuneD", "numad"}} {
		s := linuxMachine(t, machine.Mounted, enabled)
		s.Planned = func(_ context.Context, profiles []string) ([]string, error) {
			return []string{planned}, nil
		}
		expect(t, s, map[string]any{"tuning.tuners": want})
	}
	delete(enabled, "etc/systemd/system/multi-user.target.wants/tuned.service")
	delete(enabled, "etc/tuned/active_profile")
	expect(t, linuxMachine(t, machine.Mounted, enabled), map[string]any{"tuning.tuners": []string{}})

	pod := map[string]string{"proc/2411/comm": "tuned\n", "proc/2411/cmdline": "/usr/bin/python3\x00/usr/sbin/tuned\x00--no-dbus\x00", "proc/2411/status": "Name:\ttuned\nUid:\t0\t0\t0\t0\nNSpid:\t2411\n"}
	expect(t, linuxMachine(t, machine.Mounted, pod), map[string]any{"tuning.profile": unknown("in a container"), "tuning.by": unknown("process 2411"), "tuning.local_profile": nil, "tuning.tuners": []string{"TuneD"}})
	pod["etc/tuned/active_profile"] = "\n"
	expect(t, linuxMachine(t, machine.Mounted, pod), map[string]any{"tuning.profile": nil})

	s = linuxMachine(t, machine.Copy, map[string]string{"proc/cmdline": "quiet"})
	expect(t, s, map[string]any{"tuning.profile": unknown("/etc/tuned/active_profile is not in this copy")})
}

var _ fact.MachineTree = (*platform.Subject)(nil)

func FuzzParsers(f *testing.F) {
	for _, seed := range []string{
		"7f00 default anon=1000 N0=750 N1=250 kernelpagesize_kB=4\n", "Name:\tpostgres\nVmRSS:\t 8388608 kB\n", "N0=-1 N99999999=1 kernelpagesize_kB=0\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for node, b := range parseNumaMaps(text, 4096) {
			if node < 0 || b < 0 || math.IsInf(b, 0) || math.IsNaN(b) {
				t.Errorf("numa_maps %q: node %d %v", text, node, b)
			}
		}
		host.StatusFields(text)
	})
}
