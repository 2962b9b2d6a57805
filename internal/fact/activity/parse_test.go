package activity

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// The texts are as the kernels named print them: by their source, and for 6.18 from a machine.
var parsed = []struct {
	name  string
	parse func(string, counters) error
	text  string
	want  map[string]float64 // "name" or "name item"
}{
	{"stat 4.18", parseStat, "cpu  200 0 100 500 50 0 30 120 0 0\ncpu0 100 0 50 250 25 0 15 60 0 0\ncpu1 100 0 50 250 25 0 15 60 0 0\nintr 7 1 2\nctxt 900\nbtime 1\nprocesses 4\nprocs_running 3\nprocs_blocked 2\nsoftirq 5 1 2\n",
		map[string]float64{"cpu.total": 10, "cpu.steal": 1.2, "cpu.busy": 3.3, "cpu.iowait": .5, "cpu.softirq": .3, "cpu.steal cpu1": .6, "cpus": 2, "ctxt": 900, "procs_running": 3, "procs_blocked": 2}},
	{"schedstat 15, 4.18 and 5.14", parseSchedstat, "version 15\ntimestamp 4295019123\ncpu0 0 0 0 0 0 0 11000000000 2000000000 90\ndomain0 3 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 12000000000 500000000 80\n",
		map[string]float64{"sched.delay": 2.5}},
	{"schedstat 17, 6.14 and later", parseSchedstat, "version 17\ntimestamp 4295019123\ncpu0 0 0 0 0 0 0 11000000000 2000000000 90\ndomain0 MC 3 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
		map[string]float64{"sched.delay": 2}},
	{"pressure of CPUs 4.20", parsePressure("cpu", ""), "some avg10=1.00 avg60=2.00 avg300=3.25 total=4000000\n",
		map[string]float64{"pressure.cpu.some": 4, "pressure.cpu.some.avg300": 3.25}},
	{"pressure of CPUs 5.14", parsePressure("cpu", ""), "some avg10=1.00 avg60=2.00 avg300=3.25 total=4000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
		map[string]float64{"pressure.cpu.some": 4, "pressure.cpu.full": 0}},
	{"pressure of a cgroup", parsePressure("io", "/a"), "some avg10=0.00 avg60=0.00 avg300=0.00 total=500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=250000\n",
		map[string]float64{"pressure.io.some /a": .5, "pressure.io.full /a": .25}},
	{"vmstat 4.18", parseKeyed(vmEvents, "", 1), "nr_free_pages 5\npswpin 7\npswpout 9\nallocstall_dma 0\nallocstall_normal 3\nallocstall_movable 4\npgmajfault 6\noom_kill 2\n",
		map[string]float64{"swap.in": 7, "swap.out": 9, "reclaims": 7, "major_faults": 6, "oom_kills": 2}},
	{"vmstat before 4.13", parseKeyed(vmEvents, "", 1), "nr_free_pages 5\npgmajfault 6\nallocstall 9\n",
		map[string]float64{"major_faults": 6}},
	{"diskstats 3.10, 14 fields", parseDiskstats, " 253       0 vda 100 0 800 500 300 0 2400 1500 0 1600 2000\n",
		map[string]float64{"disk.ios vda": 400, "disk.wait vda": 2, "disk.busy vda": 1.6, "disk.queue vda": 2}},
	{"diskstats 4.18, 18 fields", parseDiskstats, " 253       0 vda 100 0 800 500 300 0 2400 1500 0 1600 2000 0 0 0 0\n 253       1 vda1 1 0 8 5 3 0 24 15 0 16 20 0 0 0 0\n",
		map[string]float64{"disk.ios vda": 400, "disk.ios vda1": 4}},
	{"diskstats 5.14 and 6.18, 20 fields", parseDiskstats, " 254       0 vda 32942 5960 1704106 4286 97465 152137 16243872 124122 0 11456 132015 60300 44 6858440 3009 18759 596\n",
		map[string]float64{"disk.ios vda": 130407, "disk.wait vda": 128.408, "disk.busy vda": 11.456, "disk.queue vda": 132.015}},
	{"softnet 4.18, 11 columns", parseSoftnet, "0000000a 00000002 00000001 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000\n00000010 00000001 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000\n",
		map[string]float64{"softnet.packets": 26, "softnet.dropped": 3, "softnet.squeezed": 1}},
	{"softnet 6.18, 15 columns", parseSoftnet, "00014a8b 00000000 00000004 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000\n",
		map[string]float64{"softnet.packets": 84619, "softnet.dropped": 0, "softnet.squeezed": 4}},
	{"net dev", parseNetDev, "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n  eth0: 700 31 1 2 0 0 0 0 900 25 4 3 0 0 0 0\n",
		map[string]float64{"net.packets eth0": 56, "net.dropped eth0": 5, "net.errors eth0": 5}},
	{"snmp", parseSNMP("Tcp", map[string]string{"OutSegs": "sent", "RetransSegs": "again"}), "Ip: Forwarding DefaultTTL\nIp: 1 64\nTcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs RetransSegs InErrs OutRsts InCsumErrors\nTcp: 1 200 120000 -1 3770 3709 32 2742 0 153730 151035 32 0 2274 0\n",
		map[string]float64{"sent": 151035, "again": 32}},
	{"netstat 4.18 and 6.18 differ in columns", parseSNMP("TcpExt", map[string]string{"ListenOverflows": "over"}), "TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPPureAcks\nTcpExt: 0 7 8 9\nIpExt: InNoRoutes\nIpExt: 1\n",
		map[string]float64{"over": 7}},
	{"conntrack 4.18", parseConntrack, "entries  searched found new invalid ignore delete delete_list insert insert_failed drop early_drop icmp_error  expect_new expect_create expect_delete search_restart\n00000009  00000000 00000000 00000000 00000001 00000005 00000000 00000000 00000000 00000001 0000000a 00000002 00000000  00000000 00000000 00000000 00000000\n",
		map[string]float64{"conntrack.dropped": 13}},
	{"conntrack 6.18", parseConntrack, "entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop icmp_error  expect_new expect_create expect_delete search_restart\n00000000  00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000001 00000000 00000000  00000000 00000000 00000000 00000000\n00000000  00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000001 00000000 00000000  00000000 00000000 00000000 00000000\n",
		map[string]float64{"conntrack.dropped": 2}},
	{"file-nr", parseFileNr, "3267\t0\t9223372036854775807\n", map[string]float64{"files.used": 3267, "files.limit": 9223372036854775807}},
	{"loadavg", parseLoadavg, "9.69 4.92 2.46 24/175 13729\n", map[string]float64{"tasks.used": 175}},
	{"uptime", parseFirst("uptime", ""), "12.50 20.00\n", map[string]float64{"uptime": 12.5}},
	{"tcp", listening, "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   0: 0100007F:1F90 00000000:0000 0A 00000000:00000081 00:00000000 00000000     0        0 126 1 00000000a613c96f 100 0 0 10 0\n   1: 0100007F:1F90 0100007F:A1B2 01 00000000:00000400 00:00000000 00000000     0        0 0 1 00000000a613c96f 20 4 0 10 -1\n",
		map[string]float64{"listen.waiting 8080": 129}},
	{"tcp6", listening, "   0: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A 00000000:00000002 00:00000000 00000000     0        0 25 1 0000000000000000 100 0 0 10 0\n",
		map[string]float64{"listen.waiting 22": 2}},
	{"cpu.stat of version 1, 4.18", parseThrottling("/a"), "nr_periods 40\nnr_throttled 30\nthrottled_time 1500000000\n",
		map[string]float64{"cgroup.periods /a": 40, "cgroup.throttled /a": 30, "cgroup.throttled_s /a": 1.5}},
	{"cpu.stat of version 1, 6.18", parseThrottling("/a"), "nr_periods 40\nnr_throttled 30\nthrottled_time 1500000000\nnr_bursts 0\nburst_time 0\n",
		map[string]float64{"cgroup.throttled_s /a": 1.5}},
	{"cpu.stat of version 2, 5.14", parseThrottling("/a"), "usage_usec 1\nuser_usec 1\nsystem_usec 0\nnr_periods 40\nnr_throttled 30\nthrottled_usec 1500000\nnr_bursts 0\nburst_usec 0\n",
		map[string]float64{"cgroup.periods /a": 40, "cgroup.throttled_s /a": 1.5}},
	{"cpu.stat without a limit", parseThrottling("/a"), "usage_usec 1\nuser_usec 1\nsystem_usec 0\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n", map[string]float64{"cgroup.periods /a": 0}},
	{"memory.events", parseKeyed(map[string]string{"oom_kill": "kills"}, "/a", 1), "low 0\nhigh 5\nmax 6\noom 1\noom_kill 1\noom_group_kill 0\n", map[string]float64{"kills /a": 1}},
	{"pids.max", parseLimit("limit", "/a"), "max\n", nil},
	{"pids.max with a limit", parseLimit("limit", "/a"), "100\n", map[string]float64{"limit /a": 100}},
}

