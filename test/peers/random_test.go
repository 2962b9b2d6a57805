package peers

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/root"
)

// choice is one option of a generated profile: the unit and option, the file that it
// sets here, and values that do no harm, some in another spelling than the kernel's.
type choice struct {
	unit, option, file string
	values             []string
}

// choices are what generated profiles are made of: sysctls of one number, of several
// and of ranges, both spellings of the limits, transparent huge pages and the reserve
// that they raise, attributes of memory and of loop devices, and module parameters.
var choices = []choice{
	{"sysctl", "vm.swappiness", "/proc/sys/vm/swappiness", []string{"1", "10", "0x1e", "055"}},
	{"sysctl", "vm.dirty_expire_centisecs", "/proc/sys/vm/dirty_expire_centisecs", []string{"1500", "3000", "4000"}},
	{"sysctl", "vm.dirty_writeback_centisecs", "/proc/sys/vm/dirty_writeback_centisecs", []string{"300", "700"}},
	{"sysctl", "vm.stat_interval", "/proc/sys/vm/stat_interval", []string{"2", "10"}},
	{"sysctl", "vm.vfs_cache_pressure", "/proc/sys/vm/vfs_cache_pressure", []string{"50", "200"}},
	{"sysctl", "vm.max_map_count", "/proc/sys/vm/max_map_count", []string{"262144", ">100000", "<1000"}},
	{"sysctl", "vm.min_free_kbytes", "/proc/sys/vm/min_free_kbytes", []string{"20000", "30000"}},
	{"sysctl", "kernel.pid_max", "/proc/sys/kernel/pid_max", []string{"131072", "262144"}},
	{"sysctl", "kernel.printk", "/proc/sys/kernel/printk", []string{"5 4 1 7", "4 4 1 7"}},
	{"sysctl", "kernel.hung_task_timeout_secs", "/proc/sys/kernel/hung_task_timeout_secs", []string{"600", "0"}},
	{"sysctl", "kernel.core_pattern", "/proc/sys/kernel/core_pattern", []string{"core.%p", "core-%e"}},
	{"sysctl", "kernel.sched_autogroup_enabled", "/proc/sys/kernel/sched_autogroup_enabled", []string{"0", "1"}},
	{"sysctl", "kernel.numa_balancing", "/proc/sys/kernel/numa_balancing", []string{"0"}},
	{"sysctl", "fs.aio-max-nr", "/proc/sys/fs/aio-max-nr", []string{"1048576"}},
	{"sysctl", "fs.inotify.max_user_watches", "/proc/sys/fs/inotify/max_user_watches", []string{"524288"}},
	{"sysctl", "fs.pipe-max-size", "/proc/sys/fs/pipe-max-size", []string{"2097152", "1000000"}},
	{"sysctl", "net.core.somaxconn", "/proc/sys/net/core/somaxconn", []string{"2048", ">3000"}},
	{"sysctl", "net.core.rmem_max", "/proc/sys/net/core/rmem_max", []string{"16777216", ">1048576"}},
	{"sysctl", "net.core.busy_read", "/proc/sys/net/core/busy_read", []string{"50", "0"}},
	{"sysctl", "net.core.rps_sock_flow_entries", "/proc/sys/net/core/rps_sock_flow_entries", []string{"1000", "4096"}},
	{"sysctl", "net.ipv4.tcp_rmem", "/proc/sys/net/ipv4/tcp_rmem", []string{"4096 87380 16777216", `"4096	65536	8388608"`}},
	{"sysctl", "net.ipv4.tcp_fastopen", "/proc/sys/net/ipv4/tcp_fastopen", []string{"3"}},
	{"sysctl", "net.ipv4.ip_local_port_range", "/proc/sys/net/ipv4/ip_local_port_range", []string{"10000 61000"}},
	{"sysctl", "net.ipv4.ip_local_reserved_ports", "/proc/sys/net/ipv4/ip_local_reserved_ports", []string{"18081,18080", "19000-19010,18080"}},
	{"sysctl", "net.ipv4.tcp_max_syn_backlog", "/proc/sys/net/ipv4/tcp_max_syn_backlog", []string{"4096", "04000"}},
	{"vm", "transparent_hugepages", "/sys/kernel/mm/transparent_hugepage/enabled", []string{"never", "always", "madvise"}},
	{"vm", "transparent_hugepage.defrag", "/sys/kernel/mm/transparent_hugepage/defrag", []string{"never", "defer", "madvise"}},
	{"sysfs", "/sys/kernel/mm/ksm/pages_to_scan", "/sys/kernel/mm/ksm/pages_to_scan", []string{"200", "1000"}},
	{"sysfs", "/sys/kernel/mm/ksm/sleep_millisecs", "/sys/kernel/mm/ksm/sleep_millisecs", []string{"50"}},
	{"sysfs", "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan", "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan", []string{"2048"}},
	{"sysfs", "/sys/kernel/mm/transparent_hugepage/use_zero_page", "/sys/kernel/mm/transparent_hugepage/use_zero_page", []string{"0", "1"}},
	{"sysfs", "/sys/kernel/mm/swap/vma_ra_enabled", "/sys/kernel/mm/swap/vma_ra_enabled", []string{"0", "false", "1"}},
	{"sysfs", "/sys/module/printk/parameters/time", "/sys/module/printk/parameters/time", []string{"1", "N", "off"}},
	{"disk", "readahead", "/sys/block/loop0/queue/read_ahead_kb", []string{"64", "256", ">4096"}},
	{"disk", "elevator", "/sys/block/loop0/queue/scheduler", []string{"none", "mq-deadline"}},
	{"sysfs", "/sys/block/loop0/queue/nr_requests", "/sys/block/loop0/queue/nr_requests", []string{"64", "200"}},
}

