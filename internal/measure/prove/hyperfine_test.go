package prove

import (
	"encoding/json"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/evidence"
)

// TestHyperfine tests the exported JSON, which is also read again.
func TestHyperfine(t *testing.T) {
	e := Evidence{Work: []string{"make", "-B"}, Method: Method, Design: Design{Metric: Metric{Name: "time", Unit: "s"}}}
	for i, arm := range []Arm{Without, With, With, Without} { // two blocks
		for _, dropped := range []bool{true, false} {
			e.Samples = append(e.Samples, Sample{Step: Step{Phase: Blocks, Block: i / 2, Place: i % 2, Arm: arm, Dropped: dropped}, Values: Values{"time": 1 + float64(i), "user-time": 0.5, "system-time": 0.25, "max-memory": 4096}})
		}
	}
	export := func() (string, error) {
		body, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		err = Hyperfine(&b, []*evidence.Run{{ID: "12", Kind: "prove", Body: body}})
		return b.String(), err
	}
	got, err := export()
	const want = `{
  "results": [
    {
      "command": "make -B (without the change)",
      "mean": 2.5,
      "stddev": 2.1213203435596424,
      "median": 2.5,
      "user": 0.5,
      "system": 0.25,
      "min": 1,
      "max": 4,
      "times": [
        1,
        4
      ],
      "memory_usage_byte": [
        4096,
        4096
      ],
      "exit_codes": [
        0,
        0
      ]
    },
`
	if err != nil || !strings.HasPrefix(got, want) {
		t.Errorf("%v\n%s\nwant:\n%s", err, got, want)
	}
	if times, err := readHyperfine([]byte(got), "make -B (with the change)"); err != nil || len(times) != 2 || times[0] != 2 || times[1] != 3 {
		t.Error(times, err)
	}
	e.Change = Tested{A: "gzip", B: "zstd"}
	if got, err = export(); err != nil || !strings.Contains(got, `"command": "zstd"`) {
		t.Error(got, err)
	}
	for _, v := range e.Samples { // as an older version
		delete(v.Values, "user-time")
		delete(v.Values, "system-time")
	}
	if got, err = export(); err != nil || strings.Contains(got, `"user"`) || strings.Contains(got, `"system"`) || !strings.Contains(got, `"mean": 2.5`) {
		t.Error(got, err)
	}
	e.Samples = nil
	if _, err = export(); err == nil || err.Error() != "run 12: no times of a command to export" {
		t.Error(err)
	}
	if err := Hyperfine(nil, []*evidence.Run{{ID: "34", Kind: "bench-disk"}}); err == nil || !strings.Contains(err.Error(), "no commands to export") {
		t.Error(err)
	}
}
