package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
	testkitvm "fettle.dev/fettle/internal/testkit/vm"
)

// arm64Profile has values that depend on the page size. 131072 is two pages of 64 KiB, the least
// that the kernel accepts, and 100 KiB of read-ahead are one.
const arm64Profile = `[main]
summary=Values that depend on the page size

[sysctl]
vm.swappiness=17
vm.dirty_bytes=131072

[vm]
transparent_hugepages=never

[disk]
devices=vda
readahead=100

[sysfs]
/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages=8

[bootloader]
cmdline_huge=+hugepagesz=2M hugepages=8 hugepagesz=512M hugepages=1
`

// TestARM64 tests fettle on arm64 with pages of 64 KiB and the huge pages of that: facts, check,
// diff, tune, verify, kill -9 and undo, with a reboot and a power cut.
func TestARM64(t *testing.T) {
	testkitroot.Nightly(t, "boots a machine of arm64")
	vm := testkitvm.Boot(t, testkitvm.Options{ARM64: true, MemoryMiB: 4096})
	vm.Put(testkitroot.ProgramFor(t, "arm64", "./cmd/fettle"), "/usr/local/bin/fettle")
	vm.Put(testkitvm.TestsFor(t, "arm64", "."), "/usr/local/bin/cli.test")
	// These tests run as fettle, with points at which they are killed.
	vm.Must("mkdir -p /usr/local/killed && ln -s ../bin/cli.test /usr/local/killed/fettle; update-grub 2>/dev/null; sync")
	vm.Write("/etc/tuned/arm64/tuned.conf", arm64Profile)

	asks := func(t *testing.T, command string, into any, codes ...int) {
		t.Helper()
		r, err := vm.Exec(testkitvm.Request{Argv: []string{"sh", "-c", command}})
		if err != nil || !slices.Contains(append(codes, 0), r.Code) {
			t.Fatalf("%s: %v, exit %d\n%s%s", command, err, r.Code, r.Stdout, r.Stderr)
		}
		if err := json.Unmarshal(r.Stdout, into); err != nil {
			t.Fatalf("%s: %v\n%s%s", command, err, r.Stdout, r.Stderr)
		}
	}
	type value struct{ Setting, Verdict, Why string }
	plan := func(t *testing.T, command string) map[string]value {
		t.Helper()
		var p struct{ Steps, Values []value }
		asks(t, command, &p, 3, 7)
		m := map[string]value{}
		for _, v := range append(p.Steps, p.Values...) {
			m[v.Setting] = v
		}
		return m
	}
	// Without TuneD's state files, which the daemon keeps up to date, and which stay.
	const values = "grep -H . /proc/sys/vm/swappiness /proc/sys/vm/dirty_bytes /proc/sys/vm/dirty_ratio /sys/kernel/mm/transparent_hugepage/enabled " +
		"/sys/block/vda/queue/read_ahead_kb /sys/kernel/mm/hugepages/*/nr_hugepages; find /etc /boot -xdev -type f ! -path /etc/tuned/active_profile ! -path /etc/tuned/profile_mode -print0 | sort -z | xargs -0 sha256sum"
	// A size of huge pages that this kernel does not have, and less than a page.
	vm.Write("/etc/tuned/giant/tuned.conf", "[sysctl]\nvm.dirty_bytes=8192\n[bootloader]\ncmdline_giant=+hugepagesz=1G hugepages=1\n")
	before := vm.Must(values)
	same := func(t *testing.T, when string) {
		t.Helper()
		if d := cmp.Diff(before, vm.Must(values)); d != "" {
			t.Errorf("%s: %s", when, d)
		}
	}

	t.Run("facts", func(t *testing.T) {
		if out := vm.Must("getconf PAGESIZE; uname -m"); out != "65536\naarch64\n" {
			t.Fatalf("the machine: %q", out)
		}
		var f map[string]any
		asks(t, "fettle facts --output json", &f)
		get := func(path string) any {
			var v any = f
			for part := range strings.SplitSeq(path, "/") {
				m, _ := v.(map[string]any)
				v = m[part]
			}
			return v
		}
		for path, want := range map[string]any{
			"memory/page_bytes": 65536.0, "memory/huge_page_default_bytes": float64(512 << 20), "memory/transparent_huge_pages/size_bytes": float64(512 << 20),
			"memory/huge_pages/2048kB/size_bytes": float64(2 << 20), "memory/huge_pages/524288kB/size_bytes": float64(512 << 20), "memory/huge_pages/16777216kB/size_bytes": float64(16 << 30),
			"memory/transparent_huge_pages/khugepaged/max_ptes_none": 8191.0,
			"cpu/vendor": "ARM", "cpu/model": "0xd08", "cpu/count": 4.0, "cpu/sockets": 4.0, "cpu/cores": 4.0, "cpu/threads_per_core": 1.0, "cpu/frequency/driver": nil,
			"numa/count": 4.0, "kernel/arch": "aarch64", "machine/product": "linux,dummy-virt", "machine/vendor": nil,
			"virtualization/hypervisor": "qemu", "virtualization/bare_metal": false,
		} {
			if got := get(path); got != want {
				t.Errorf("%s is %v, want %v", path, got, want)
			}
		}
		if sizes, _ := get("memory/huge_pages").(map[string]any); len(sizes) != 3 {
			t.Errorf("huge pages: %v", slices.Sorted(maps.Keys(sizes)))
		}
		for path, why := range f["unknown"].(map[string]any) {
			t.Logf("unknown: %s: %v", path, why)
		}
	})

	t.Run("check", func(t *testing.T) {
		var r struct {
			Findings []struct{ Rule, Status, Why string }
		}
		asks(t, "fettle check --output json", &r, 3)
		if len(r.Findings) < 20 {
			t.Errorf("only %d findings", len(r.Findings))
		}
	})

	t.Run("diff", func(t *testing.T) {
		for _, profile := range []string{"throughput-performance", "latency-performance", "network-latency", "virtual-guest", "postgresql", "openshift-node", "sap", "balanced"} {
			for setting, v := range plan(t, "fettle diff --output json "+profile) {
				if v.Verdict == "rejected" || v.Verdict == "error" {
					t.Errorf("%s: %s is %s: %s", profile, setting, v.Verdict, v.Why)
				}
			}
		}
		// Pages of 2 MiB, not of the default size.
		pools := plan(t, "fettle diff --output json hugepages")
		if v, ok := pools["sysctl:vm.nr_hugepages"]; ok {
			t.Errorf("hugepages: vm.nr_hugepages is %+v", v)
		}
		if v := pools["sysfs:/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"]; v.Verdict == "rejected" || v.Verdict == "" {
			t.Errorf("hugepages: the pool of 2 MiB is %+v of %v", v, pools)
		}
		p := plan(t, "fettle diff --output json giant")
		if v := p["bootloader:none"]; v.Verdict != "rejected" || !strings.Contains(v.Why, "16 GiB, 2 MiB, 512 MiB") {
			t.Errorf("hugepagesz=1G: %+v of %v", v, p)
		}
		if v := p["sysctl:vm.dirty_bytes"]; v.Verdict != "rejected" {
			t.Errorf("vm.dirty_bytes of 8192: %+v", v)
		}
		same(t, "after diff")
	})

	tuned := map[string]string{
		"sysctl:vm.swappiness": "ok", "sysctl:vm.dirty_bytes": "ok", "sysfs:/sys/kernel/mm/transparent_hugepage/enabled": "ok",
		"sysfs:/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "ok", "bootloader:grub:/boot/grub/grub.cfg": "needs-reboot",
	}
	verdicts := func(t *testing.T) {
		t.Helper()
		got := plan(t, "fettle verify --output json")
		for setting, want := range tuned {
			if got[setting].Verdict != want {
				t.Errorf("%s: %+v, want %s", setting, got[setting], want)
			}
		}
	}
	t.Run("tune, verify and undo", func(t *testing.T) {
		if out, code := vm.Run("fettle tune arm64"); code != 0 && code != 7 {
			t.Fatalf("tune: exit %d\n%s", code, out)
		}
		verdicts(t)
		if out := vm.Must("fettle status >/dev/null; cat /proc/sys/vm/dirty_bytes /sys/block/vda/queue/read_ahead_kb /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages; grep -c 'hugepagesz=512M hugepages=1' /boot/grub/grub.cfg"); !strings.HasPrefix(out, "131072\n64\n8\n") {
			t.Errorf("the machine has %q", out)
		}
		vm.Must("fettle undo")
		same(t, "after undo")
	})

	t.Run("killed at each write", func(t *testing.T) {
		out, code := vm.RunFor(90*60e9, "cd /tmp && FETTLE_TEST_DISPOSABLE=1 FETTLE_TEST_NIGHTLY=1 cli.test -test.v -test.run '^TestCrashMatrix$/^(throughput-performance|hugepages)$/^(tune|undo)$' 2>&1")
		if code != 0 || strings.Count(out, "    --- PASS") < 4 {
			t.Errorf("exit %d\n%s", code, out)
		}
		t.Log(out)
	})

	t.Run("power cut and reboot", func(t *testing.T) {
		for _, n := range []int{3, 8, 12} {
			if out, code := vm.Run(fmt.Sprintf("FETTLE_TEST_KILL_AT=%d /usr/local/killed/fettle tune arm64", n)); code != 128+9 {
				t.Fatalf("point %d: exit %d\n%s", n, code, out)
			}
			vm.Kill()
			vm.Start()
			vm.Must("fettle undo")
			same(t, fmt.Sprintf("killed at point %d, and the power cut", n))
		}
		if out, code := vm.Run("fettle tune --persist arm64"); code != 0 && code != 7 {
			t.Fatalf("tune --persist: exit %d\n%s", code, out)
		}
		vm.Reboot()
		vm.Must("systemctl start fettle.service; for n in $(seq 60); do fettle verify >/dev/null; test $? -le 3 && break; sleep 1; done")
		verdicts(t)
		vm.Must("fettle undo")
		same(t, "after a boot with the profile, and undo")
	})
}