// generate writes one profile and, for half of them, a parent: its lines by unit.
func generate(r *rand.Rand) (child, parent string) {
	texts := [2]map[string][]string{{}, {}}
	var units [2][]string
	add := func(k int, unit, line string) {
		if texts[k][unit] == nil {
			units[k] = append(units[k], unit)
			if unit == "disk" {
				texts[k][unit] = []string{"devices=loop0"}
			}
		}
		texts[k][unit] = append(texts[k][unit], line)
	}
	generations := 1 + r.IntN(2)
	for range 4 + r.IntN(10) {
		c := choices[r.IntN(len(choices))]
		add(r.IntN(generations), c.unit, c.option+"="+c.values[r.IntN(len(c.values))])
	}
	for _, pair := range limits {
		if r.IntN(2) == 0 {
			continue
		}
		valued := r.IntN(2)
		for _, k := range r.Perm(2) { // both spellings, one of them 0
			v := "0"
			if k == valued {
				v = pair[k].value
			}
			add(r.IntN(generations), "sysctl", pair[k].name+"="+v)
		}
	}
	text := func(k int, head ...string) string {
		for _, u := range units[k] {
			head = append(append(head, "["+u+"]"), texts[k][u]...)
		}
		return strings.Join(head, "\n") + "\n"
	}
	if generations == 2 {
		return text(0, "[main]", "include=random-parent"), text(1)
	}
	return text(0), ""
}

// TestRandomProfilesAsTuneD applies generated profiles on the running kernel, by the
// real TuneD and by fettle: the same values, but for the listed differences; verify
// agrees with what the kernel shows; undo gives everything back. Eight of them, and
// 200 in the slow matrix.
func TestRandomProfilesAsTuneD(t *testing.T) {
	root.Disposable(t)
	root.Real(t, "runs TuneD for every profile")
	count, seed := 8, uint64(20261127)
	if os.Getenv("FETTLE_TEST_NIGHTLY") == "1" {
		count = 200
	}
	program := root.Program(t, "./cmd/fettle")
	files := readable(t)
	before := readFiles(files)
	t.Cleanup(func() { writeFiles(t, before) })
	r := root.New(t, root.Options{Live: true, Stubs: liveStubs(),
		Binds: []root.Bind{{Source: program, Target: "/usr/bin/fettle", ReadOnly: true}}})
	began, values, moved, listed := time.Now(), 0, 0, map[string]int{}
	for n := range count {
		child, parent := generate(rand.New(rand.NewPCG(seed, uint64(n))))
		r.Must("sh", "-c", `mkdir -p /etc/tuned/random /etc/tuned/random-parent && printf %s "$1" >/etc/tuned/random/tuned.conf && printf %s "$2" >/etc/tuned/random-parent/tuned.conf`, "sh", child, parent)
		r.TunedOnce("random")
		theirs := readFiles(files)
		writeFiles(t, before)
		if at := changed(before, readFiles(files)); len(at) > 0 {
			t.Fatalf("profile %d: TuneD's changes could not be taken back: %v", n, at)
		}
		out, code := r.Run("fettle", "tune", "random")
		ours := readFiles(files)
		moved += len(changed(before, ours))
		fail := func(format string, args ...any) {
			t.Helper()
			t.Errorf("profile %d (exit %d): %s\n%s--\n%s--\n%s", n, code, fmt.Sprintf(format, args...), parent, child, out)
		}
		for _, f := range files {
			if theirs[f] == ours[f] {
				values++
				continue
			}
			if why := listedHere(f, before, theirs, ours, parent+child); why != "" {
				listed[why]++
				continue
			}
			fail("%s was %q: TuneD left %q, fettle %q", f, before[f], theirs[f], ours[f])
		}
		text, code := r.Run("fettle", "verify", "--output", "json")
		var v tune.Verification
		if _, text, ok := strings.Cut("\n"+text, "\n{"); !ok {
			fail("verify: %s", text)
		} else if err := json.NewDecoder(strings.NewReader("{" + text)).Decode(&v); err != nil {
			fail("verify: %v", err)
		}
		for _, c := range v.Values {
			if why := disagrees(c); why != "" {
				fail("verify says %s (%s) of %s = %s, which reads %s: %s", c.Verdict, c.Why, c.Setting, c.Want, c.Now, why)
			}
		}
		if v.Met != (code == 0) {
			fail("verify: met %v, exit %d", v.Met, code)
		}
		if out, code := r.Run("fettle", "undo"); code != 0 {
			fail("undo: exit %d: %s", code, out)
		}
		if at := changed(before, readFiles(files)); len(at) > 0 {
			fail("undo left %v", at)
			writeFiles(t, before)
		}
	}
	if moved < 4*count {
		t.Errorf("fettle changed only %d values", moved)
	}
	t.Logf("%d profiles, %d values changed by fettle, %d the same, listed differences %v, %s", count, moved, values, listed, time.Since(began).Round(time.Second))
}

