package cli

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/experiment"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// TestBenchKilled: after kill -9 at any moment what was finished is kept, listed and
// shown; on the disk nothing is left, and the next bench notices nothing.
func TestBenchKilled(t *testing.T) {
	testkitroot.Rights(t)
	fio := fakeFio(t, 1000)
	for name, x := range map[string]struct {
		args    []string
		of      string
		planned int
	}{
		"disk":   {[]string{"bench", "disk", "--size", "64MiB", "--fio", fio}, "measurements", 60},
		"memory": {[]string{"bench", "memory", "--size", "2MiB", "--reads", "1000", "--rounds", "1000", "--cells", "4k", "--no-reserve"}, "rounds", 1000},
	} {
		for range testkitroot.Sample(6) {
			dir, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
			fettle := func(args ...string) *exec.Cmd {
				return fettleCommand(t, append([]string{"--state-dir", state}, args...)...)
			}
			args := x.args
			if name == "disk" {
				args = append(slices.Clip(args), dir)
			}
			cmd := fettle(args...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			// At the beginning of this one those before it are finished.
			at := 2 + rand.IntN(50)
			await(t, "a measurement", func() bool { return finishedParts(state) >= at-1 })
			text, listed := fettle("runs", "list").CombinedOutput()
			time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if cmd.Wait() == nil {
				continue // it was over already
			}
			if name == "memory" && (listed != nil || !strings.Contains(string(text), "  under-way  ") || !strings.Contains(string(text), "of 1,000 rounds are finished")) {
				t.Errorf("%s: %v %s", name, listed, text)
			}
			text, err := fettle("runs", "list", "-o", "json").Output()
			var list RunList
			if err != nil || json.Unmarshal(text, &list) != nil || validate(text) != nil || len(list.Runs) != 1 {
				t.Fatalf("%s: %v %s", name, err, text)
			}
			r := list.Runs[0]
			if r.State == "ended" {
				continue // its record was complete already
			}
			if r.State != "cut-off" || r.Resumable || r.Kind != "bench-"+name || !strings.HasPrefix(r.Verdict, "interrupted after ") {
				t.Errorf("%s: %+v", name, r)
			}
			text, err = fettle("runs", "show", r.Name, "-o", "json").Output()
			var shown evidence.Run
			if err != nil || json.Unmarshal(text, &shown) != nil || validate(text) != nil {
				t.Fatalf("%s: %v %s", name, err, text)
			}
			bodyValid(t, &shown)
			cut := evidence.InterruptionOf(&shown)
			if cut == nil || cut.Done < at-1 || cut.Planned != x.planned || cut.Of != x.of || shown.Machine.CPUs == 0 {
				t.Fatalf("%s: killed in %d: %v", name, at, cut)
			}
			if series, err := evidence.SeriesOf(&shown); err != nil || len(series) == 0 {
				t.Errorf("%s: %v, %v", name, series, err)
			}
			if text, err := fettle("runs", "show", r.Name).CombinedOutput(); err != nil || !strings.Contains(string(text), cut.String()) {
				t.Errorf("%s: %v %s", name, err, text)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("%s: left are %v, %v", name, left, err)
			}
			steps := [][2]string{
				{"runs export " + r.Name, "the run is in progress or was interrupted; fettle runs show prints its finished part"},
				{"prove --resume last", "no interrupted experiment found"},
				{"prove --resume " + r.Name, "is a bench-" + name + ", not an experiment"},
				{"runs prune --cut-off --yes", r.Name},
				{"runs show " + r.Name, "\" not found"},
			}
			for _, s := range steps {
				if text, _ := fettle(strings.Fields(s[0])...).CombinedOutput(); !strings.Contains(string(text), s[1]) {
					t.Errorf("%s: %s: %s", name, s[0], text)
				}
			}
			if left, err := os.ReadDir(filepath.Join(state, "runs")); err != nil || len(left) > 0 {
				t.Errorf("%s: left are %v, %v", name, left, err)
			}
		}
	}
}

// finishedParts returns the number of measurements that the run in progress of a state directory
// has finished.
func finishedParts(state string) int {
	store := evidence.Store{Dir: filepath.Join(state, "runs")}
	names, err := store.Unfinished()
	if err != nil || len(names) == 0 {
		return 0
	}
	r, err := experiment.Peek(store, names[0])
	if err != nil {
		return 0
	}
	if cut := evidence.InterruptionOf(r.Run); cut != nil {
		return cut.Done
	}
	return 0
}

// TestBenchKept: a bench that ends leaves its record alone, and none of the lines that
// were kept meanwhile.
func TestBenchKept(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	cmd := fettleCommand(t, "--state-dir", state, "bench", "disk", "--size", "64MiB", "--fio", fakeFio(t, 1000), t.TempDir())
	out, err := cmd.CombinedOutput()
	id := regexp.MustCompile(`run ([0-9a-f]{16})`).FindSubmatch(out)
	if err != nil || id == nil {
		t.Fatalf("%v: %s", err, out)
	}
	left, err := os.ReadDir(filepath.Join(state, "runs"))
	if err != nil || len(left) != 1 || left[0].Name() != string(id[1])+".json" {
		t.Errorf("left are %v, %v", left, err)
	}
}
