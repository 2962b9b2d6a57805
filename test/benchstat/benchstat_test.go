// Package benchstat lets the real benchstat read what fettle exports.
package benchstat

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"
)

// program builds a program: of the module above, or of this one.
func program(t *testing.T, dir, pkg string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), filepath.Base(pkg))
	c := exec.Command("go", "build", "-o", bin, pkg)
	c.Dir = dir
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// TestBenchstat: of the samples of an experiment benchstat makes one table a metric,
// with both sides, and finds the effect that is there.
func TestBenchstat(t *testing.T) {
	fettle, benchstat := program(t, "../..", "./cmd/fettle"), program(t, ".", "golang.org/x/perf/cmd/benchstat")
	text, err := exec.Command(fettle, "runs", "export", "--output", "benchfmt", "testdata/run.json").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "run.txt")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	results := 0
	for r := benchfmt.NewReader(strings.NewReader(string(text)), file); r.Scan(); {
		switch rec := r.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Error(rec)
		case *benchfmt.Result:
			results++
		}
	}
	if want := strings.Count(string(text), "\nBenchmark"); results != want || want < 28 {
		t.Errorf("%d of %d lines are read", results, want)
	}
	out, err := exec.Command(benchstat, "-col", "/change", file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Logf("%s", out)
	table := regexp.MustCompile(`(?s)without.*with.*took-sec/op.*took-sec/op.*vs base.*sh_work\.sh.*-[78]\.\d+%.*\(p=0\.000 n=\d+\)`)
	if !table.Match(out) || strings.Contains(string(out), "better") {
		t.Errorf("benchstat says:\n%s", out)
	}
}

// TestTrend: fettle runs trend reads the same points as the library, which are the medians of the
// repetitions of each commit.
func TestTrend(t *testing.T) {
	const file = "../../examples/trend/commits.txt"
	out, err := exec.Command(program(t, "../..", "./cmd/fettle"), "runs", "trend", file, "--output", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Series []struct {
			Name   string
			Points []struct {
				Label string
				Value float64
			}
		}
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, s := range report.Series {
		for _, p := range s.Points {
			got[fmt.Sprintf("%s at %s", s.Name, p.Label)] = p.Value
		}
	}
	text, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	want := map[string][]float64{}
	for r := benchfmt.NewReader(text, file); r.Scan(); {
		rec, is := r.Result().(*benchfmt.Result)
		if !is {
			t.Fatalf("%v", r.Result())
		}
		for _, v := range rec.Values {
			value, unit := v.Value, v.Unit
			if v.OrigUnit != "" {
				value, unit = v.OrigValue, v.OrigUnit
			}
			key := fmt.Sprintf("%s %s at %s", rec.Name, unit, rec.GetConfig("commit"))
			want[key] = append(want[key], value)
		}
	}
	if len(got) != 90 || len(want) != 90 {
		t.Errorf("%d points, want %d", len(got), len(want))
	}
	for key, values := range want {
		slices.Sort(values)
		if got[key] != values[len(values)/2] {
			t.Errorf("%s: %v, want the median of %v", key, got[key], values)
		}
	}
}
