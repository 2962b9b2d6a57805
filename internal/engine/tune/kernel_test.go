package tune_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/root"
)

// smallDisk is a file system of one MiB.
func smallDisk(t *testing.T, kind string) string {
	t.Helper()
	root.Disposable(t)
	dir := t.TempDir()
	if kind == "tmpfs" {
		if err := syscall.Mount("fettle-test", dir, "tmpfs", 0, "size=1m"); err != nil {
			t.Fatal(err)
		}
	} else {
		image := filepath.Join(filepath.Dir(stateDir(t)), "image")
		if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 1<<20)); err != nil {
			t.Fatal(err)
		}
		for _, argv := range [][]string{{"mkfs." + kind, "-q", "-F", image}, {"mount", "-o", "loop", image, dir}} {
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Env = append(os.Environ(), "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
			if out, err := cmd.CombinedOutput(); err != nil {
				root.Missing(t, "%s: %v: %s; needs e2fsprogs, mount and a loop device", argv[0], err, out)
			}
		}
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// fillUp fills the file system of dir to the last block.
func fillUp(t *testing.T, dir string) {
	t.Helper()
	f, err := os.CreateTemp(dir, "full")
	if err != nil {
		return // not even room for a name
	}
	defer f.Close()
	for size := 4096; size >= 512; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

func liveRead(t *testing.T, s setting.Setting) string {
	t.Helper()
	v, err := setting.Kernel(host.Live()).Read(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return v.String()
}

func liveWrite(t *testing.T, s setting.Setting, v string) {
	t.Helper()
	if err := setting.Kernel(host.Live()).Write(context.Background(), s, setting.Text(v)); err != nil {
		t.Fatal(err)
	}
}

// TestCoupledDirtyLimits tests on the real kernel that writing dirty_bytes sets dirty_ratio to 0,
// and that 0 cannot be written into dirty_bytes. Undo restores both, from either side.
func TestCoupledDirtyLimits(t *testing.T) {
	root.Disposable(t)
	e := newEngine(t, host.Live())
	ratio, bytes := sysctl("vm.dirty_ratio"), sysctl("vm.dirty_bytes")
	before := liveRead(t, ratio)
	apply(t, e, journal.Apply, set("vm.dirty_bytes", "104857600"))
	if got := liveRead(t, ratio); got != "0" {
		t.Fatalf("dirty_ratio is %s: this kernel does not couple", got)
	}
	undo(t, e)
	if liveRead(t, ratio) != before || liveRead(t, bytes) != "0" {
		t.Errorf("ratio %s bytes %s, want %s and 0", liveRead(t, ratio), liveRead(t, bytes), before)
	}

	liveWrite(t, bytes, "209715200")
	defer liveWrite(t, ratio, before)
	apply(t, e, journal.Apply, set("vm.dirty_ratio", "40"))
	apply(t, e, journal.Apply, set("vm.dirty_bytes", "52428800"))
	undo(t, e, 3)
	if got := liveRead(t, bytes); got != "52428800" {
		t.Errorf("after undoing the buried one dirty_bytes is %s, want the later value", got)
	}
	undo(t, e)
	if liveRead(t, ratio) != "0" || liveRead(t, bytes) != "209715200" {
		t.Errorf("ratio %s bytes %s, want 0 and 209715200", liveRead(t, ratio), liveRead(t, bytes))
	}
}

// TestCoupledElevator tests on the real kernel that a change of the I/O scheduler changes queue
// depth and attributes, and that undo restores those of the old scheduler.
func TestCoupledElevator(t *testing.T) {
	root.Disposable(t)
	queue := ""
	for _, dev := range []string{"vda", "sda", "nvme0n1", "loop0"} {
		b, err := os.ReadFile("/sys/block/" + dev + "/queue/scheduler")
		if err == nil && strings.Contains(string(b), "bfq") && strings.Contains(string(b), "mq-deadline") {
			queue = "/sys/block/" + dev + "/queue/"
			break
		}
	}
	if queue == "" {
		t.Fatal("no disk here has mq-deadline and bfq to change between")
	}
	sysfs := func(name string) setting.Setting { return setting.Setting{Kind: "sysfs", Name: queue + name} }
	was := map[string]string{}
	for _, n := range []string{"scheduler", "nr_requests"} {
		was[n] = liveRead(t, sysfs(n))
	}
	defer func() {
		liveWrite(t, sysfs("scheduler"), was["scheduler"])
		liveWrite(t, sysfs("nr_requests"), was["nr_requests"])
	}()
	liveWrite(t, sysfs("scheduler"), "mq-deadline")
	expire := liveRead(t, sysfs("iosched/read_expire"))
	liveWrite(t, sysfs("iosched/read_expire"), "120") // a multiple of every jiffy length
	liveWrite(t, sysfs("nr_requests"), "77")

	e := newEngine(t, host.Live())
	apply(t, e, journal.Apply, setting.Change{Setting: sysfs("scheduler"), Want: setting.Text("bfq")})
	if got := liveRead(t, sysfs("scheduler")); got != "bfq" {
		t.Fatalf("scheduler is %s", got)
	}
	undo(t, e)
	for n, want := range map[string]string{"scheduler": "mq-deadline", "nr_requests": "77", "iosched/read_expire": "120"} {
		if got := liveRead(t, sysfs(n)); got != want {
			t.Errorf("%s is %s, want %s", n, got, want)
		}
	}
	liveWrite(t, sysfs("iosched/read_expire"), expire)
}

// TestSwitchBetweenTwins tests on the real kernel a switch from a profile with one spelling of a
// limit to one with the other, and to one with neither.
func TestSwitchBetweenTwins(t *testing.T) {
	root.Disposable(t)
	e := newEngine(t, host.Live())
	ratio, bytes := sysctl("vm.dirty_ratio"), sysctl("vm.dirty_bytes")
	before := liveRead(t, ratio)
	apply(t, e, journal.Tune, set("vm.dirty_bytes", "104857600"))
	a := apply(t, e, journal.Tune, set("vm.dirty_ratio", "30"))
	if a.Result != journal.ResultDone || liveRead(t, ratio) != "30" || liveRead(t, bytes) != "0" {
		t.Errorf("%s: ratio %s, bytes %s", a.Result, liveRead(t, ratio), liveRead(t, bytes))
	}
	apply(t, e, journal.Tune, set("vm.dirty_bytes", "104857600"))
	a = apply(t, e, journal.Tune, set("vm.laptop_mode", "0"))
	if a.Result != journal.ResultDone || liveRead(t, ratio) != before || liveRead(t, bytes) != "0" {
		t.Errorf("%s: ratio %s, bytes %s, want %s and 0", a.Result, liveRead(t, ratio), liveRead(t, bytes), before)
	}
	undo(t, e)
	if liveRead(t, ratio) != before || liveRead(t, bytes) != "0" {
		t.Errorf("after undo: ratio %s, bytes %s", liveRead(t, ratio), liveRead(t, bytes))
	}
}

// TestSwitchOfSchedulers tests on the real kernel that the attributes of schedulers come and go
// with them, and that those of an intermediate scheduler are not restored.
func TestSwitchOfSchedulers(t *testing.T) {
	root.Disposable(t)
	const queue = "/sys/block/loop7/queue/"
	sysfs := func(name string) setting.Setting { return setting.Setting{Kind: "sysfs", Name: queue + name} }
	change := func(name, v string) setting.Change {
		return setting.Change{Setting: sysfs(name), Want: setting.Text(v)}
	}
	was := liveRead(t, sysfs("scheduler"))
	depth := liveRead(t, sysfs("nr_requests"))
	defer func() {
		liveWrite(t, sysfs("scheduler"), was)
		liveWrite(t, sysfs("nr_requests"), depth)
	}()
	for _, base := range []string{"none", "mq-deadline"} {
		liveWrite(t, sysfs("scheduler"), base)
		before := liveRead(t, sysfs("nr_requests"))
		e := newEngine(t, host.Live())
		apply(t, e, journal.Apply, change("scheduler", "bfq"))
		// In the order of a careless profile: the depth first.
		a := apply(t, e, journal.Apply, change("nr_requests", "64"), change("iosched/read_expire", "320"), change("scheduler", "mq-deadline"))
		if a.Result != journal.ResultDone {
			t.Errorf("from %s: %s", base, a.Result)
		}
		for name, want := range map[string]string{"scheduler": "mq-deadline", "nr_requests": "64", "iosched/read_expire": "320"} {
			if got := liveRead(t, sysfs(name)); got != want {
				t.Errorf("from %s: %s is %s, want %s", base, name, got, want)
			}
		}
		undo(t, e)
		if s, n := liveRead(t, sysfs("scheduler")), liveRead(t, sysfs("nr_requests")); s != base || n != before {
			t.Errorf("after undo: %s with %s, want %s with %s", s, n, base, before)
		}
		if _, err := e.Undo(context.Background()); err == nil {
			t.Error("something still stands after the undo")
		}
	}
}

// TestEmptyValueComesBack tests that an empty list is restored, although the kernel ignores a write
// of no bytes.
func TestEmptyValueComesBack(t *testing.T) {
	root.Disposable(t)
	const name = "net.ipv4.ip_local_reserved_ports"
	e := newEngine(t, host.Live())
	before := read(t, e, name)
	t.Cleanup(func() {
		_ = os.WriteFile("/proc/sys/net/ipv4/ip_local_reserved_ports", []byte(before+"\n"), 0)
	})
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_local_reserved_ports", []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	apply(t, e, journal.Apply, set(name, "8080"))
	wantValue(t, e, name, "8080")
	undo(t, e)
	wantValue(t, e, name, "")
}

// TestHugePagesAndReserve tests on the running kernel that enabling transparent huge pages raises
// vm.min_free_kbytes. So the order of a profile's lines must not matter: both values are right
// after the first tune, and undo restores both.
func TestHugePagesAndReserve(t *testing.T) {
	root.Disposable(t)
	thp, reserve := setting.Setting{Kind: "sysfs", Name: "/sys/kernel/mm/transparent_hugepage/enabled"}, sysctl("vm.min_free_kbytes")
	before := map[setting.Setting]string{thp: liveRead(t, thp), reserve: liveRead(t, reserve)}
	t.Cleanup(func() { liveWrite(t, thp, before[thp]); liveWrite(t, reserve, before[reserve]) })
	changes := []setting.Change{
		{Setting: reserve, Want: setting.Text("20000"), Reason: setting.Reason{Text: "test"}},
		{Setting: thp, Want: setting.Text("always"), Reason: setting.Reason{Text: "test"}},
	}
	for range 2 {
		liveWrite(t, thp, "never")
		liveWrite(t, reserve, "16000")
		e := newEngine(t, host.Live())
		a := apply(t, e, journal.Apply, changes...)
		for _, st := range a.Plan.Steps {
			if st.Verdict != plugin.OK {
				t.Errorf("%s = %s: %s (%s)", st.Setting, st.Want, st.Verdict, st.Why)
			}
		}
		if got := liveRead(t, reserve); got != "20000" {
			t.Errorf("min_free_kbytes is %s", got)
		}
		undo(t, e)
		if liveRead(t, thp) != "never" || liveRead(t, reserve) != "16000" {
			t.Errorf("undo left %s and %s", liveRead(t, thp), liveRead(t, reserve))
		}
		changes[0], changes[1] = changes[1], changes[0]
	}
	liveWrite(t, reserve, "16000")
	if liveWrite(t, thp, "always"); liveRead(t, reserve) == "16000" {
		t.Log("this kernel did not raise the reserve")
	}
}