// disagrees asks the kernel whether a value that verify calls ok is in force: to write
// it once more leaves what the file reads, and what is not ok is not in force.
func disagrees(c tune.Checked) string {
	file := c.Setting.Name
	if c.Setting.Kind == "sysctl" {
		file, _ = setting.SysctlPath(c.Setting.Name)
	} else if c.Setting.Kind != "sysfs" {
		return ""
	}
	now := readFiles([]string{file})[file]
	if c.Verdict != "ok" {
		if setting.ActiveWord(now) == c.Want.Text {
			return "it reads so"
		}
		return ""
	}
	if c.Want.Text == "0" && now == "0" {
		return "" // to write a spelling of a limit may zero the other
	}
	if file == "/sys/kernel/mm/transparent_hugepage/enabled" {
		if setting.ActiveWord(now) != c.Want.Text {
			return "it reads otherwise"
		}
		return "" // to write it raises vm.min_free_kbytes, which a profile may have lowered
	}
	if err := os.WriteFile(file, []byte(c.Want.Text), 0o600); err != nil {
		return err.Error()
	}
	if after := readFiles([]string{file})[file]; after != now {
		return "written once more it reads " + after
	}
	return ""
}

// listedHere names the difference between Debian's TuneD and fettle that explains a
// file, "" for none.
func listedHere(file string, before, theirs, ours map[string]string, profile string) string {
	for _, pair := range limits {
		a, b := sysctlFile(pair[0].name), sysctlFile(pair[1].name)
		if (file == a || file == b) && theirs[a] == "0" && theirs[b] == "0" {
			return "TuneD leaves both spellings of a limit 0"
		}
	}
	switch {
	case file == "/proc/sys/vm/min_free_kbytes" && strings.Contains(profile, "transparent_hugepages="):
		return "TuneD sets vm.min_free_kbytes before huge pages, which change it"
	case file == "/sys/block/loop0/queue/nr_requests" && strings.Contains(profile, "elevator="):
		return "TuneD sets nr_requests before the scheduler, which changes it"
	}
	return ""
}

func sysctlFile(name string) string { return "/proc/sys/" + strings.ReplaceAll(name, ".", "/") }

// readable are the files of the choices and of the limits that this kernel has.
func readable(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, c := range choices {
		if _, err := os.ReadFile(c.file); err == nil {
			files = append(files, c.file)
		} else {
			t.Logf("%s: %v", c.file, err)
		}
	}
	for _, pair := range limits {
		files = append(files, sysctlFile(pair[0].name), sysctlFile(pair[1].name))
	}
	if len(files) < 30 {
		t.Fatalf("this kernel has only %d of the files", len(files))
	}
	return files
}

func readFiles(files []string) map[string]string {
	m := map[string]string{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if m[f] = strings.TrimSpace(string(b)); err != nil {
			m[f] = err.Error()
		}
	}
	return m
}

// writeFiles gives back what the files had: three times, as one can change another.
func writeFiles(t *testing.T, had map[string]string) {
	t.Helper()
	for range 3 {
		at := changed(had, readFiles(keys(had)))
		for _, f := range at {
			if !strings.HasSuffix(f, "_bytes") || had[f] != "0" {
				_ = os.WriteFile(f, []byte(setting.ActiveWord(had[f])+"\n"), 0o600) // what is refused shows when it is read again
			}
		}
	}
}

func changed(was, is map[string]string) (files []string) {
	for f, v := range was {
		if is[f] != v {
			files = append(files, f)
		}
	}
	slices.Sort(files)
	return files
}

func keys(m map[string]string) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
