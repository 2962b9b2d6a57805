package prove

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// goBenchOutput is as go test -bench . -benchmem -count 2 writes it, with -v.
const goBenchOutput = `goos: linux
goarch: amd64
pkg: example.com/m
cpu: Xeon
=== RUN   BenchmarkEncode
BenchmarkEncode
BenchmarkEncode/small-2         	 1000000	      1050 ns/op	  97.52 MB/s	     112 B/op	       2 allocs/op
BenchmarkEncode/small-2         	 1000000	      1030 ns/op	  98.52 MB/s	     112 B/op	       2 allocs/op
BenchmarkEncode/large:1-2       	     100	  10500000 ns/op	  97.52 MB/s	    1120 B/op	       3 allocs/op
Benchmarking is done
PASS
ok  	example.com/m	2.345s
`

const hyperfine1 = `{
  "results": [
    {"command": "sleep 0.1", "mean": 0.1, "stddev": null, "times": [0.3, 0.1, 0.2], "memory_usage_byte": [1, 2, 3], "exit_codes": [0, 0, 0]},
    {"command": "sleep 0.2", "mean": 0.1, "times": [0.25], "exit_codes": [0]}
  ]
}
`

const hyperfine2 = `{
  "schema_version": 2,
  "primary_metric": "time_wall_clock",
  "results": [
    {"command": "sleep 1", "name": "one second", "measurements": [
      {"time_wall_clock": {"value": 1.5, "unit": "second"}, "exit_code": 0},
      {"time_wall_clock": {"value": 1.25, "unit": "second"}, "exit_code": 0}]}
  ]
}
`

// TestBenchmarkMetric tests the numbers that are read from the output of benchmarks, and what is
// refused, with the line.
func TestBenchmarkMetric(t *testing.T) {
	for _, x := range []struct {
		metric, output string
		unit           string
		more           bool
		want           []float64
		says           string
	}{
		{"gobench:Encode/small", goBenchOutput, "s", false, []float64{1.05e-6, 1.03e-6}, ""},
		{"gobench:Encode/small-2:MB/s", goBenchOutput, "MB/s", true, []float64{97.52, 98.52}, ""},
		{"gobench:Encode/small:B/op", goBenchOutput, "bytes", false, []float64{112, 112}, ""},
		{"gobench:Encode/large:1:allocs/op", goBenchOutput, "allocs/op", false, []float64{3}, ""},
		{"gobench", "BenchmarkX 1 5 ns/op\r\n", "s", false, []float64{5e-9}, ""},
		{"gobench::p99-ns", "BenchmarkX 1 5 ns/op 7.5 p99-ns", "p99-ns", false, []float64{7.5}, ""},
		{"gobench", goBenchOutput, "s", false, nil, "output:9: a second benchmark, Encode/large:1-2 after Encode/small-2; choose one with gobench:NAME"},
		{"gobench:Decode", goBenchOutput, "s", false, nil, "no benchmark Decode in the output; it has Encode/large:1-2, Encode/small-2"},
		{"gobench:Encode/small:p99-ns", goBenchOutput, "p99-ns", false, nil, "output:7: no p99-ns; the benchmark has B/op, MB/s, allocs/op, ns/op"},
		{"gobench", "PASS\n", "s", false, nil, "no line of the output is a result of go test -bench"},
		{"gobench", "\nBenchmarkX 1 5\n", "s", false, nil, "output:2: BenchmarkX: want pairs of a value and a unit after the iterations"},
		{"gobench", "BenchmarkX many 5 ns/op", "s", false, nil, `output:1: BenchmarkX: "many" is not a number of iterations`},
		{"gobench", "BenchmarkX 0 5 ns/op", "s", false, nil, `output:1: BenchmarkX: "0" is not a number of iterations`},
		{"gobench::x/sec", "BenchmarkX 1 5 x/sec\nBenchmarkérable 1\n", "x/sec", true, []float64{5}, ""},
		{"gobench", "BenchmarkX 1 NaN ns/op", "s", false, nil, `output:1: BenchmarkX: "NaN" is not a measurement`},
		{"gobench", "BenchmarkX 1 1e999 ns/op", "s", false, nil, `output:1: BenchmarkX: "1e999" is not a measurement`},
		{"hyperfine:sleep 0.1", hyperfine1, "s", false, []float64{0.3, 0.1, 0.2}, ""},
		{"hyperfine:one second", hyperfine2, "s", false, []float64{1.5, 1.25}, ""},
		{"hyperfine", hyperfine2, "s", false, []float64{1.5, 1.25}, ""},
		{"hyperfine", hyperfine1, "s", false, nil, "the output has 2 commands; choose one with hyperfine:COMMAND: sleep 0.1, sleep 0.2"},
		{"hyperfine:true", hyperfine1, "s", false, nil, "no command true in the output; it has sleep 0.1, sleep 0.2"},
		{"hyperfine", `{"results": []}`, "s", false, nil, "the output has no results; want that of hyperfine --style none --export-json /dev/stdout"},
		{"hyperfine", `{"results": [{"command": "a"}]}`, "s", false, nil, "a has no times"},
		{"hyperfine", `{"results": [{"command": "a", "measurements": [{}]}]}`, "s", false, nil, "a, measurement 1: want time_wall_clock in seconds"},
		{"hyperfine", "[]", "s", false, nil, "output:1: want an object, not array"},
		{"hyperfine", strings.Replace(hyperfine1, "0.25", `"0.25"`, 1), "s", false, nil, "output:4: results.times: want a number, not string"},
		{"hyperfine", "{\n\"results\":\n[}", "s", false, nil, "output:3: invalid character '}'"},
		{"hyperfine", "Benchmark 1: sleep\n", "s", false, nil, "output:1: invalid character 'B'"},
		{"hyperfine", "", "s", false, nil, "output:1: unexpected end of JSON input"},
	} {
		m, p, ok := BenchmarkMetric(x.metric)
		if !ok || m.Unit != x.unit || m.More != x.more || m.Name != x.metric {
			t.Errorf("%s: %+v, %v", x.metric, m, ok)
			continue
		}
		got, err := p.Read([]byte(x.output))
		if !cmp.Equal(got, x.want, cmp.Comparer(func(a, b float64) bool { return a-b < 1e-15 && b-a < 1e-15 })) || (err == nil) != (x.says == "") || err != nil && !strings.HasPrefix(err.Error(), x.says) {
			t.Errorf("%s: %v, %v, want %v, %q", x.metric, got, err, x.want, x.says)
		}
	}
	for _, text := range []string{"time", "gobench=([0-9]+)", "hyperfines"} {
		if _, _, ok := BenchmarkMetric(text); ok {
			t.Errorf("%s is not a benchmark's format", text)
		}
	}
}

