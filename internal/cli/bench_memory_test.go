package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/memory"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

const pool2M = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"

func poolSize(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(pool2M)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// benching is fettle bench memory on this machine, with its own state directory.
func benching(t *testing.T, state string, args ...string) *exec.Cmd {
	return fettleCommand(t, append([]string{"--state-dir", state, "bench", "memory"}, args...)...)
}

// bodyValid holds the body of a run against its schema.
func bodyValid(t *testing.T, r *evidence.Run) {
	t.Helper()
	if err := validate(r.Body); err != nil {
		t.Errorf("the body of run %s: %v", r.ID, err)
	}
}

// TestBenchMemory: reserved pages are measured and given back, the run is kept as the
// schemas say, and the verdicts are those of its samples.
func TestBenchMemory(t *testing.T) {
	testkitroot.Disposable(t)
	before, state := poolSize(t), filepath.Join(t.TempDir(), "state")
	cmd := benching(t, state, "--size", "32MiB", "--reads", "20000", "--cells", "4k,hugetlb-2m,4k-remote", "-o", "json")
	var talk strings.Builder
	cmd.Stderr = &talk
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, talk.String())
	}
	if err := validate(out); err != nil {
		t.Error(err)
	}
	var run evidence.Run
	if err := json.Unmarshal(out, &run); err != nil {
		t.Fatal(err)
	}
	bodyValid(t, &run)
	var b memory.Result
	if err := json.Unmarshal(run.Body, &b); err != nil || b.Schema != memory.Schema {
		t.Fatal(b.Schema, err)
	}
	series, err := evidence.SeriesOf(&run)
	if err != nil || len(series) != 4 || len(series[0].Samples) != memory.Rounds || run.Kind != "bench-memory" {
		t.Errorf("%s: %+v, %v", run.Kind, series, err)
	}
	if len(b.Comparisons) != 2 || b.Comparisons[0].Interval == nil || b.Cells[1].Huge != 1 {
		t.Errorf("%+v", b)
	}
	if len(b.Left) != 1 && len(b.Cells) != 3 || len(b.Left) == 1 && b.Left[0].Cell != "4k-remote" {
		t.Errorf("left out: %+v", b.Left)
	}
	if n := poolSize(t); n != before {
		t.Errorf("%d huge pages, %d before", n, before)
	}
	kept, err := evidence.Store{Dir: filepath.Join(state, "runs")}.All()
	if err != nil || len(kept) != 1 || kept[0].ID != run.ID {
		t.Errorf("kept: %v, %v", kept, err)
	}
	left, err := fettleCommand(t, "--state-dir", state, "undo").CombinedOutput()
	if !strings.Contains(string(left), "nothing") {
		t.Errorf("something is left to undo: %v %s", err, left)
	}
}

// TestBenchMemoryCutOff: pages that were reserved are given back after Ctrl-C, and by
// the watchdog after a kill -9.
func TestBenchMemoryCutOff(t *testing.T) {
	testkitroot.Disposable(t)
	before := poolSize(t)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		cmd := benching(t, filepath.Join(t.TempDir(), "state"), "--size", "32MiB", "--rounds", "1000", "--cells", "hugetlb-2m")
		var talk strings.Builder
		cmd.Stderr = &talk
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		await(t, "pages to be reserved", func() bool { return poolSize(t) == before+16 })
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		err := cmd.Wait()
		if signal == syscall.SIGINT && (cmd.ProcessState.ExitCode() != 130 || !strings.Contains(talk.String(), "interrupted")) {
			t.Errorf("%v: %s", err, talk.String())
		}
		await(t, "pages to be given back", func() bool { return poolSize(t) == before })
	}
}

func TestBenchMemoryRefused(t *testing.T) {
	p := newProving(t) // a machine of files, on which nothing runs
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--size 1TiB", 4, "more than a quarter of the available memory"},
		{"--size 3", 2, "3 has no unit; did you mean 3GiB?"},
		{"--size 3MiB", 2, "multiple of 2 MiB"},
		{"--size huge", 2, "--size"},
		{"--size 0", 2, "want at least 2 MiB"},
		{"--rounds 0", 2, "--rounds"},
		{"--rounds 1000000", 2, `--rounds "1000000": want 1 to 10,000`},
		{"--reads 10", 2, "--reads 10: "},
		{"--cells 8k", 2, "4k, thp"},
		{"--cells thp-remote", 1, "one node of memory"},
		{"DIR", 2, `unexpected argument "DIR"; want fettle bench memory`},
	} {
		cmd := p.command(append([]string{"bench", "memory"}, strings.Fields(c.args)...)...)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: exit %d, want %d: %s", c.args, code, c.code, out)
		}
	}
	cmd := p.command("--root", "/", "bench", "memory")
	if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "--root") {
		t.Errorf("%s", out)
	}
}
