package evidence_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/evidence"
)

func TestSeriesOfARun(t *testing.T) {
	want := []evidence.Series{{Name: "disk:read", Unit: "MB/s", More: true, Samples: []float64{1, 2}}, {Name: "disk:etcd", Unit: "ms", Samples: []float64{3}}}
	body, err := json.Marshal(map[string]any{"schema": "x", "series": want})
	if err != nil {
		t.Fatal(err)
	}
	if text := string(body); !strings.Contains(text, `{"name":"disk:read","unit":"MB/s","more_is_better":true,"samples":[1,2]}`) {
		t.Error(text)
	}
	got, err := evidence.SeriesOf(&evidence.Run{Body: body})
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Error(err, d)
	}
	for body, fault := range map[string]string{
		`{"verdict":"faster"}`:                       "",
		`{"series":[{"unit":"s"}]}`:                  "series 1 has no name",
		`{"series":[{"name":"a"},{"name":"a"}]}`:     `two series are named "a"`,
		`{"series":{"name":"a"}}`:                    "cannot be read",
		`{"series":[{"name":"a","samples":["12"]}]}`: "cannot be read",
	} {
		got, err := evidence.SeriesOf(&evidence.Run{ID: "12", Body: json.RawMessage(body)})
		if len(got) > 0 || (err == nil) != (fault == "") || err != nil && !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: %v %v, want %q", body, got, err, fault)
		}
	}
	s := evidence.Series{Name: "a"}
	if s.Add(math.NaN()) == nil || s.Add(math.Inf(1)) == nil || s.Add(4) != nil || len(s.Samples) != 1 {
		t.Errorf("%+v", s)
	}
}
