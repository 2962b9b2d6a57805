package root

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var (
	cacheDir   = sync.OnceValues(func() (string, error) { return built("--print") })
	serversDir = sync.OnceValues(func() (string, error) { return built("servers", "--print") })
)

// built returns the directory in which test/root/build puts a root.
func built(args ...string) (string, error) {
	module, err := moduleDir()
	if err != nil {
		return "", err
	}
	out, err := exec.Command(filepath.Join(module, "test/root/build"), args...).Output()
	if err != nil {
		return "", fmt.Errorf("test/root/build %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// moduleDir finds the directory of this repository above the test's working directory. It looks
// for the set-up, because modules below test/ have their own go.mod.
func moduleDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "test/root/build")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no test/root/build above the working directory")
		}
		dir = filepath.Dir(dir)
	}
}

// Module returns the directory of this repository.
func Module(t testing.TB) string {
	t.Helper()
	dir, err := moduleDir()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Cache returns the directory that test/root/build created, with root/, disk.ext4 and vmlinuz.
// It builds nothing.
func Cache(t testing.TB) string {
	t.Helper()
	Real(t, "reads the Debian test root")
	dir, err := cacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "complete")); err != nil {
		Missing(t, "the Debian test root is not built; run: sudo test/root/build")
	}
	return dir
}

// Dir returns the Debian test root's tree, which must not be written to.
func Dir(t testing.TB) string {
	t.Helper()
	return filepath.Join(Cache(t), "root")
}

// Servers returns the tree of the second root, which contains the servers whose tuning is
// tested (test/root/servers). It must not be written to.
func Servers(t testing.TB) string {
	t.Helper()
	Real(t, "reads the Debian root with the servers")
	dir, err := serversDir()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "complete")); err != nil {
		Missing(t, "the Debian root with the servers is not built; run: sudo test/root/build servers")
	}
	return filepath.Join(dir, "root")
}
