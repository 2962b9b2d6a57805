package root

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

var (
	programsMu sync.Mutex
	programs   = map[string]string{}
)

// Program builds a main package of this repository ("./cmd/fettle") without cgo, as for a
// release, and returns the path of the binary. It builds it once per test process and stores it
// in the cache next to the test root, one per work tree. The release profile, for which all
// packages are compiled again, is used only for measurements (FETTLE_BENCH=1).
func Program(t testing.TB, pkg string) string {
	t.Helper()
	return ProgramFor(t, runtime.GOARCH, pkg)
}

// ProgramFor builds a main package like Program, for a machine of the architecture arch ("arm64").
func ProgramFor(t testing.TB, arch, pkg string) string {
	t.Helper()
	programsMu.Lock()
	defer programsMu.Unlock()
	if p, ok := programs[arch+pkg]; ok {
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
	id := module + "\x00" + pkg
	if arch != runtime.GOARCH {
		id += "\x00" + arch
	}
	sum := sha256.Sum256([]byte(id))
	p := filepath.Join(dir, fmt.Sprintf("%s-%x", filepath.Base(pkg), sum[:4]))
	// Another test process may be running the program that is replaced here.
	partial := fmt.Sprintf("%s.%d", p, os.Getpid())
	defer os.Remove(partial)
	// An up-to-date program is not linked again.
	if err := os.Link(p, partial); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	args := []string{"build", "-trimpath"}
	if os.Getenv("FETTLE_BENCH") != "1" {
		args = append(args, "-pgo=off")
	}
	c := exec.Command("go", append(args, "-o", partial, pkg)...)
	c.Dir = module
	// Without go.work no Kubernetes module is downloaded; with it kubectl-fettle shares the
	// compiled packages of the host module.
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOARCH="+arch)
	if strings.HasPrefix(pkg, "./kube/") {
		c.Env = append(c.Env, "GOWORK=")
	}
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, out)
	}
	if err := os.Rename(partial, p); err != nil {
		t.Fatal(err)
	}
	programs[arch+pkg] = p
	return p
}
