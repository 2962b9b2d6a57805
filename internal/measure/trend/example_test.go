package trend

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/evidence"
)

const examples = "../../../examples/trend"

// nightly returns the records of a benchmark of storage that ran on 24 nights: from the 15th on, with
// another kernel, random I/O is 12 % slower.
func nightly(t testing.TB) (out []*evidence.Run) {
	t.Helper()
	store := evidence.Store{Dir: filepath.Join(t.TempDir(), "runs")}
	r := rand.New(rand.NewPCG(29, 5))
	for night := range 24 {
		m := evidence.Machine{Name: "db1", CPU: "Intel Xeon", CPUs: 4, MemoryBytes: 16 << 30, OS: "Debian GNU/Linux 13 (trixie)", Kernel: "6.12.48+deb13-amd64", BootID: "2a8b8a3c-6f2e-4b52-8a53-0d1a0f6f1c11", Hardware: "0123456789abcdef",
			Settings: map[string]string{"sysctl:vm.dirty_ratio": "20", "sysctl:vm.swappiness": "60"}}
		level := 1.0
		if night >= 14 {
			m.Kernel, m.BootID, level = "6.12.57+deb13-amd64", "91f0e2d7-0c3b-4f0e-9c8e-6b1d5a2b7e42", 0.88
		}
		series := func(name, unit string, more bool, at, noise float64) evidence.Series {
			s := evidence.Series{Name: name, Unit: unit, More: more}
			night := math.Exp(noise * r.NormFloat64()) // the same for all repetitions of a night
			for range 3 {
				s.Samples = append(s.Samples, math.Round(10000*at*night*math.Exp(noise/4*r.NormFloat64()))/10000)
			}
			return s
		}
		body, err := json.Marshal(map[string]any{"series": []evidence.Series{
			series("disk:randrw-qd32@/srv", "MB/s", true, 212*level, 0.02),
			series("disk:stream-read@/srv", "MB/s", true, 890, 0.015),
			series("disk:etcd@/srv", "ms", false, 1.9, 0.04),
		}})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Date(2026, 11, 1+night, 3, 0, 0, 0, time.UTC)
		run := &evidence.Run{Kind: "bench-disk", Command: "fettle bench disk /srv", User: "root", Version: "1.0", Began: began, Ended: began.Add(4 * time.Minute), Machine: m, Verdict: "/srv: fast enough", Body: body}
		if err := store.Put(run); err != nil { // sets its ID
			t.Fatal(err)
		}
		out = append(out, run)
	}
	return out
}

// commits returns the output of go test -bench of 30 commits: commit 20 makes Decode 9 % slower.
func commits() string {
	r := rand.New(rand.NewPCG(29, 6))
	var b strings.Builder
	fmt.Fprint(&b, "goos: linux\ngoarch: amd64\npkg: example.com/codec\ncpu: Intel Xeon\n")
	for n := range 30 {
		level := 1.0
		if n >= 20 {
			level = 1.09
		}
		fmt.Fprintf(&b, "commit: %07x\ncommit-time: %s\n", 0xabc0000+n*4099, time.Date(2026, 10, 1+n, 12, 0, 0, 0, time.UTC).Format(time.RFC3339))
		noise := math.Exp(0.012 * r.NormFloat64())
		for range 5 {
			fmt.Fprintf(&b, "BenchmarkDecode-4 \t%d\t%.1f ns/op\t%d B/op\t3 allocs/op\n", 900_000+r.IntN(9000), 1310*level*noise*math.Exp(0.004*r.NormFloat64()), 512)
		}
	}
	fmt.Fprint(&b, "PASS\nok  \texample.com/codec\t41.2s\n")
	return b.String()
}

// TestExamples compares examples/trend with what writes it, and writes it with
// FETTLE_UPDATE_GOLDEN=1.
func TestExamples(t *testing.T) {
	files := map[string]string{"commits.txt": commits()}
	for _, run := range nightly(t) {
		text, err := run.Text()
		if err != nil {
			t.Fatal(err)
		}
		files["runs/"+run.ID+".json"] = string(text)
	}
	update := os.Getenv("FETTLE_UPDATE_GOLDEN") == "1"
	if update {
		if err := os.RemoveAll(examples + "/runs"); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(examples+"/runs", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range files {
		path := filepath.Join(examples, name)
		if update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, []byte(want)) {
			t.Errorf("%s differs: %v; FETTLE_UPDATE_GOLDEN=1 writes it", path, err)
		}
	}
	if found, err := filepath.Glob(examples + "/runs/*.json"); err != nil || len(found) != 24 {
		t.Errorf("%d runs, %v", len(found), err)
	}
}
