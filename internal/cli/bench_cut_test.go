package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/disk"
)

// fakeFio is a fio that measures nothing and always prints the same, so many times; then
// it does not end.
func fakeFio(t *testing.T, times int) string {
	t.Helper()
	const side = `{"io_bytes": 4096000, "bw_bytes": 4096000, "iops": 1000, "runtime": 1000, "total_ios": 1000,
 "lat_ns": {"N": 1000, "mean": 1000000}, "clat_ns": {"N": 1000, "mean": 1000000, "percentile": {"50.000000": 900000, "99.000000": 3000000, "99.900000": 4000000}}}`
	path := filepath.Join(t.TempDir(), "fio")
	text := "#!/bin/sh\n[ \"$1\" = --version ] && { echo fio-3.33; exit; }\n" +
		fmt.Sprintf("echo >>%[1]s.calls; [ $(wc -l <%[1]s.calls) -le %[2]d ] || sleep 1000\n", path, times) + "cat <<'END'\n" +
		`{"fio version": "fio-3.33", "jobs": [{"error": 0, "read": ` + side + `, "write": ` + side + `,
 "sync": {"lat_ns": {"N": 1000, "mean": 1000000, "percentile": {"50.000000": 900000, "99.000000": 3000000, "99.900000": 4000000}}}, "usr_cpu": 1, "sys_cpu": 1}]}` + "\nEND\n"
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// watched is a writer that the test reads too.
type watched struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// TestBenchCut: a bench that is interrupted leaves a record of the measurements that were
// finished.
func TestBenchCut(t *testing.T) {
	dir, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
	fettle := func(args ...string) *exec.Cmd {
		return fettleCommand(t, append([]string{"--state-dir", state}, args...)...)
	}
	cmd := fettle("bench", "disk", "--size", "64MiB", "--fio", fakeFio(t, 2+5), dir) // the data, the queue, and five measurements
	var said watched
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	await(t, "five measurements", func() bool { return finishedParts(state) == 5 })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	m := regexp.MustCompile(`fettle: interrupted: the files are removed; the measurements so far are stored as run ([0-9a-f]{16})\n`).FindStringSubmatch(said.String())
	if code := cmd.ProcessState.ExitCode(); code != 130 || m == nil {
		t.Fatalf("exit code %d: %s", code, said.String())
	}
	if !strings.HasPrefix(out.String(), "interrupted after ") || !strings.Contains(out.String(), "incomplete") || !strings.Contains(out.String(), "measured only 1 of 3 times") {
		t.Errorf("%s", out.String())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
	r, err := (evidence.Store{Dir: filepath.Join(state, "runs")}).Get(m[1])
	if err != nil {
		t.Fatal(err)
	}
	var e disk.Evidence
	if err := json.Unmarshal(r.Body, &e); err != nil {
		t.Fatal(err)
	}
	if e.Cut == nil || *e.Cut != (evidence.Interruption{Done: 5, Planned: 60, Of: "measurements"}) || e.Verdict != disk.NoVerdict || len(e.Places[0].Results) != 5 || !strings.HasPrefix(r.Verdict, e.Cut.String()+": ") {
		t.Errorf("%+v %s", e.Cut, r.Verdict)
	}
	bodyValid(t, r)
	list, err := fettle("runs", "list").CombinedOutput()
	if err != nil || !strings.Contains(string(list), "  interrupted  ") || strings.Contains(string(list), "resumed") {
		t.Errorf("%v: %s", err, list)
	}
}
