package host_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/root"
)

// where is a program that prints in which root it runs.
const where = `package main

import (
	"fmt"
	"os"
)

func main() {
	dir, _ := os.Getwd()
	all, _ := os.ReadDir("/")
	fmt.Print(dir)
	for _, d := range all {
		fmt.Print(" ", d.Name())
	}
}
`

// A node's programs run in its root, and its links lead inside it.
func TestNodePrograms(t *testing.T) {
	if os.Geteuid() != 0 {
		root.Missing(t, "only root runs programs in another root")
	}
	root, src := t.TempDir(), t.TempDir()
	bin := filepath.Join(root, "usr/bin")
	for _, err := range []error{
		os.MkdirAll(bin, 0o755),
		os.WriteFile(filepath.Join(src, "main.go"), []byte(where), 0o600),
		os.Symlink("/usr/bin/where", filepath.Join(bin, "inside")),
		os.Symlink(os.Args[0], filepath.Join(bin, "outside")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-o", filepath.Join(bin, "where"), filepath.Join(src, "main.go"))
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	h := host.Node(root)
	for name, want := range map[string]string{"where": "/usr/bin/where", "inside": "/usr/bin/inside", "outside": ""} {
		got, err := h.Exec.LookPath(name)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q %v, want %q", name, got, err, want)
		}
	}
	res, err := h.Exec.Run(t.Context(), host.Command{Argv: []string{"inside"}})
	if err != nil || string(res.Stdout) != "/ usr" {
		t.Errorf("it runs in %q, %v", res.Stdout, err)
	}
	if _, err := h.Exec.LookPath("sh"); err == nil {
		t.Error("a program of this process's root is found")
	}
}

// Device files are read on a node, but not in a copy.
func TestNodeDevices(t *testing.T) {
	if b, err := host.Node("/").Files.ReadFile("/dev/null"); err != nil || len(b) != 0 {
		t.Errorf("%q %v", b, err)
	}
	if _, err := host.Mounted("/").Files.ReadFile("/dev/null"); err == nil {
		t.Error("read")
	}
}

// A node has network devices only if its root shows this kernel's processes.
func TestNodeNetwork(t *testing.T) {
	if _, err := host.Node(t.TempDir()).Net.Links(); !host.Unknown(err) {
		t.Errorf("a tree of files: %v", err)
	}
	if links, err := host.Node("/").Net.Links(); err != nil || len(links) == 0 {
		t.Errorf("this machine: %v %v", links, err)
	}
}

func TestApart(t *testing.T) {
	root := t.TempDir()
	if apart, err := host.ForeignNamespaces(root); err != nil || len(apart) != 0 {
		t.Errorf("a tree of files: %v %v", apart, err)
	}
	dir := filepath.Join(root, "proc/1/ns")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"net", "ipc", "uts", "pid"} {
		to, err := os.Readlink("/proc/self/ns/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if name == "net" || name == "pid" {
			to = name + ":[1]"
		}
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if apart, err := host.ForeignNamespaces(root); err != nil || !slices.Equal(apart, []string{"net", "pid"}) {
		t.Errorf("%v %v", apart, err)
	}
}