func TestParse(t *testing.T) {
	for _, c := range parsed {
		got := counters{}
		if err := c.parse(c.text, got); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.want == nil && len(got) > 0 {
			t.Errorf("%s: %v", c.name, got)
		}
		for name, want := range c.want {
			name, item, _ := strings.Cut(name, " ")
			v, has := got[counter{name, item}]
			if !has || v < want-1e-9 || v > want+1e-9 {
				t.Errorf("%s: %s of %q is %v (%t), want %v", c.name, name, item, v, has, want)
			}
		}
	}
}

// What is not in the kernel's format is an error, and no number.
func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		parse func(string, counters) error
		text  string
	}{
		{"stat", parseStat, "cpu0 1 2 3 4 5 6 7 8\n"},
		{"stat of words", parseStat, "cpu  a 2 3 4 5 6 7 8\n"},
		{"schedstat of a later version", parseSchedstat, "version 99\ncpu0 0 0 0 0 0 0 1 2 3\n"},
		{"schedstat without CPUs", parseSchedstat, "version 15\n"},
		{"pressure", parsePressure("cpu", ""), "some avg10=1.00 avg60=2.00 avg300=x total=4\n"},
		{"pressure over 100 %", parsePressure("cpu", ""), "some avg10=1.00 avg60=2.00 avg300=200 total=4\n"},
		{"an empty vmstat", parseKeyed(vmEvents, "", 1), ""},
		{"a negative number", parseKeyed(vmEvents, "", 1), "pswpin -1\n"},
		{"diskstats", parseDiskstats, "253 0 vda 1 2\n"},
		{"softnet", parseSoftnet, "xyz 0 0\n"},
		{"net dev", parseNetDev, "eth0: 1 2\n"},
		{"snmp of other columns", parseSNMP("Tcp", map[string]string{"OutSegs": "x"}), "Tcp: OutSegs InErrs\nTcp: 1\n"},
		{"conntrack without values", parseConntrack, "entries drop\n"},
		{"file-nr", parseFileNr, "1 2 3\n"},
		{"loadavg", parseLoadavg, "0.1 0.2 0.3 175 13\n"},
		{"uptime", parseFirst("uptime", ""), "NaN\n"},
	} {
		if err := c.parse(c.text, counters{}); err == nil {
			t.Errorf("%s: %q is accepted", c.name, c.text)
		}
	}
}

