package root

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// puppet returns the layer with Puppet Server, and below it the tree with the servers.
func puppet(t testing.TB) []string {
	t.Helper()
	return layer(t, "Puppet Server", "puppet")
}

// rpm returns the layer with rpm and dnf, and below it the tree with the servers.
func rpm(t testing.TB) []string {
	t.Helper()
	return layer(t, "rpm and dnf", "layer", "rpm")
}

// containers returns the layer with containerd, and below it the tree with the servers.
func containers(t testing.TB) []string {
	t.Helper()
	return layer(t, "containerd", "layer", "containers")
}

// Numactl returns a directory with Debian's programs numastat, numactl and numad.
func Numactl(t testing.TB) string {
	t.Helper()
	Nightly(t, "needs numactl")
	return filepath.Join(layer(t, "numactl", "layer", "numactl")[0], "usr/bin")
}

// SELinux returns a directory with Debian's SELinux policy and its programs.
func SELinux(t testing.TB) string {
	t.Helper()
	Nightly(t, "needs an SELinux policy")
	return layer(t, "SELinux", "layer", "selinux")[0]
}

// layer runs a script of test/root that prints a layer and the tree below it. Only the slow
// matrix uses layers, so the first test that needs one builds it. That takes two minutes and
// needs the network.
func layer(t testing.TB, what, script string, args ...string) []string {
	t.Helper()
	Servers(t)
	module, err := moduleDir()
	if err != nil {
		t.Fatal(err)
	}
	script = filepath.Join("test/root", script)
	out, err := exec.Command(filepath.Join(module, script), args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			os.Stderr.Write(exit.Stderr)
		}
		Missing(t, "the root with %s cannot be built: %s: %v", what, script, err)
	}
	trees := strings.Fields(string(out))
	if len(trees) != 2 {
		t.Fatalf("%s prints %q: want a layer and a tree", script, out)
	}
	return trees
}

// trixie returns the tree of a Debian 13 (test/root/trixie). The first test that needs it builds it:
// minutes and the network.
func trixie(t testing.TB) string {
	t.Helper()
	Nightly(t, "builds a Debian 13")
	c := exec.Command(filepath.Join(Module(t), "test/root/trixie"))
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		Missing(t, "Debian 13 cannot be built: test/root/trixie: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// ARM64 returns the directory with the disk and the kernel of a machine of arm64 with pages of
// 64 KiB (test/root/arm64). The first test that needs it builds it: half an hour and the network.
func ARM64(t testing.TB) string {
	t.Helper()
	Nightly(t, "builds a kernel of arm64")
	c := exec.Command(filepath.Join(Module(t), "test/root/arm64"))
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		Missing(t, "the machine of arm64 cannot be built: test/root/arm64: %v", err)
	}
	return strings.TrimSpace(string(out))
}
