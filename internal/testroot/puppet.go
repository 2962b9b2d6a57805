package testroot

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// puppet returns the layer with Puppet Server and the tree with the servers, over
// which it is laid (test/root/puppet). It is of the slow matrix alone, so it is built
// by the first test that wants it: that takes two minutes and the network.
func puppet(t testing.TB) []string {
	t.Helper()
	Servers(t)
	module, err := moduleDir()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(module, "test/root/puppet")).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			os.Stderr.Write(exit.Stderr)
		}
		Missing(t, "the root with Puppet Server cannot be built: test/root/puppet: %v", err)
	}
	trees := strings.Fields(string(out))
	if len(trees) != 2 {
		t.Fatalf("test/root/puppet prints %q: want a layer and a tree", out)
	}
	return trees
}
