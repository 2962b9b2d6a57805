package daemon_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/root"
)

// TestExperiment: a daemon that puts values back as soon as others change them keeps
// its hands off while fettle prove switches them, and is at work again afterwards.
func TestExperiment(t *testing.T) {
	root.Disposable(t)
	const place = "/proc/sys/vm/swappiness"
	dir := t.TempDir()
	p := &process{t: t, program: root.Program(t, "./cmd/fettle"), state: filepath.Join(dir, "state")}
	before, err := os.ReadFile(place)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Undo keeps what another program has written since, as this test does.
		exec.Command(p.program, "--state-dir", p.state, "undo").Run()
		if err := os.WriteFile(place, before, 0o644); err != nil {
			t.Error(err)
		}
	})
	p.fettle("tune", "throughput-performance")
	value := func() string {
		text, err := os.ReadFile(place)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	if value() != "10" {
		t.Fatalf("the profile has vm.swappiness = %s", value())
	}
	p.start("--enforce", "10s")

	work := filepath.Join(dir, "work")
	if err := os.WriteFile(work, []byte("sleep 0.3; echo took $((100 + $(cat "+place+")))\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(p.program, "--state-dir", p.state, "prove", "--force", "--metric", "took=took ([0-9]+)", "--unit", "s",
		"--change-cmd", "echo 60 >"+place, "--undo-cmd", "echo 10 >"+place, "--", "sh", work).CombinedOutput()
	// 110 without the change, 160 with it, and nothing between; the interval is as wide as
	// what does not matter.
	if err != nil || !strings.Contains(string(out), "slower by 45.5 %, interval 45.2 to 45.7 %") {
		t.Errorf("%v\n%s\n%s", err, out, p.log)
	}
	if err := os.WriteFile(place, []byte("33"), 0o644); err != nil {
		t.Fatal(err)
	}
	if !root.Eventually(time.Minute, func() bool { return value() == "10" }) {
		t.Errorf("after the experiment vm.swappiness stays at %s", value())
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait()
	if strings.Contains(p.log.String(), "is 60") {
		t.Errorf("the experiment's own switches are called drift: %s", p.log)
	}
	if !strings.Contains(p.log.String(), "fettle prove is running; nothing is written until it ends") {
		t.Errorf("the log: %s", p.log)
	}
}
