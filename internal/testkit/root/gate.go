package root

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// Missing ends the test because a component is missing. The test fails if every component is
// required (FETTLE_TEST_REQUIRE=1, as in CI), and is skipped otherwise. The message should say
// how to get the component.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("FETTLE_TEST_REQUIRE") == "1" {
		t.Fatalf("required component is missing: "+format, args...)
	}
	t.Skipf(format, args...)
}

// Real skips a test under -short if it needs more than a new contributor has: a Debian root,
// root privileges, a browser, a virtual machine, minutes. New, Disposable and similar functions
// call it. All tests that -short skips entirely end here, so that test/summary can count them.
func Real(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip("make test-real runs it: " + why)
	}
}

// Rights ends a test that needs root privileges if the process has none.
func Rights(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		Real(t, "needs the rights of root")
		Missing(t, "needs the rights of root; run the tests as root")
	}
}

// Sample returns the number of seeds, orders or machines that a test tries: all, or one in
// eight under -short.
func Sample(all int) int {
	if testing.Short() {
		return max(1, all/8)
	}
	return all
}

// Some returns the items that a test tries: all, or one in eight under -short, evenly spread.
func Some[T any](all []T) []T {
	each := max(1, len(all)/Sample(max(1, len(all))))
	var some []T
	for i := 0; i < len(all); i += each {
		some = append(some, all[i])
	}
	return some
}

// Nightly skips a test of the slow matrix, unless make test-nightly runs it.
func Nightly(t testing.TB, why string) {
	t.Helper()
	if testing.Short() || os.Getenv("FETTLE_TEST_NIGHTLY") != "1" {
		t.Skip("make test-nightly runs it: " + why)
	}
}

// Disposable skips the test unless FETTLE_TEST_DISPOSABLE=1 permits changing this machine:
// kernel settings, services, installed packages. No other such test runs until it ends (see
// Undisturbed).
func Disposable(t testing.TB) {
	t.Helper()
	Real(t, "changes the machine")
	if os.Getenv("FETTLE_TEST_DISPOSABLE") != "1" {
		Missing(t, "changes this machine's kernel settings; set FETTLE_TEST_DISPOSABLE=1 where that is harmless")
	}
	Undisturbed(t)
}

// Undisturbed prevents other tests that change the machine from running until this one ends, in
// this process or another, because go test runs packages concurrently. Further calls in the
// same test or its subtests have no effect.
func Undisturbed(t testing.TB) {
	t.Helper()
	test, _, _ := strings.Cut(t.Name(), "/")
	if holder := disposing.Load(); holder != nil && *holder == test {
		return
	}
	lock, err := os.OpenFile("/tmp/fettle-test-machine.lock", os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrPermission) {
		return // owned by root; without root privileges a test can neither change the machine nor make a root
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	disposing.Store(&test)
	t.Cleanup(func() { disposing.Store(nil); lock.Close() })
}

// Untuned sets values that no profile of fettle wants, until the test ends. Where a tuned machine is
// tested, or one on which a test run was killed, a profile would otherwise change nothing.
func Untuned(t testing.TB) {
	t.Helper()
	Disposable(t)
	for name, value := range map[string]string{"swappiness": "61", "dirty_ratio": "21", "dirty_background_ratio": "11"} {
		path := filepath.Join("/proc/sys/vm", name)
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(before) == "0\n" && name != "swappiness" {
			continue // the limit in bytes is in force, and 0 cannot be written back
		}
		if err := os.WriteFile(path, []byte(value), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.WriteFile(path, before, 0o644); err != nil {
				t.Error(err)
			}
		})
	}
}

// disposing is the name of the test in this process that may change the machine.
var disposing atomic.Pointer[string]
