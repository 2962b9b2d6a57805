package prove

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/evidence"
)

// TestBenchfmt tests the written text; test/benchstat tests that benchstat reads it.
func TestBenchfmt(t *testing.T) {
	e := Evidence{Work: []string{"sh", "-c", "a/b\nBenchmarkX 1 2 s"}, Design: Design{Metric: Metric{Name: "time", Unit: "s"},
		Guards: []Guard{{Metric: Metric{Name: "max-memory", Unit: "bytes"}}, {Metric: Metric{Name: "errors"}}}}}
	for i, arm := range []Arm{Without, With, With, Without} { // two blocks
		for _, dropped := range []bool{true, false} {
			e.Samples = append(e.Samples, Sample{Step: Step{Phase: Blocks, Block: i / 2, Place: i % 2, Arm: arm, Dropped: dropped}, Values: Values{"time": 1.25 + float64(i), "max-memory": 1 << 20, "errors": 0}})
		}
	}
	body, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	proof := &evidence.Run{ID: "12", Kind: "prove", Command: "fettle prove\nUnit sec/op better=higher", Verdict: "faster", Began: at, Machine: evidence.Machine{Name: "a", CPU: "Xeon", Kernel: "6"}, Body: body}
	body, err = json.Marshal(map[string]any{"series": []evidence.Series{{Name: "disk:etcd @/srv", Unit: "ms", Samples: []float64{1.5, 2}}, {Name: "x", Unit: "%", More: true, Samples: []float64{1}}, {Name: "y", Unit: "%", Samples: []float64{2}}}})
	if err != nil {
		t.Fatal(err)
	}
	bench := &evidence.Run{ID: "34", Kind: "bench", Command: "fettle bench disk", Verdict: "well", Began: at, Machine: evidence.Machine{Name: "a", CPU: "Xeon", Kernel: "6"}, Body: body}
	var b strings.Builder
	if err := Benchfmt(&b, []*evidence.Run{proof, bench}); err != nil {
		t.Fatal(err)
	}
	const want = `# run 12, began 2026-01-02T03:04:05Z
# command: fettle prove` + "\ufffd" + `Unit sec/op better=higher
# verdict: faster
# machine: a, kernel 6
cpu: Xeon
Unit sec/op better=lower
Unit max-memory-bytes better=lower
Unit errors better=lower
Benchmarksh_-c_a_b_BenchmarkX_1_2_s/change=without 1 1.25 sec/op 1048576 max-memory-bytes 0 errors
Benchmarksh_-c_a_b_BenchmarkX_1_2_s/change=with 1 2.25 sec/op 1048576 max-memory-bytes 0 errors
Benchmarksh_-c_a_b_BenchmarkX_1_2_s/change=with 1 3.25 sec/op 1048576 max-memory-bytes 0 errors
Benchmarksh_-c_a_b_BenchmarkX_1_2_s/change=without 1 4.25 sec/op 1048576 max-memory-bytes 0 errors
# run 34, began 2026-01-02T03:04:05Z
# command: fettle bench disk
# verdict: well
# machine: a, kernel 6
cpu: Xeon
Benchmarkdisk:etcd_@/srv 1 0.0015 sec/op
Benchmarkdisk:etcd_@/srv 1 0.002 sec/op
Benchmarkx 1 1 %
Benchmarky 1 2 %
`
	if got := b.String(); got != want {
		t.Errorf("%s\nwant:\n%s", got, want)
	}
	// Blocks with a warm-up that was too short do not count.
	e.Unsettled = 1
	if proof.Body, err = json.Marshal(e); err != nil {
		t.Fatal(err)
	}
	b.Reset()
	if err := Benchfmt(&b, []*evidence.Run{proof}); err != nil || strings.Contains(b.String(), " 1.25 sec/op") || !strings.Contains(b.String(), " 3.25 sec/op") {
		t.Error(err, b.String())
	}
	e.Unsettled, e.Work, e.Design.Guards = 0, nil, nil
	e.Design.Metric, e.Design.Also = Metric{Name: "gobench:Encode/a", Unit: "s"}, []Metric{{Name: "time", Unit: "s"}, {Name: "gobench:Encode/a:B/op", Unit: "bytes"}}
	e.Samples = []Sample{{Step: Step{Phase: Blocks, Arm: With}, Values: Values{"gobench:Encode/a": 1e-6, "gobench:Encode/a:B/op": 16, "time": 2}}}
	if proof.Body, err = json.Marshal(e); err != nil {
		t.Fatal(err)
	}
	b.Reset()
	if err := Benchfmt(&b, []*evidence.Run{proof}); err != nil || !strings.HasSuffix(b.String(), "BenchmarkEncode/a/change=with 1 0.000001 sec/op 16 B/op\nBenchmarkcomparison/change=with 1 2 sec/op\n") {
		t.Error(err, b.String())
	}
	if err := Benchfmt(&b, []*evidence.Run{{ID: "56", Kind: "other", Body: json.RawMessage("{}")}}); err == nil || !strings.Contains(err.Error(), "no samples to export") {
		t.Error(err)
	}
}
