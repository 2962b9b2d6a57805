package daemon_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/root"
)

// answer is what the test looks at in fettle why.
type answer struct {
	LastWriter *struct {
		Process   string `json:"process"`
		PID       int    `json:"pid"`
		ParentPID int    `json:"parent_pid"`
		Command   string `json:"command"`
		Old, New  string
		Time      time.Time
	} `json:"last_writer"`
	Unknown  string `json:"last_writer_unknown"`
	Watching bool
}

// TestLastWriter: while the real daemon watches, programs write a kernel variable
// and an attribute of sysfs, one that lives on and many that end at once; fettle
// why names them, also after the daemon has ended.
func TestLastWriter(t *testing.T) {
	root.Disposable(t)
	const variable = "/proc/sys/vm/swappiness"
	attributes, err := filepath.Glob("/sys/block/*/queue/read_ahead_kb")
	if err != nil || len(attributes) == 0 {
		root.Missing(t, "this machine has no disk")
	}
	attribute := attributes[0]
	for _, p := range []string{variable, attribute} {
		was, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.WriteFile(p, was, 0o644); err != nil {
				t.Error(err)
			}
		})
	}
	dir := t.TempDir()
	machine.WriteFile(t, dir, "profiles/two/tuned.conf", fmt.Sprintf("[sysctl]\nvm.swappiness=41\n[sysfs]\n%s=256\n", attribute))
	p := &process{t: t, program: root.Program(t, "./cmd/fettle"), state: filepath.Join(dir, "state")}
	why := func(place string) (a answer) {
		t.Helper()
		out, err := exec.Command(p.program, "--state-dir", p.state, "why", place, "--output", "json").Output()
		if err == nil {
			err = json.Unmarshal(out, &a)
		}
		if err != nil {
			t.Fatalf("fettle why %s: %v\n%s", place, err, out)
		}
		return a
	}
	until := func(place, what string, want func(answer) bool) answer {
		t.Helper()
		var a answer
		if !root.Eventually(time.Minute, func() bool { a = why(place); return want(a) }) {
			t.Fatalf("%s: %s: last writer %+v, %q, watching %v\n%s", place, what, a.LastWriter, a.Unknown, a.Watching, p.log)
		}
		return a
	}

	p.start()
	t.Cleanup(func() { exec.Command(p.program, "--state-dir", p.state, "undo").Run() })
	if a := why(variable); a.LastWriter != nil || !strings.Contains(a.Unknown, "watches only settings of the active profile") {
		t.Errorf("before a selection: %+v %q", a.LastWriter, a.Unknown)
	}
	p.fettle("tune", "--profile-dir", filepath.Join(dir, "profiles"), "two")
	// Its own writes and those of the command line are not another program's.
	for _, place := range []string{variable, attribute} {
		until(place, "watched, not written", func(a answer) bool {
			return a.Watching && a.LastWriter == nil && strings.Contains(a.Unknown, "no writes since")
		})
	}
	// A shell that lives on is named with its command line and parent.
	for place, value := range map[string]string{variable: "42", attribute: "512"} {
		before := time.Now().Add(-time.Second)
		shell := exec.Command("sh", "-c", "echo "+value+" >"+place+"; read end; true")
		stdin, err := shell.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := shell.Start(); err != nil {
			t.Fatal(err)
		}
		a := until(place, "written by a shell", func(a answer) bool { return a.LastWriter != nil && a.LastWriter.New == value })
		w := a.LastWriter
		if w.Process != "sh" || w.PID != shell.Process.Pid || w.ParentPID != os.Getpid() || w.Time.Before(before) || !strings.HasPrefix(w.Command, "sh -c echo ") {
			t.Errorf("%s: last writer %+v, want sh %d of %d", place, w, shell.Process.Pid, os.Getpid())
		}
		stdin.Close()
		if err := shell.Wait(); err != nil {
			t.Fatal(err)
		}
		verify, _ := exec.Command(p.program, "--state-dir", p.state, "verify").CombinedOutput()
		if want := fmt.Sprintf("sh (process %d) wrote %s", shell.Process.Pid, value); !strings.Contains(string(verify), want) {
			t.Errorf("fettle verify does not say %q:\n%s", want, verify)
		}
	}
	// Programs that end at once: the last one is told by its number, and never
	// as another program.
	last := exec.Command("sh", "-c", "for i in $(seq 200); do echo $((i%3+50)) | dd of="+variable+" 2>/dev/null; done; echo 99 | dd of="+variable+" 2>/dev/null & echo $!; wait")
	out, err := last.Output()
	if err != nil {
		t.Fatal(err)
	}
	a := until(variable, "written by many", func(a answer) bool {
		return a.LastWriter != nil && a.LastWriter.New == "99" && fmt.Sprint(a.LastWriter.PID) == strings.TrimSpace(string(out))
	})
	if w := a.LastWriter; w.Process != "dd" && w.Process != "" {
		t.Errorf("last of a burst %+v", w)
	}
	// What it saw stays known.
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the daemon ended with %v\n%s", err, p.log)
	}
	if b := why(variable); b.Watching || b.LastWriter == nil || b.LastWriter.PID != a.LastWriter.PID {
		t.Errorf("after its end: %+v", b)
	}
	if !strings.Contains(p.log.String(), "drift: sysctl:vm.swappiness is 42, the active profile wants 41") {
		t.Errorf("the daemon's log says nothing of the drift:\n%s", p.log)
	}
}
