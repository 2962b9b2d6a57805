package evidence_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/evidence"
)

func TestCurvesOfARun(t *testing.T) {
	want := []evidence.Curve{{Name: "latency", X: evidence.Axis{Name: "percentile", Unit: "%", Scale: evidence.Percentile}, Y: evidence.Axis{Name: "latency", Unit: "ms", Scale: evidence.Log},
		Lines: []evidence.Line{{Name: "QD1", Points: [][2]float64{{50, 1}, {99.9, 4}}}}}}
	body, err := json.Marshal(map[string]any{"curves": want})
	if err != nil {
		t.Fatal(err)
	}
	got, err := evidence.CurvesOf(&evidence.Run{Body: body})
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Error(err, d)
	}
	for points, fault := range map[string]string{
		`[[1,1],[1,2]]`:                    "x does not rise at point 2",
		`[[1,1],[100,2]]`:                  "not a percentile",
		`[[1,0]]`:                          "cannot be shown on a logarithmic scale",
		`[["a",0]]`:                        "cannot be read",
		`[[1,1],[2,2]],"doubts":["noisy"]`: "2 points, but uncertainties for 1",
	} {
		text := `{"curves":[{"name":"c","x":{"scale":"percentile"},"y":{"scale":"log"},"lines":[{"name":"l","points":` + points + `}]}]}`
		if _, err := evidence.CurvesOf(&evidence.Run{ID: "12", Body: json.RawMessage(text)}); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: %v, want %q", points, err, fault)
		}
	}
	for _, scales := range []string{`"x":{"scale":"linear"},"y":{"scale":"percentile"}`, `"x":{"scale":"linear"}`, `"x":{"scale":"cubic"},"y":{"scale":"log"}`} {
		if _, err := evidence.CurvesOf(&evidence.Run{Body: json.RawMessage(`{"curves":[{` + scales + `}]}`)}); err == nil || !strings.Contains(err.Error(), "use linear or log") {
			t.Errorf("%s: %v", scales, err)
		}
	}
	if got, err := evidence.CurvesOf(&evidence.Run{Body: json.RawMessage(`{}`)}); err != nil || got != nil {
		t.Error(got, err)
	}
}
