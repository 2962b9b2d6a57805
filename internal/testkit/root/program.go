package root

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var (
	programsMu sync.Mutex
	programs   = map[string]string{}
)

// Program builds a main package of this repository ("./cmd/fettle") without cgo, as
// it is shipped, and returns the path of the binary. It is built once per test
// process and kept in the cache next to the test root, one per work tree. Only if
// programs are measured (FETTLE_BENCH=1) the profile of releases is used,
// for which every package is compiled again.
func Program(t testing.TB, pkg string) string {
	t.Helper()
	programsMu.Lock()
	defer programsMu.Unlock()
	if p, ok := programs[pkg]; ok {
		return p
	}
	root, err := cacheDir()
	if err != nil {
		t.Fatal(err)
	}
	module := Module(t)
	dir := filepath.Join(filepath.Dir(root), "programs")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(module + "\x00" + pkg))
	p := filepath.Join(dir, fmt.Sprintf("%s-%x", filepath.Base(pkg), sum[:4]))
	// Another test process may run the program that is replaced here.
	partial := fmt.Sprintf("%s.%d", p, os.Getpid())
	defer os.Remove(partial)
	// What is up to date is not linked again.
	if err := os.Link(p, partial); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	args := []string{"build", "-trimpath"}
	if os.Getenv("FETTLE_BENCH") != "1" {
		args = append(args, "-pgo=off")
	}
	c := exec.Command("go", append(args, "-o", partial, pkg)...)
	c.Dir = module
	// Without go.work nothing of Kubernetes is fetched; with it kubectl-fettle shares what
	// is compiled of the host module.
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if strings.HasPrefix(pkg, "./kube/") {
		c.Env = append(c.Env, "GOWORK=")
	}
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, out)
	}
	if err := os.Rename(partial, p); err != nil {
		t.Fatal(err)
	}
	programs[pkg] = p
	return p
}
