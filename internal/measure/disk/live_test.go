package disk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/root"
)

// realBench returns a bench with a real fio, and a place in a directory of the test.
func realBench(t *testing.T, dir string) (*Bench, *Place) {
	t.Helper()
	engine, err := findFio(t.Context(), host.Live(), root.ServerProgram(t, "fio"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := LookAt(host.Live(), dir)
	if err != nil {
		t.Fatal(err)
	}
	p.SizeBytes = LeastSize
	t.Cleanup(func() { _ = p.Close() })
	return &Bench{Engine: engine, Host: host.Live()}, p
}

// prepare creates and fills the files of a place.
func prepare(t *testing.T, b *Bench, p *Place) {
	t.Helper()
	if err := errors.Join(p.Open(), b.Prepare(t.Context(), p)); err != nil {
		t.Fatal(err)
	}
}

// nothing checks that a directory is empty.
func nothing(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in %s: %v, %v", dir, left, err)
	}
}

// inexact are the cells with direct reads for which the storage reports another number of bytes
// than fio, by name.
func inexact(e *Evidence) map[string]string {
	what := map[string]string{}
	for _, r := range e.Places[0].Results {
		if r.Cache != Direct || !r.reads() {
			continue
		}
		// In addition to what fio counts there may be requests that were under way in the end.
		v := r.Samples[0]
		if more := v.StorageBytes - v.Read.Bytes; more < 0 || more > int64(r.Depth)*r.BlockBytes+1<<20 {
			what[r.Name] = fmt.Sprintf("read %d bytes, %d from storage", v.Read.Bytes, v.StorageBytes)
		}
	}
	return what
}

// TestEveryCell measures every cell on a real disk and checks that the requested access was
// measured.
func TestEveryCell(t *testing.T) {
	dir := t.TempDir()
	b, p := realBench(t, dir)
	plan := NewPlan(Quick, 1, 0)
	plan.Repeats, plan.unit = 1, 50*time.Millisecond
	run := func() *Evidence {
		if err := p.Open(); err != nil {
			t.Fatal(err)
		}
		e, err := b.Run(t.Context(), plan, []*Place{p}, func(int, int, *Place, Cell) { nothing(t, dir) })
		if err != nil {
			t.Fatal(err)
		}
		nothing(t, dir)
		return e
	}
	// Others read from the disk now and then: each cell is exact in one of some runs.
	e := run()
	never := inexact(e)
	for n := 1; n < 12 && len(never) > 0; n++ {
		t.Logf("once more, as others may have read: %v", never)
		e = run()
		now := inexact(e)
		maps.DeleteFunc(never, func(name, _ string) bool { return now[name] == "" })
	}
	for name, what := range never {
		t.Errorf("%s: %s", name, what)
	}
	if p.Storage.Class == fact.ClassMemory || p.Storage.Device == "" {
		root.Missing(t, "%s is on %s: this test wants a disk", dir, p.Storage.Type)
	}
	for _, r := range e.Places[0].Results {
		v := r.Samples[0]
		t.Logf("%-15s %10.2f %-5s in flight %4.1f, mean %.3g s, from storage %d, %v", r.Name, r.Value, r.Unit, r.InFlight, r.MeanS, v.StorageBytes, v.Doubts)
		for _, d := range r.Doubts {
			if d.Kind == Cached || d.Kind == Unproven || d.Kind == Memory || d.Kind == Refused {
				t.Errorf("%s: %s: %s", r.Name, d.Kind, d.Text)
			}
		}
		if r.InFlight <= 0 && r.Cache != Log || r.InFlight > float64(r.Depth)*1.5 {
			t.Errorf("%s: %.2f of %d requests in flight", r.Name, r.InFlight, r.Depth)
		}
		// Of a disk that stood still for a moment there are too few to tell.
		if r.Name == "randrw-qd32" {
			if n := float64(v.Read.IOs + v.Write.IOs); n > 500 && float64(v.Read.IOs)/n < 0.7 {
				t.Errorf("%s: %d reads, %d writes", r.Name, v.Read.IOs, v.Write.IOs)
			}
		}
		if r.Cache == Log && (v.Sync.N < 1 || v.Sync.N < enoughSyncs && v.Write.RuntimeS < longestLog.Seconds()/2) {
			t.Errorf("%s: %d syncs in %.1f s", r.Name, v.Sync.N, v.Write.RuntimeS)
		}
	}
	e.Sum("")
	if len(e.Series) != len(plan.Cells)+1 {
		t.Errorf("%d series", len(e.Series))
	}
	body, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	curves, err := evidence.CurvesOf(&evidence.Run{Body: body})
	if err != nil || len(curves) != 2 || len(curves[0].Lines[0].Points) != len(blockSizes) || len(curves[1].Lines[0].Points) != len(depths) {
		t.Errorf("%+v, %v", curves, err)
	}
}

// TestEachSecond tests that a long sample reports each second and can be ended.
func TestEachSecond(t *testing.T) {
	b, p := realBench(t, t.TempDir())
	prepare(t, b, p)
	c, _ := Find("write")
	began, calls := time.Now(), 0
	v, err := b.Measure(t.Context(), p, c, 10*time.Minute, 1, func(perSecond []float64) bool { calls++; return len(perSecond) >= 2 })
	if err != nil || len(v.PerSecond) < 2 || calls < 2 || v.Value <= 0 {
		t.Errorf("%v after %v, %d calls: %+v", err, time.Since(began), calls, v)
	}
	sum := 0.0
	for _, s := range v.PerSecond {
		sum += s
	}
	// A step that comes late stands for more than its second.
	if all := float64(v.Write.Bytes); sum <= 0 || sum > 2*all {
		t.Errorf("seconds of %.3g bytes in all, and %.3g were written", sum, all)
	}
}

// TestDirectThatIsNot tests that a file system in memory, which accepts O_DIRECT without direct
// I/O, is detected.
func TestDirectThatIsNot(t *testing.T) {
	const shm = "/dev/shm"
	if s := fact.StorageOf(host.Live(), shm); s.Type != "tmpfs" {
		root.Missing(t, "%s is no tmpfs", shm)
	}
	dir, err := os.MkdirTemp(shm, "fettle-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	b, p := realBench(t, dir)
	prepare(t, b, p)
	for _, name := range []string{"read", "write", "randrw"} {
		c, _ := Find(name)
		v, err := b.Measure(t.Context(), p, c, 50*time.Millisecond, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(v.Doubts) == 0 || v.Doubts[0].Kind != Memory {
			t.Errorf("%s: %+v", name, v.Doubts)
		}
		// Also if it is unknown that it is memory.
		q := *p
		q.Storage = fact.Storage{Type: "odd", Device: "sda", Class: fact.ClassSSD}
		if d := doubts(c, &q, &v); len(d) == 0 || d[0].Kind != Cached {
			t.Errorf("%s on an odd device: %+v", name, d)
		}
	}
}

// await waits until a condition is true.
func await(t *testing.T, what string, ask func() bool) {
	t.Helper()
	if !root.Eventually(time.Minute, ask) {
		t.Fatalf("waited in vain for %s", what)
	}
}

// fios returns the processes that work on files of this process.
func fios() (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(text, fmt.Appendf(nil, "--filename=/proc/%d/fd/", os.Getpid())) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(name, "/proc/%d/", &pid); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestKilledAndInterrupted tests that a killed fio gives an error that says so, and that an
// interrupted one ends.
func TestKilledAndInterrupted(t *testing.T) {
	dir := t.TempDir()
	b, p := realBench(t, dir)
	prepare(t, b, p)
	c, _ := Find("read")
	for name, end := range map[string]func(context.CancelFunc){
		"killed":           func(context.CancelFunc) { _ = syscall.Kill(fios()[0], syscall.SIGKILL) },
		"context canceled": func(cancel context.CancelFunc) { cancel() },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := b.Measure(ctx, p, c, 10*time.Minute, 1, nil)
			done <- err
		}()
		await(t, "fio", func() bool { return len(fios()) > 0 })
		end(cancel)
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: goes on", name)
		}
		cancel()
		await(t, "the end of fio", func() bool { return len(fios()) == 0 })
	}
	nothing(t, dir)
}

// inNamespace runs the calling test again in a process with its own mounts, and returns true there.
func inNamespace(t *testing.T) bool {
	const place = "FETTLE_TEST_NAMESPACE"
	if os.Getenv(place) == t.Name() {
		return true
	}
	if os.Geteuid() != 0 {
		root.Missing(t, "mounting needs root")
	}
	c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	c.Env = append(os.Environ(), place+"="+t.Name())
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	out, err := c.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("in the namespace: %v\n%s", err, out)
	}
	return false
}

func TestDiskIsFullOrReadOnly(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	mount := func(source, dir, kind string, flags uintptr, data string) {
		t.Helper()
		if err := syscall.Mount(source, dir, kind, flags, data); err != nil {
			t.Fatal(err)
		}
	}
	mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	dir := t.TempDir()
	mount("tmpfs", dir, "tmpfs", 0, "size=40m")
	defer func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) }()
	p, err := LookAt(host.Live(), dir)
	if err != nil || p.Storage.Type != "tmpfs" || p.Storage.Class != fact.ClassMemory {
		t.Fatalf("%+v, %v", p, err)
	}
	if _, err := FileSize(0, p.FreeBytes, 1); err == nil || !strings.Contains(err.Error(), "a quarter of the free space is 10 MiB") {
		t.Errorf("%d bytes: %v", p.FreeBytes, err)
	}
	// Another program has filled it since.
	p.SizeBytes = LeastSize
	if err := p.Open(); err == nil || !strings.Contains(err.Error(), "cannot allocate a file of 64 MiB: no space left") {
		t.Errorf("%v", err)
	}
	nothing(t, dir)
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil || st.Bavail != st.Blocks {
		t.Errorf("%d of %d blocks are free, %v", st.Bavail, st.Blocks, err)
	}

	mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
	if _, err := LookAt(host.Live(), dir); err == nil || !strings.Contains(err.Error(), "read-only file system") {
		t.Errorf("%v", err)
	}
	// ramfs has no direct I/O, and no known size.
	mount("ramfs", dir, "ramfs", 0, "")
	defer func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) }()
	if p, err = LookAt(host.Live(), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := FileSize(0, p.FreeBytes, 1); err == nil {
		t.Error("a file of unknown room")
	}
	p.SizeBytes = LeastSize
	if err := p.Open(); err != nil || !strings.Contains(p.NoDirect, "ramfs) refuses O_DIRECT") {
		t.Errorf("%q, %v", p.NoDirect, err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestSweep tests that only files that a file system without unnamed files may leave behind are
// removed.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	keep := map[string]string{"mine": "", prefix + "full": "data", "other" + prefix + "1": ""}
	for name, text := range keep {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("mine", filepath.Join(dir, prefix+"link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, prefix+"123"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	sweep(host.Live().Files, dir)
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != len(keep)+1 {
		t.Errorf("%v, %v", left, err)
	}
	f, err := unnamed(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("data"); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(procPath(f)); err != nil || string(again) != "data" {
		t.Errorf("%q, %v", again, err)
	}
	if now, _ := os.ReadDir(dir); len(now) != len(left) {
		t.Errorf("%v", now)
	}
}
