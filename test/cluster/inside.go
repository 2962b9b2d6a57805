// Package cluster gives tests a real Kubernetes on one machine: etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler. If a test needs a real node, there is a kubelet with
// containerd; if it needs many nodes, they are kwok's.
//
// A cluster runs in the test's own Debian root (internal/testkit/root), which has its own mounts,
// processes and network. So its ports, /var/lib/kubelet, the network of its pods and the processes
// in them belong to that root, and end with it. The test itself also runs in the root:
//
//	func TestSomething(t *testing.T) {
//		if !cluster.Inside(t, cluster.Setup{Node: true}) {
//			return
//		}
//		c := cluster.Start(t, cluster.Options{Node: "node1"})
//
// A kubelet also changes kernel settings and control groups outside of its namespaces. Inside
// restores them (see borrow).
package cluster

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/root"
)

// Setup describes the root in which a test starts a cluster.
type Setup struct {
	// Node allows a cluster with a real kubelet. The test then changes this machine, which
	// needs FETTLE_TEST_DISPOSABLE=1.
	Node bool
	// Nightly reports whether the test belongs only to the slow matrix.
	Nightly bool
	// Programs are main packages of the repository ("./cmd/fettle"). The test finds each in its
	// PATH by its last element.
	Programs []string
	// Given maps names to programs of this machine, which the test finds in its PATH by these
	// names. A program "" is omitted. The programs must be linked statically.
	Given map[string]string
	// Helm puts Helm into the test's PATH, in the version of test/helm/go.mod.
	Helm bool
	// Within limits the time of the test; 0 means the default of package root, twenty minutes.
	Within time.Duration
	// Files are files of the repository. The test finds each in FilesDir by its last element.
	Files []string
	// Shared is a directory of this machine that the test finds as SharedDir and may write to;
	// "" means none. Sockets in it connect the root with programs outside of its network.
	Shared string
}

const (
	// FilesDir is where Setup.Files are.
	FilesDir = "/usr/local/share/fettle-test"
	// SharedDir is where Setup.Shared is.
	SharedDir = "/run/fettle-test"
)

const (
	// cgroupEnv is the variable with the parent of the control groups of the kubelet's pods. It
	// is set for every test that runs inside, and may be empty.
	cgroupEnv = "FETTLE_TEST_CGROUP"
	// programDir is a directory in the PATH of a root.Root.
	programDir = "/usr/local/bin"
)

// Images of every cluster with a real node.
const (
	// Pause is the image of the container that holds a pod's namespaces.
	Pause = "fettle.test/pause:1"
	// Workload is the image of images/workload, which answers HTTP requests with the place in
	// which it runs.
	Workload = "fettle.test/workload:1"
)

// programs are the programs that test/cluster/build creates. A test finds them in its PATH.
var programs = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet", "kwok"}

// Inside runs the calling test in its own root, and returns true there, like root.Inside. It skips
// the test in short mode. It also skips it if the programs of Kubernetes have not been built; only
// the slow matrix builds them by itself, which takes a quarter of an hour once.
func Inside(t *testing.T, s Setup) bool {
	t.Helper()
	if _, inside := os.LookupEnv(cgroupEnv); inside {
		return root.Inside(t, root.Options{})
	}
	const why = "starts a real Kubernetes; to build it: test/cluster/build"
	root.Real(t, why)
	dir, have := built(t)
	if s.Nightly || !have {
		root.Nightly(t, why)
	}
	if os.Geteuid() != 0 {
		root.Missing(t, "a cluster runs in namespaces of its own, which needs root")
	}
	if s.Node {
		root.Disposable(t)
	}
	if !have {
		build(t)
	}
	if *record {
		recordPass(t, dir)
	}

	o := root.Options{Servers: true, Within: s.Within}
	show := func(program, as string) {
		o.Binds = append(o.Binds, root.Bind{Source: program, Target: filepath.Join(programDir, as), ReadOnly: true})
	}
	for _, name := range programs {
		show(filepath.Join(dir, name), name)
	}
	for _, pkg := range s.Programs {
		show(root.Program(t, pkg), filepath.Base(pkg))
	}
	for name, program := range s.Given {
		if program == "" {
			continue
		}
		program, err := filepath.Abs(program)
		if err == nil {
			_, err = os.Stat(program)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		show(program, name)
	}
	if s.Helm {
		show(helm(t), "helm")
	}
	for _, name := range s.Files {
		o.Binds = append(o.Binds, root.Bind{Source: filepath.Join(root.Module(t), name), Target: filepath.Join(FilesDir, filepath.Base(name)), ReadOnly: true})
	}
	if s.Shared != "" {
		o.Binds = append(o.Binds, root.Bind{Source: s.Shared, Target: SharedDir})
	}
	inCgroup := ""
	if s.Node {
		for _, name := range []string{"pause", "workload"} {
			show(static(t, "./images/"+name), name)
		}
		o.Containers, o.Live, o.OwnNet, o.OwnProcesses = true, true, true, true
		// A kubelet reads there which process the kernel has killed for want of memory.
		o.Binds = append(o.Binds, root.Bind{Source: "/dev/kmsg"})
		borrow(t)
		inCgroup = cgroup
	}
	o.Env = append(o.Env, cgroupEnv+"="+inCgroup)
	return root.Inside(t, o)
}

// buildScript builds the programs of Kubernetes and prints their directory. Its path is relative to
// the root of the repository.
const buildScript = "test/cluster/build"

// built returns the directory of the programs, and whether they have been built.
func built(t *testing.T) (dir string, have bool) {
	t.Helper()
	out, err := exec.Command(filepath.Join(root.Module(t), buildScript), "--print").Output()
	if err != nil {
		t.Fatalf("%s --print: %v", buildScript, err)
	}
	dir = strings.TrimSpace(string(out))
	_, err = os.Stat(filepath.Join(dir, "complete"))
	return dir, err == nil
}

// build builds the missing programs.
func build(t *testing.T) {
	t.Helper()
	if _, err := exec.Command(filepath.Join(root.Module(t), buildScript)).Output(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			os.Stderr.Write(exit.Stderr)
		}
		root.Missing(t, "Kubernetes cannot be built: %s: %v", buildScript, err)
	}
}

// helm builds Helm, and returns its path in Go's build cache.
func helm(t *testing.T) string {
	t.Helper()
	c := exec.Command("go", "tool", "-n", "helm")
	c.Dir = filepath.Join(root.Module(t), "test/helm")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	out, err := c.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			os.Stderr.Write(exit.Stderr)
		}
		root.Missing(t, "Helm cannot be built in test/helm: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// static builds a main package of this module.
func static(t *testing.T, pkg string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), filepath.Base(pkg))
	c := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, pkg)
	c.Dir = filepath.Join(root.Module(t), "test/cluster")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, out)
	}
	return program
}
