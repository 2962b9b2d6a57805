package setting

import (
	"context"
	"math"
	"path/filepath"
	"strconv"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/root"
)

// No name occurs twice, and no range is empty.
func TestRangesAreSound(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range kernelRanges {
		if r.min > r.max || len(r.names) == 0 {
			t.Errorf("%+v", r)
		}
		for _, name := range r.names {
			if seen[name] {
				t.Errorf("%s twice", name)
			}
			seen[name] = true
		}
	}
}

// The running kernel rejects what the table says; the values in force do not change.
func TestRangesOfTheKernel(t *testing.T) {
	root.Disposable(t)
	ctx := context.Background()
	h := host.Live()
	k := Kernel(h)["sysctl"].(sysctl)
	tried := 0
	for _, r := range kernelRanges {
		low := r.min
		if low == minTwoPages {
			low = 2 * h.PageSize()
		}
		var out []string
		if low != minUnknown {
			out = append(out, strconv.FormatInt(low-1, 10))
		}
		if r.max != math.MaxInt64 {
			out = append(out, strconv.FormatInt(r.max+1, 10))
		}
		out = append(out, "x", "1x")
		for _, name := range r.names {
			s := Setting{"sysctl", name}
			before, err := k.Read(ctx, s)
			if err != nil || before.Absent {
				continue
			}
			for _, text := range out {
				why, refused := k.Rejects(s, Text(text))
				if !refused || why == "" {
					t.Errorf("%s = %s: not known to be refused", name, text)
				}
				err := k.Write(ctx, s, Text(text))
				after, _ := k.Read(ctx, s)
				if err == nil || after != before {
					t.Errorf("%s = %s: error %v, and it is %s (%s before)", name, text, err, after, before)
					_ = k.Write(ctx, s, before)
				}
				tried++
			}
			// A limit whose counterpart is in force reads 0 and does not accept 0.
			if why, refused := k.Rejects(s, before); refused && before != Text("0") {
				t.Errorf("%s holds %s and is said to be refused: %s", name, before, why)
			}
		}
	}
	t.Logf("%d values tried", tried)
	if tried < 150 {
		t.Errorf("only %d values tried", tried)
	}
}

// The running kernel accepts both ends of a range, for settings that are
// harmless for a moment.
func TestRangesEnds(t *testing.T) {
	root.Disposable(t)
	ctx := context.Background()
	k := Kernel(host.Live())["sysctl"].(sysctl)
	harmless := map[string]bool{
		"vm.swappiness": true, "vm.dirty_background_ratio": true, "vm.extfrag_threshold": true, "vm.watermark_scale_factor": true, "vm.compaction_proactiveness": true,
		"kernel.dmesg_restrict": true, "kernel.kptr_restrict": true, "kernel.timer_migration": true, "kernel.hung_task_warnings": true, "net.ipv4.tcp_syn_retries": true,
		"net.ipv4.tcp_app_win": true, "net.ipv4.tcp_retries1": true, "net.ipv4.tcp_keepalive_probes": true, "fs.protected_fifos": true, "vm.vfs_cache_pressure": true,
	}
	for _, r := range kernelRanges {
		for _, name := range r.names {
			s := Setting{"sysctl", name}
			before, err := k.Read(ctx, s)
			if !harmless[name] || err != nil || before.Absent {
				continue
			}
			delete(harmless, name)
			for _, n := range []int64{r.min, r.max} {
				if err := k.Write(ctx, s, Text(strconv.FormatInt(n, 10))); err != nil {
					t.Errorf("%s = %d: %v", name, n, err)
				}
			}
			if err := k.Write(ctx, s, before); err != nil {
				t.Error(err)
			}
		}
	}
	if len(harmless) > 3 {
		t.Errorf("not tried: %v", harmless)
	}
}

// Values are rejected only for kernels that the table covers.
func TestRejects(t *testing.T) {
	for _, c := range []struct {
		release, setting, want string
		refused                bool
	}{
		{"6.12.0-1.el10", "sysctl:vm.dirty_ratio", "101", true},
		{"6.12.0-1.el10", "sysctl:vm.dirty_ratio", "0x64", false},
		{"6.12.0-1.el10", "sysctl:vm.dirty_ratio", "10%", true},
		{"6.12.0-1.el10", "sysctl:vm.dirty_ratio", "-1", true},
		{"6.12.0-1.el10", "sysctl:vm.dirty_bytes", "4096", true},
		{"6.12.0-1.el10", "sysctl:vm.dirty_bytes", "1048576", false},
		{"6.12.0-1.el10", "sysctl:net.core.rmem_max", "4294967296", true},
		{"6.12.0-1.el10", "sysctl:net.ipv4.tcp_rmem", "0 1 2", false},
		{"6.12.0-1.el10", "sysctl:kernel.modules_disabled", "0", true},
		{"4.18.0-553.el8", "sysctl:vm.dirty_ratio", "101", true},
		{"4.18.0-553.el8", "sysctl:vm.swappiness", "150", false}, // widened in 5.8, and by vendors
		{"4.18.0-553.el8", "sysctl:net.ipv4.tcp_retries1", "300", false},
		{"3.10.0-1160.el7", "sysctl:vm.dirty_ratio", "101", false},
		{"7.0.0", "sysctl:vm.dirty_ratio", "101", false},
		{"6.99.1", "sysctl:vm.dirty_ratio", "101", false},
		{"", "sysctl:vm.dirty_ratio", "101", false},
		{"6.12.0-1.el10", "sysfs:/sys/kernel/mm/transparent_hugepage/enabled", "allways", true},
		{"6.12.0-1.el10", "sysfs:/sys/kernel/mm/transparent_hugepage/enabled", "never", false},
		{"5.14.0-1.el9", "sysfs:/sys/kernel/mm/transparent_hugepage/enabled", "alw", false},
		{"6.12.0-1.el10", "sysfs:/sys/block/sda/queue/scheduler", "bfq", false},
		// 2 GiB, and huge pages of 512 MiB: an arm64 kernel with pages of 64 KiB.
		{"6.12.0-1.el10", "sysctl:vm.nr_hugepages", "3", false},
		{"6.12.0-1.el10", "sysctl:vm.nr_hugepages", "4", true},
		{"6.12.0-1.el10", "sysctl:vm.nr_hugepages", "1024", true},
		{"6.12.0-1.el10", "sysctl:vm.nr_hugepages", "many", false},
		{"6.12.0-1.el10", "sysfs:/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "1000", false},
		{"6.12.0-1.el10", "sysfs:/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "1024", true},
		{"", "sysfs:/sys/kernel/mm/hugepages/hugepages-16777216kB/nr_hugepages", "1", true},
	} {
		dir := t.TempDir()
		files := map[string]string{
			"/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n", "/sys/block/sda/queue/scheduler": "[none] mq-deadline\n",
			"/proc/meminfo": "MemTotal: 2097152 kB\nHugepagesize:     524288 kB\n",
		}
		if c.release != "" {
			files["/proc/sys/kernel/osrelease"] = c.release + "\n"
		}
		for p, text := range files {
			machine.WriteFile(t, filepath.Clean(dir), p, text)
		}
		s, err := Parse(c.setting)
		if err != nil {
			t.Fatal(err)
		}
		if why, refused := Kernel(host.Mounted(dir)).Rejects(s, Text(c.want)); refused != c.refused {
			t.Errorf("%q: %s = %s refused %v (%s), want %v", c.release, c.setting, c.want, refused, why, c.refused)
		}
	}
}
