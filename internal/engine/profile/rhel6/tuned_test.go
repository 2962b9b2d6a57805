package rhel6

import (
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/machine"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// TestTunedRunsAnImport runs imported profiles with the distribution's TuneD on a simulated
// machine: TuneD accepts the files, the plug-ins do what ktune did, and the script is called as
// TuneD documents.
func TestTunedRunsAnImport(t *testing.T) {
	testkitroot.Real(t, "runs TuneD in the Debian test root")
	for _, c := range []struct {
		name  string
		want  map[string]string
		calls []string
	}{
		{"throughput-like", map[string]string{
			"/proc/sys/vm/dirty_ratio":                                 "40",
			"/proc/sys/vm/swappiness":                                  "30",
			"/sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "performance",
			"/sys/kernel/mm/transparent_hugepage/enabled":              "always",
			"/sys/block/sdb/queue/scheduler":                           "mq-deadline",
			"/sys/block/sdb/queue/read_ahead_kb":                       "512",
			"/sys/block/nvme0n1/queue/scheduler":                       "[none] mq-deadline kyber bfq",
		}, nil},
		{"powersave-like", map[string]string{
			"/proc/sys/vm/laptop_mode":               "5",
			"/proc/sys/vm/dirty_writeback_centisecs": "1500",
			"/proc/sys/kernel/nmi_watchdog":          "0",
			"/sys/class/rfkill/rfkill0/soft":         "1", // by the script
		}, []string{"hdparm -B 128 /dev/sda", "hdparm -S 6 /dev/sdb"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := rhel6Machine(t, "6.12.4", today...)
			r := importAt(t, root, place(t, root, c.name))
			m := testkitroot.NewMachine(t)
			machine.WriteFile(t, m.Dir, "/sys/class/rfkill/rfkill0/type", "bluetooth\n")
			machine.WriteFile(t, m.Dir, "/sys/class/rfkill/rfkill0/soft", "0\n")
			machine.WriteFile(t, m.Dir, "/proc/sys/vm/laptop_mode", "0\n")
			for _, dev := range []string{"06.0/net/eth0", "07.0/net/eth1"} { // what dynamic tuning reads
				for _, counter := range []string{"rx_bytes", "rx_packets", "tx_bytes", "tx_packets"} {
					machine.WriteFile(t, m.Dir, "/sys/devices/pci0000:00/0000:00:"+dev+"/statistics/"+counter, "0\n")
				}
			}
			files := map[string]string{}
			for _, f := range r.Files {
				files["/etc/tuned/"+r.Name+"/"+f.Path] = f.Data
			}
			inside := testkitroot.New(t, testkitroot.Options{Machine: m, Stubs: testkitroot.TunerStubs(), Files: files})
			inside.TunedOnce(r.Name)
			for p, want := range c.want {
				if got := strings.TrimSpace(inside.Must("cat", p)); got != want {
					t.Errorf("%s is %q, want %q", p, got, want)
				}
			}
			for _, l := range strings.Split(inside.TunedLog(), "\n") {
				// The root has neither Python's perf nor the bridge's module.
				if strings.Contains(l, " ERROR ") && !strings.Contains(l, "scheduler") && !strings.Contains(l, "'perf'") && !strings.Contains(l, "net.bridge.") {
					t.Errorf("TuneD says: %s", l)
				}
			}
			calls, err := inside.Calls()
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.calls {
				if !slices.ContainsFunc(calls, func(call []string) bool { return strings.Join(call, " ") == want }) {
					t.Errorf("TuneD did not call %q, but %q", want, calls)
				}
			}
		})
	}
}
