package prove

import (
	"encoding/json"
	"math"
	"testing"

	"fettle.dev/fettle/internal/stats"
)

func TestVerdictInWords(t *testing.T) {
	time := Metric{Name: "time", Unit: "s"}
	rate := Metric{Name: "requests/s", Unit: "1/s", More: true}
	memory := Metric{Name: "memory", Unit: "bytes"}
	log := math.Log
	for _, x := range []struct {
		metric         Metric
		low, mid, high float64 // ratios of with to without
		margin         float64
		want           string
		word           Word
	}{
		{time, 0.906, 0.918, 0.931, 0.02, "faster by 8.2 % [6.9, 9.4]", Better},
		{time, 1.01, 1.05, 1.1, 0.02, "slower by 5 % [1, 10]", Worse},
		{time, 0.989, 1, 1.008, 0.02, "no effect above 2 % [-0.8, 1.1]", NoEffect},
		{time, 0.95, 1, 1.03, 0.02, "cannot tell yet [-3, 5]", CannotTell},
		{time, 0.985, 0.99, 0.995, 0.02, "faster, but less than 2 % [0.5, 1.5]", Better},
		{time, 1.005, 1.01, 1.015, 0.02, "slower, but less than 2 % [0.5, 1.5]", Worse},
		{rate, 1.069, 1.082, 1.094, 0.02, "faster by 8.2 % [6.9, 9.4]", Better},
		{rate, 0.9, 0.95, 0.96, 0.02, "slower by 5 % [4, 10]", Worse},
		{rate, 2.9, 3, 3.1, 0.02, "faster by 200 % [190, 210]", Better},
		{memory, 0.906, 0.918, 0.931, 0.02, "better by 8.2 % [6.9, 9.4]", Better},
		{time, 0.9, 0.95, 0.99995, 0.02, "faster by 5 % [0.005, 10]", Better},
		{time, 0, 1, math.Inf(1), 0.02, "cannot tell yet", CannotTell},
	} {
		v := judge(stats.Interval{Low: log(x.low), High: log(x.high)}, log(x.mid), x.margin, x.metric)
		if v.Text != x.want || v.Word != x.word {
			t.Errorf("%v: %q (%s), want %q (%s)", x, v.Text, v.Word, x.want, x.word)
		}
		if (v.Interval == nil) != math.IsInf(x.high, 1) {
			t.Errorf("%v: interval %v", x, v.Interval)
		}
	}
}

// TestEffectIsFinite: the record of an experiment is JSON, which has no infinity.
func TestEffectIsFinite(t *testing.T) {
	d := Defaults(Metric{Name: "rate", Unit: "1/s", More: true})
	c := Begin(d)
	for c.Next().Phase != Done {
		rate := 1e-200
		if c.Next().Arm == With {
			rate = 1e200
		}
		if err := c.Took(Values{"rate": rate}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := json.Marshal(Sum(c, EndedVerdict, nil, nil)); err != nil || c.Verdict().Word != Better {
		t.Error(err, c.Verdict())
	}
}
