package root

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestRootIsDebianAndStaysClean(t *testing.T) {
	r := New(t, Options{Files: map[string]string{"/etc/laid": "over\n"}, Net: false})
	if out := r.Must("sed", "-n", "s/^ID=//p", "/etc/os-release"); out != "debian\n" {
		t.Errorf("os-release: ID=%q", out)
	}
	if out := r.Must("cat", "/etc/laid"); out != "over\n" {
		t.Errorf("laid file: %q", out)
	}
	if out, code := r.Run("sh", "-c", "echo 1 >/proc/sys/vm/swappiness"); code == 0 {
		t.Errorf("a read-only root wrote a sysctl: %s", out)
	}
	r.Must("sh", "-c", "echo new >/etc/made; rm /etc/debian_version")
	written, err := r.Written()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(written, " "); got != "/etc/debian_version /etc/made" {
		t.Errorf("written: %s", got)
	}
	if _, err := os.Stat(Dir(t) + "/etc/made"); err == nil {
		t.Error("the cached tree was written")
	}
	if out := r.Must("ip", "-brief", "link"); strings.Count(out, "\n") != 1 {
		t.Errorf("network is not private:\n%s", out)
	}
}

func TestNothingOutlivesARoot(t *testing.T) {
	mark := "4711.1234"
	t.Run("start", func(t *testing.T) {
		r := New(t, Options{})
		r.Start("sleep", mark)
		if !Eventually(time.Minute, func() bool { return running(t, mark) }) {
			t.Fatal("program did not start")
		}
	})
	if !Eventually(time.Minute, func() bool { return !running(t, mark) }) {
		t.Error("a program outlived its root")
	}
}

// A live root has this machine's processes and settings, and still leaves no
// process behind.
func TestLiveRoot(t *testing.T) {
	const name = "/proc/sys/kernel/printk_ratelimit_burst"
	before, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	mark := "4712.1234"
	t.Run("write", func(t *testing.T) {
		r := New(t, Options{Live: true})
		t.Cleanup(func() {
			if err := os.WriteFile(name, before, 0); err != nil {
				t.Error(err)
			}
		})
		r.Must("sh", "-c", "echo 11 >"+name)
		if now, err := os.ReadFile(name); err != nil || string(now) != "11\n" {
			t.Errorf("this machine does not see the write: %q %v", now, err)
		}
		r.Start("sleep", mark)
		if !Eventually(time.Minute, func() bool { return running(t, mark) }) {
			t.Fatal("program did not start")
		}
	})
	if !Eventually(time.Minute, func() bool { return !running(t, mark) }) {
		t.Error("a program outlived its live root")
	}
}

func running(t *testing.T, argument string) bool {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err == nil && string(line) == "sleep\x00"+argument+"\x00" {
			return true
		}
	}
	return false
}

func TestStubsLogEachCall(t *testing.T) {
	r := New(t, Options{Stubs: map[string]string{"ethtool": `echo "answer to $1"; exit 3`}})
	out, code := r.Run("ethtool", "-K", "eth 0", "two\nlines", "")
	if out != "answer to -K\n" || code != 3 {
		t.Errorf("answer %q, exit %d", out, code)
	}
	r.Run("ethtool")
	calls, err := r.Calls()
	if err != nil {
		t.Fatal(err)
	}
	if len(calls) != 2 || strings.Join(calls[0], "|") != "ethtool|-K|eth 0|two\nlines|" || len(calls[1]) != 1 {
		t.Errorf("calls: %q", calls)
	}
}

func TestTunedAdmOverPrivateBus(t *testing.T) {
	b := NewBus(t, Options{Machine: NewMachine(t), Stubs: TunerStubs()})
	tuned := b.StartTuned("balanced")
	if out := b.Root.Must("tuned-adm", "active"); !strings.Contains(out, "balanced") {
		t.Errorf("tuned-adm active: %s", out)
	}
	if out := b.Root.Must("tuned-adm", "profile", "latency-performance"); out != "" {
		t.Logf("tuned-adm profile: %s", out)
	}
	if out := b.Root.Must("tuned-adm", "active"); !strings.Contains(out, "latency-performance") {
		t.Errorf("tuned-adm active: %s", out)
	}
	tuned.Signal("TERM")
	if b.Owned(TunedName) {
		t.Error("the name is still owned after tuned ended")
	}
}

// TestTunedTunesTheInventedMachine is the ground that comparisons with TuneD
// stand on: the real TuneD writes the invented machine and nothing else.
func TestTunedTunesTheInventedMachine(t *testing.T) {
	m := NewMachine(t)
	before, err := ReadTree(m.Dir)
	if err != nil {
		t.Fatal(err)
	}
	Undisturbed(t) // it looks at the machine's own values
	host := hostSettings(t)
	r := New(t, Options{Machine: m, Stubs: TunerStubs()})
	r.TunedOnce("throughput-performance")
	after, err := ReadTree(m.Dir)
	if err != nil {
		t.Fatal(err)
	}
	changed := map[string]string{}
	for _, d := range before.Diff(after) {
		t.Log(d)
		if d.Made || d.Gone {
			t.Errorf("not a change of a value: %s", d)
		}
		changed[d.Path] = strings.TrimSpace(d.After)
	}
	want := map[string]string{
		"/proc/sys/vm/dirty_ratio":                                                    "40",
		"/proc/sys/vm/swappiness":                                                     "10",
		"/proc/sys/vm/dirty_background_ratio":                                         "10",
		"/sys/devices/system/cpu/intel_pstate/min_perf_pct":                           "100",
		"/sys/devices/system/cpu/cpufreq/policy0/scaling_governor":                    "performance",
		"/sys/devices/system/cpu/cpufreq/policy7/scaling_governor":                    "performance",
		"/sys/devices/system/cpu/cpu3/power/energy_perf_bias":                         "0",
		"/sys/devices/pci0000:00/0000:00:04.0/nvme/nvme0/nvme0n1/queue/read_ahead_kb": "4096",
	}
	for name, value := range want {
		got, ok := changed[name]
		if !ok && strings.TrimSpace(after[name]) == value {
			continue // it was so before
		}
		if got != value {
			t.Errorf("%s: %q, want %q", name, got, value)
		}
	}
	if t.Failed() {
		t.Logf("tuned's log:\n%s", r.TunedLog())
	}
	for name, value := range hostSettings(t) {
		if host[name] != value {
			t.Errorf("this machine's own %s changed from %q to %q", name, host[name], value)
		}
	}
	calls, err := r.Calls()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("programs called: %q", calls)
}

// hostSettings are the values of this machine that the profile of the test
// names.
func hostSettings(t *testing.T) map[string]string {
	t.Helper()
	values := map[string]string{}
	for _, name := range []string{
		"/proc/sys/vm/dirty_ratio", "/proc/sys/vm/dirty_background_ratio", "/proc/sys/vm/swappiness",
		"/proc/sys/net/core/somaxconn", "/sys/kernel/mm/transparent_hugepage/enabled",
	} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Logf("not on this machine: %v", err)
		}
		values[name] = string(data)
	}
	return values
}
