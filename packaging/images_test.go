package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/root"
)

// TestImages builds the images of both programs with podman, without a daemon, and starts them.
func TestImages(t *testing.T) {
	root.Nightly(t, "builds images with podman")
	for _, program := range []string{"podman", "runc"} {
		if _, err := exec.LookPath(program); err != nil {
			root.Missing(t, "%s", program)
		}
	}
	podman := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("podman", append([]string{"--runtime", "runc"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("podman %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	for image, c := range map[string]struct{ file, main string }{
		"fettle":         {"Containerfile", "./cmd/fettle"},
		"kubectl-fettle": {"../kube/deploy/Containerfile", "./kube/cmd/kubectl-fettle"},
	} {
		dir := t.TempDir()
		build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, "bin", image), c.main)
		build.Dir, build.Env = "..", append(os.Environ(), "GOWORK=", "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		name := "localhost/" + image + ":test"
		podman("build", "--quiet", "--file", c.file, "--tag", name, dir)
		t.Cleanup(func() { podman("rmi", "--force", name) })
		// The limits that podman sets by default are above what a container may set.
		run := []string{"run", "--rm", "--read-only", "--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", "--volume", "/:/host:ro", name}
		if out := podman(append(run, "version")...); !strings.Contains(out, image+" ") {
			t.Errorf("%s version: %s", image, out)
		}
		if image == "kubectl-fettle" {
			continue // its other verbs need a cluster
		}
		if out := podman(append(run, "check", "linux", "--root", "/host")...); !strings.Contains(out, "(linux)") {
			t.Errorf("check: %s", out)
		}
	}
}
