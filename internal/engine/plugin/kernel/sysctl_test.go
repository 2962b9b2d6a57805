package kernel

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
)

func TestSysctlPlan(t *testing.T) {
	h := machine.Mounted(t, map[string]string{
		"/proc/sys/vm/swappiness":                         "60\n",
		"/proc/sys/kernel/core_pattern":                   "core\n",
		"/proc/sys/net/ipv4/tcp_rmem":                     "4096\t131072\t6291456\n",
		"/proc/sys/net/ipv4/conf/eth0.100/rp_filter":      "0\n",
		"/proc/sys/net/ipv4/neigh/lo/retrans_time":        "100\n",
		"/proc/sys/net/ipv4/neigh/lo/retrans_time_ms":     "1000\n",
		"/proc/sys/kernel/sched_domain/several":           "a\nb\n",
		"/proc/sys/net/ipv4/neigh/lo/base_reachable_time": "30\n",
	})
	for _, tt := range []struct{ line, want string }{
		{"vm.swappiness=10", "sysctl:vm.swappiness = 10"},
		{"vm/swappiness=10", "sysctl:vm/swappiness = 10"},
		{"vm.swappiness=>10", "sysctl:vm.swappiness = >10"},
		{"vm.swappiness=< 10", "sysctl:vm.swappiness = <10"},
		{`net.ipv4.tcp_rmem="4096 87380 16777216"`, "sysctl:net.ipv4.tcp_rmem = 4096 87380 16777216"},
		{"kernel.core_pattern=|/bin/false %e", "sysctl:kernel.core_pattern = |/bin/false %e"},
		{"net.ipv4.conf.eth0/100.rp_filter=1", "sysctl:net.ipv4.conf.eth0/100.rp_filter = 1"},
		{"kernel.core_pattern=", `sysctl:kernel.core_pattern ! rejected: "" is no value for kernel.core_pattern: want a value; writing nothing changes nothing`},
		{"net.ipv4.neigh.lo.retrans_time=5", "sysctl:net.ipv4.neigh.lo.retrans_time ! refused: retrans_time counts in units that differ from kernel to kernel (net/core/neighbour.c); set net.ipv4.neigh.lo.retrans_time_ms, in milliseconds"},
		{"net.ipv4.neigh.lo.base_reachable_time=5", "sysctl:net.ipv4.neigh.lo.base_reachable_time ! refused: base_reachable_time counts in units that differ from kernel to kernel (net/core/neighbour.c); set net.ipv4.neigh.lo.base_reachable_time_ms, in milliseconds"},
		{"net.ipv4.neigh.lo.retrans_time_ms=5", "sysctl:net.ipv4.neigh.lo.retrans_time_ms = 5"},
		{"kernel.sched_domain.several=a", "sysctl:kernel.sched_domain.several ! refused: the variable has several lines, which cannot be written back in one piece"},
		{"vm.swappiness=1\n2", "sysctl:vm.swappiness ! rejected: a value of several lines cannot be written in one piece"},
		{"vm.swappiness=7\n", "sysctl:vm.swappiness = 7"},
		{"vm.swappiness=\"7\"\r\n\n", "sysctl:vm.swappiness = 7"},
		{"vm.swappiness=\n", `sysctl:vm.swappiness ! rejected: "\n" is no value for vm.swappiness: want a value; writing nothing changes nothing`},
		{"vm.nothing=1", "sysctl:vm.nothing ! unsupported: this kernel has no vm.nothing"},
		{"vm.*=1", "sysctl:vm.* ! unsupported: this kernel has no vm.*"},
		{"kernel.sched_min_granularity_ns=1", "sysctl:kernel.sched_min_granularity_ns ! unsupported: this kernel has no kernel.sched_min_granularity_ns: since Linux 6.6 it is base_slice_ns, which [scheduler] sched_base_slice_ns sets"},
		{"net.netfilter.nf_conntrack_max=1", "sysctl:net.netfilter.nf_conntrack_max ! unsupported: this kernel has no net.netfilter.nf_conntrack_max: it comes with the module nf_conntrack, which is not loaded"},
		{"vm//swappiness=1", `sysctl:vm//swappiness ! rejected: sysctl "vm//swappiness": not a name below /proc/sys`},
		{"vm/../../etc/passwd=x", `sysctl:vm/../../etc/passwd ! refused: sysctl "vm/../../etc/passwd": leads outside /proc/sys/`},
	} {
		got := plugin.PlanPlugintest(t, Sysctl, h, plugin.Unit("sysctl", tt.line))
		if diff := cmp.Diff([]string{tt.want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.line, diff)
		}
	}
}