func TestProcess(t *testing.T) {
	p := &process{}
	threads, err := parseProcess("5608 (a) b) S 5590 5590 8971 0 -1 4194304 102 0 7 0 150 50 0 0 20 0 3 0 100147 3133440 417 18446744073709551615 9 9 1 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 9 9 9 1 2 2 2 0\n", p)
	if err != nil || threads != 3 || p.command != "a) b" || p.start != "100147" || p.cpu != 2 || p.faults != 7 || p.rss != 417 {
		t.Errorf("%+v, %d threads, %v", p, threads, err)
	}
	if delay, err := parseDelay("1500 2500000000 3\n"); delay != 2.5 || err != nil {
		t.Error(delay, err)
	}
	if limit, err := parseFileLimit("Limit                     Soft Limit           Hard Limit           Units     \nMax open files            1024                 524288               files     \n"); limit != 1024 || err != nil {
		t.Error(limit, err)
	}
}

func TestNames(t *testing.T) {
	const (
		id    = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
		other = "b66a9ebe1cb173712dd622346e778c9dd576f065fe25413cfdd274dedc8d82a8"
	)
	for _, c := range []struct{ text, cgroup, unit, container string }{
		{"0::/system.slice/httpd.service\n", "/system.slice/httpd.service", "httpd.service", ""},
		{"0::/\n", "", "", ""},
		{"4:memory:/x\n1:name=systemd:/system.slice/a.service/sub\n0::/\n", "/system.slice/a.service/sub", "a.service", ""},
		{"4:memory:/x/y\n1:cpu:/\n0::/\n", "/x/y", "", ""},
		{"3:cpu,cpuacct:/docker/" + id + "\n1:name=systemd:/docker/" + id + "\n", "/docker/" + id, "", id[:12]},
		{"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + id + ".scope\n", "/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + id + ".scope", "cri-containerd-" + id + ".scope", id[:12]},
		{"0::/machine.slice/libpod-" + id + ".scope/container\n", "/machine.slice/libpod-" + id + ".scope/container", "libpod-" + id + ".scope", id[:12]},
		// A machine with both versions, where runc 1.0 uses only the first one.
		{"1:name=systemd:/docker/" + id + "\n0::/system.slice/containerd.service\n", "/docker/" + id, "", id[:12]},
		// A container in Podman's pod, and the monitor of a container.
		{"0::/machine.slice/machine-libpod_pod_" + other + ".slice/libpod-" + id + ".scope\n", "/machine.slice/machine-libpod_pod_" + other + ".slice/libpod-" + id + ".scope", "libpod-" + id + ".scope", id[:12]},
		{"0::/libpod_parent/" + other + "/libpod-" + id + "\n", "/libpod_parent/" + other + "/libpod-" + id, "", id[:12]},
		{"0::/machine.slice/libpod-conmon-" + id + ".scope\n", "/machine.slice/libpod-conmon-" + id + ".scope", "libpod-conmon-" + id + ".scope", ""},
		{"0::/docker/" + other + "/kubelet/kubepods/pod1/" + id + "\n", "/docker/" + other + "/kubelet/kubepods/pod1/" + id, "", other[:12]},
	} {
		got := CgroupOf(c.text)
		if got != c.cgroup || Unit(got) != c.unit || Container(got) != c.container {
			t.Errorf("%q: cgroup %q, unit %q, container %q", c.text, got, Unit(got), Container(got))
		}
	}
}

