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

// Missing ends the test because a component is not there: it fails where every
// component is required (FETTLE_TEST_REQUIRE=1, as CI sets it) and skips
// elsewhere. The sentence should say how to get the component.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("FETTLE_TEST_REQUIRE") == "1" {
		t.Fatalf("required component is missing: "+format, args...)
	}
	t.Skipf(format, args...)
}

// Real ends a test under -short that needs more than a newcomer has: a Debian root, the
// rights of root, a browser, a virtual machine, minutes. New, Disposable and their like call
// it. Whatever -short leaves out whole ends here, so that test/summary can count it.
func Real(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip("make test-real runs it: " + why)
	}
}

// Rights ends a test that acts as root where it cannot: it makes root's files, say.
func Rights(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		Real(t, "needs the rights of root")
		Missing(t, "needs the rights of root; run the tests as root")
	}
}

// Sample returns how many of so many seeds, orders or machines a test tries: all, and one
// in eight under -short.
func Sample(all int) int {
	if testing.Short() {
		return max(1, all/8)
	}
	return all
}

// Nightly ends a test that is of the slow matrix, which make test-nightly runs.
func Nightly(t testing.TB, why string) {
	t.Helper()
	if testing.Short() || os.Getenv("FETTLE_TEST_NIGHTLY") != "1" {
		t.Skip("make test-nightly runs it: " + why)
	}
}

// Disposable skips the test unless FETTLE_TEST_DISPOSABLE=1 says that this
// machine may be changed: kernel settings, services, installed packages. Until
// the test ends it has the machine to itself, as Undisturbed says.
func Disposable(t testing.TB) {
	t.Helper()
	Real(t, "changes the machine")
	if os.Getenv("FETTLE_TEST_DISPOSABLE") != "1" {
		Missing(t, "changes this machine's kernel settings; set FETTLE_TEST_DISPOSABLE=1 where that is harmless")
	}
	Undisturbed(t)
}

// Undisturbed lets no other test that changes the machine run until this one ends,
// in this process or another: go test runs packages side by side. Called again in
// the same test or its subtests it changes nothing.
func Undisturbed(t testing.TB) {
	t.Helper()
	test, _, _ := strings.Cut(t.Name(), "/")
	if holder := disposing.Load(); holder != nil && *holder == test {
		return
	}
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "fettle-test-machine.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrPermission) {
		return // root's: without its rights a test can neither change the machine nor make a root
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

// disposing is the test of this process that may change the machine.
var disposing atomic.Pointer[string]
