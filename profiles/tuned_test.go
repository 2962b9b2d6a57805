package profiles_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/root"
)

// unknownToOld are what the distribution's TuneD 2.20 complains of and today's
// knows: the plug-in acpi; the root has no perf for the scheduler plug-in. The
// percentages of [vm] dirty_bytes it passes over in silence.
var unknownToOld = []string{"plugin acpi", "plugin_acpi", "plugin scheduler", "'perf'"}

// TestTunedReadsOurProfiles lets the distribution's own TuneD apply our
// profiles to an invented machine: they are in its language to the letter, and
// what the slides' table asks for is what the machine has afterwards.
func TestTunedReadsOurProfiles(t *testing.T) {
	root.Real(t, "runs TuneD in the Debian test root")
	const (
		gov   = "/sys/devices/system/cpu/cpufreq/policy3/scaling_governor"
		queue = "/sys/block/sdb/queue/"
		thp   = "/sys/kernel/mm/transparent_hugepage/enabled"
		pool  = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
	)
	after := map[string]map[string]string{
		"throughput-performance": {"/proc/sys/vm/swappiness": "10", gov: "performance", queue + "scheduler": "mq-deadline", queue + "read_ahead_kb": "4096", "/sys/block/nvme0n1/queue/scheduler": "[none] mq-deadline kyber bfq", "/sys/block/nvme0n1/queue/read_ahead_kb": "4096"},
		"enterprise-storage":     {gov: "performance", queue + "scheduler": "mq-deadline", queue + "read_ahead_kb": "512", "/sys/block/nvme0n1/queue/read_ahead_kb": "512"},
		"virtual-host":           {"/proc/sys/vm/swappiness": "10", queue + "scheduler": "mq-deadline"},
		"virtual-guest":          {"/proc/sys/vm/swappiness": "30", queue + "scheduler": "mq-deadline"},
		"latency-performance":    {gov: "performance", thp: "never", queue + "scheduler": "mq-deadline"},
		"default":                {"/proc/sys/vm/swappiness": "60"},
		"postgresql":             {thp: "never", "/proc/sys/vm/swappiness": "3"},
		// These include the rest.
		"laptop-battery-powersave": {"/proc/sys/kernel/nmi_watchdog": "0", "/proc/sys/vm/dirty_writeback_centisecs": "1500"},
		"spindown-disk":            {"/proc/sys/vm/dirty_expire_centisecs": "9000"},
		"network-latency":          {"/proc/sys/net/core/busy_poll": "50", thp: "never"},
		"hugepages":                {pool: "1024", thp: "never"},
		"openshift-node":           {"/proc/sys/net/ipv4/tcp_fastopen": "3", "/proc/sys/net/ipv4/neigh/default/gc_thresh3": "65536", "/proc/sys/vm/max_map_count": "262144"},
	}
	files := map[string]string{}
	for _, name := range want {
		files["/etc/tuned/"+name+"/tuned.conf"] = read(t, name+"/tuned.conf")
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		t.Run(name, func(t *testing.T) {
			m := root.NewMachine(t)
			for _, dev := range []string{"06.0/net/eth0", "07.0/net/eth1"} { // what dynamic tuning reads
				for _, counter := range []string{"rx_bytes", "rx_packets", "tx_bytes", "tx_packets"} {
					machine.WriteFile(t, m.Dir, "/sys/devices/pci0000:00/0000:00:"+dev+"/statistics/"+counter, "0\n")
				}
			}
			r := root.New(t, root.Options{Machine: m, Stubs: root.TunerStubs(), Files: files})
			r.TunedOnce(name)
			for p, value := range after[name] {
				if got := strings.TrimSpace(r.Must("cat", p)); got != value {
					t.Errorf("%s is %q, want %q", p, got, value)
				}
			}
			log := r.TunedLog()
			if !strings.Contains(log, "static tuning from profile '"+name+"' applied") {
				t.Errorf("not applied:\n%s", log)
			}
			for _, l := range strings.Split(log, "\n") {
				if strings.Contains(l, " ERROR ") && !slices.ContainsFunc(unknownToOld, func(s string) bool { return strings.Contains(l, s) }) {
					t.Errorf("TuneD says: %s", l)
				}
			}
		})
	}
}
