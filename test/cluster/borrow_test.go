package cluster

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/root"
)

// TestWhatIsLeftIsSeen: a control group that has been left, with a process in it, is
// among what a test would fail for, and neither is removed in silence.
func TestWhatIsLeftIsSeen(t *testing.T) {
	root.Disposable(t)
	if os.Geteuid() != 0 {
		root.Missing(t, "making control groups needs root")
	}
	group := "/fettle-" + filepath.Base(filepath.Dir(t.TempDir()))
	before := look(group)
	if err := makeCgroup(group); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(hierarchies()[0], group)
	stays := exec.Command("sleep", "1000")
	stays.Env = []string{cgroupEnv + "=" + group}
	if err := stays.Start(); err != nil {
		t.Fatal(err)
	}
	end := func() {
		_ = stays.Process.Kill()
		_ = stays.Wait()
	}
	t.Cleanup(func() { end(); _ = removeCgroup(group, time.Second) })
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), fmt.Append(nil, stays.Process.Pid), 0); err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, d := range before.Diff(look(group)) {
		seen = append(seen, d.String())
	}
	all := strings.Join(seen, "\n")
	for _, want := range []string{"control group " + dir + ": made", fmt.Sprintf("process %d: made", stays.Process.Pid)} {
		if !strings.Contains(all, want) {
			t.Errorf("not seen: %s; but\n%s", want, all)
		}
	}
	if err := removeCgroup(group, 300*time.Millisecond); err == nil || !strings.Contains(err.Error(), fmt.Sprint(stays.Process.Pid)) {
		t.Errorf("removing a control group with process %d in it: %v", stays.Process.Pid, err)
	}
	end()
	if err := removeCgroup(group, time.Second); err != nil {
		t.Error(err)
	}
	if left := before.Diff(look(group)); len(left) > 0 {
		t.Errorf("left after all: %v", left)
	}
}

// TestKilled: what a test has left that was killed under its cluster goes back when the
// next one begins.
func TestKilled(t *testing.T) {
	const killed = "FETTLE_TEST_KILLED"
	if os.Getenv(killed) != "" {
		borrow(t)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	root.Disposable(t)
	if os.Geteuid() != 0 {
		root.Missing(t, "making control groups needs root")
	}
	t.Run("earlier", borrow) // gives back what an earlier run has left, which the comparison would report
	settings, before := root.Settings(), look(cgroup)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, "-test.run", "^TestKilled$")
	c.Env = append(os.Environ(), killed+"=1")
	if out, err := c.CombinedOutput(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the one to be killed: %v\n%s", err, out)
	}
	if len(settings.Differences(root.Settings())) == 0 && len(before.Diff(look(cgroup))) == 0 {
		t.Error("the one that was killed has left nothing")
	}
	t.Run("next", borrow)
	for _, line := range settings.Differences(root.Settings()) {
		t.Errorf("left behind: %s", line)
	}
	for _, d := range before.Diff(look(cgroup)) {
		t.Errorf("left behind: %s", d)
	}
}

// TestKept: a value that fettle undo did not give back is named.
func TestKept(t *testing.T) {
	const undone = `{"schema": "fettle/undo/v1", "values": [
		{"setting": "sysctl:kernel.panic", "found": "10", "to": "1", "state": "restored"},
		{"setting": "sysctl:vm.overcommit_memory", "found": "2", "to": "0", "state": "kept", "why": "somebody has changed it"}]}`
	if got := strings.Join(keptValues([]byte(undone)), "; "); got != "sysctl:vm.overcommit_memory (kept, somebody has changed it)" {
		t.Errorf("kept: %s", got)
	}
	if got := keptValues([]byte("fettle: no")); len(got) != 1 {
		t.Errorf("no JSON: %v", got)
	}
}

// TestImage: the parts of an image name each other by what they are.
func TestImage(t *testing.T) {
	i := image{config: map[string]any{"Entrypoint": []string{"/program"}}, files: []tarFile{{"program", 0o755, []byte("\x7fELF and so on")}}}
	var text bytes.Buffer
	if err := i.write(&text, "fettle.test/program:1"); err != nil {
		t.Fatal(err)
	}
	files := untar(t, &text)
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil || len(manifest) != 1 || len(manifest[0].Layers) != 1 {
		t.Fatalf("%v: %s", err, files["manifest.json"])
	}
	config, layer := files[manifest[0].Config], files[manifest[0].Layers[0]]
	if got, want := fmt.Sprintf("%x.json", sha256.Sum256(config)), manifest[0].Config; got != want {
		t.Errorf("the configuration %s is called %s", got, want)
	}
	var c struct {
		Config struct{ Entrypoint []string }
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	if err := json.Unmarshal(config, &c); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("[sha256:%x]", sha256.Sum256(layer)); got != fmt.Sprint(c.RootFS.DiffIDs) {
		t.Errorf("the layer is %s, the configuration says %v", got, c.RootFS.DiffIDs)
	}
	inside := untar(t, bytes.NewReader(layer))
	if fmt.Sprint(c.Config.Entrypoint) != "[/program]" || string(inside["program"]) != "\x7fELF and so on" {
		t.Errorf("entry point %v, files %q", c.Config.Entrypoint, inside)
	}
}

func untar(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}