// A hostile text is refused or gives numbers that are not negative; it never panics.
func FuzzParse(f *testing.F) {
	for _, c := range parsed {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range parsed {
			got := counters{}
			_ = c.parse(text, got)
			for _, v := range slices.Collect(maps.Values(got)) {
				if !(v >= 0) {
					t.Errorf("%s: %v of %q", c.name, got, text)
				}
			}
		}
		_, _ = parseProcess(text, &process{})
		_, _ = parseDelay(text)
		_ = parseMutexWait(text)
		_, _ = parseFileLimit(text)
		_, _, _ = CgroupOf(text), Unit(text), Container(text)
	})
}

func FuzzKernel(f *testing.F) {
	for _, seed := range []string{"2560\t0\t9223372036854775807\n", "some avg10=1.00 avg60=2.00 avg300=3.50 total=12\n", "pswpin 300\noom_kill 2\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if used, limit, err := ParseFileNr(text); err == nil && (used < 0 || limit < 0) {
			t.Errorf("file-nr %q: %v of %v", text, used, limit)
		}
		lines, _ := ParsePressure(text)
		for kind, p := range lines {
			if !(p.Avg300Percent >= 0 && p.Avg300Percent <= 100) || p.TotalS < 0 || kind != "some" && kind != "full" {
				t.Errorf("pressure %q: %s %+v", text, kind, p)
			}
		}
		values, _ := ParseKeyed(text)
		for name, n := range values {
			if n < 0 || name == "" {
				t.Errorf("counters %q: %q %v", text, name, n)
			}
		}
	})
}
