// Package cluster gives tests a real Kubernetes on one machine: kube-apiserver,
// kube-controller-manager and kube-scheduler over an etcd, one kubelet with containerd
// where a test wants a real node, and kwok's nodes where it wants many.
//
// A cluster runs in a Debian root of the test's own (internal/testkit/root), with its own
// mounts, processes and network: its ports, /var/lib/kubelet, the network of its pods
// and whatever runs in them are of that root, and end with it. The test itself runs in
// there as well:
//
//	func TestSomething(t *testing.T) {
//		if !cluster.Inside(t, cluster.Setup{Node: true}) {
//			return
//		}
//		c := cluster.Start(t, cluster.Options{Node: "node1"})
//
// What a kubelet changes beyond its namespaces, the kernel's settings and control
// groups, Inside gives back (see borrow).
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

// Setup is what a test's root has to have before a cluster is started in it.
type Setup struct {
	// Node is for a cluster with a real kubelet. The test changes this machine then,
	// which needs FETTLE_TEST_DISPOSABLE=1.
	Node bool
	// Nightly says that the test is of the slow matrix alone.
	Nightly bool
	// Programs are main packages of the repository ("./cmd/fettle"), which the test
	// finds in its PATH by their last element.
	Programs []string
	// Given are programs of this machine, by the names by which the test finds them in its
	// PATH; one that is "" is not there. They are linked statically.
	Given map[string]string
	// Helm is for a test that finds Helm in its PATH, of the version in test/helm/go.mod.
	Helm bool
	// Within is how long the test may take; 0 is testroot's own, twenty minutes.
	Within time.Duration
	// Files are files of the repository, which the test finds in FilesDir by their last
	// element.
	Files []string
	// Shared is a directory of this machine, which the test finds as SharedDir and may write:
	// sockets in it lead out of the root's network. "" for none.
	Shared string
}

const (
	// FilesDir is where Setup.Files are.
	FilesDir = "/usr/local/share/fettle-test"
	// SharedDir is where Setup.Shared is.
	SharedDir = "/run/fettle-test"
)

const (
	// cgroupEnv names the control group that a kubelet keeps its pods in; it is set,
	// and may be empty, for every test that runs inside.
	cgroupEnv = "FETTLE_TEST_CGROUP"
	// programDir is in the PATH of a testroot.Root.
	programDir = "/usr/local/bin"
)

// Images that every cluster with a node has.
const (
	// Pause is the image of the container that holds a pod's namespaces.
	Pause = "fettle.test/pause:1"
	// Workload is the image of images/workload: it answers HTTP requests with where it
	// runs.
	Workload = "fettle.test/workload:1"
)

// programs are what test/cluster/build makes, and what a test finds in its PATH.
var programs = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet", "kwok"}

// Inside runs the calling test in a root of its own and is true in there, as
// testroot.Inside. It skips in short mode, and where the programs of Kubernetes have
// not been built, which only the slow matrix does by itself: that takes a quarter of an
// hour, once.
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

// buildScript builds the programs of Kubernetes, below the repository's root, and prints where
// it puts them.
const buildScript = "test/cluster/build"

// built is where the script puts the programs, and whether they are there.
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

// build makes the programs, which are not there.
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