// TestHyperfineExport tests the file that hyperfine 1.15.0 wrote for two commands.
func TestHyperfineExport(t *testing.T) {
	text, err := os.ReadFile("testdata/hyperfine-1.15.0.json")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readHyperfine(text, "sleep 0.02"); err != nil || !slices.Equal(got, []float64{0.0182791776, 0.0202366706, 0.0186256836}) {
		t.Error(got, err)
	}
	if _, err := readHyperfine(text, "true"); err == nil || !strings.Contains(err.Error(), "use hyperfine --shell none") {
		t.Error(err)
	}
}

// TestCommandReads tests that only standard output is read, and that several numbers are combined.
func TestCommandReads(t *testing.T) {
	_, p, _ := BenchmarkMetric("gobench")
	p.Percentile = -1
	m, err := command("echo BenchmarkX 1 9 ns/op >&2; echo BenchmarkX 1 5 ns/op; echo BenchmarkX 1 6 ns/op; echo BenchmarkX 1 20 ns/op", p).Measure(t.Context(), Step{})
	if v := m.Values["gobench"]; err != nil || v < 5.9e-9 || v > 6.1e-9 || m.Within == nil {
		t.Error(m, err)
	}
	p.Percentile = 100
	if m, err = command("echo BenchmarkX 1 5 ns/op; echo BenchmarkX 1 20 ns/op", p).Measure(t.Context(), Step{}); err != nil || m.Values["gobench"] < 19e-9 {
		t.Error(m, err)
	}
	if _, err = command("echo BenchmarkX 1", p).Measure(t.Context(), Step{}); err == nil || err.Error() != "gobench: output:1: BenchmarkX: want pairs of a value and a unit after the iterations" {
		t.Error(err)
	}
}

// FuzzBenchmarkOutput tests that any output gives finite numbers or an error.
func FuzzBenchmarkOutput(f *testing.F) {
	for _, seed := range []string{goBenchOutput, hyperfine1, hyperfine2, "BenchmarkX 1 1 ns/op", `{"results":[{"times":[1e308]}]}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, output string) {
		for _, metric := range []string{"gobench", "gobench:Encode/small:B/op", "hyperfine", "hyperfine:sleep 0.1"} {
			_, p, _ := BenchmarkMetric(metric)
			if got, err := p.Read([]byte(output)); err == nil && (len(got) == 0 || slices.ContainsFunc(got, func(v float64) bool { return v-v != 0 })) {
				t.Errorf("%s: %v", metric, got)
			}
		}
	})
}

func BenchmarkPrinted(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_ = strings.Repeat("ab", 100)
	}
	b.ReportMetric(7, "p99-ns")
}

// TestGoBench tests the output of this program's own benchmark.
func TestGoBench(t *testing.T) {
	work := []string{os.Args[0], "-test.run=^$", "-test.bench=Printed", "-test.benchtime=10x", "-test.count=3"}
	var metrics []Printed
	for _, text := range []string{"gobench:Printed", "gobench:Printed:B/op", "gobench::p99-ns", "gobench:Printed:allocs/op"} {
		_, p, _ := BenchmarkMetric(text)
		p.Percentile = -1
		metrics = append(metrics, p)
	}
	m, err := (&Command{Args: work, Metrics: metrics, Clock: wallClock{}, Mark: mark}).Measure(t.Context(), Step{})
	if v := m.Values; err != nil || !(v["gobench:Printed"] > 0 && v["gobench:Printed"] < 1) || v["gobench:Printed:B/op"] < 200 || v["gobench::p99-ns"] != 7 || v["gobench:Printed:allocs/op"] != 1 {
		t.Error(m.Values, err)
	}
}
