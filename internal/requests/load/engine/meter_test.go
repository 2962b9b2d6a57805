package engine

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

func good(status int) bool { return status < 400 }

// TestPercentilesAreWithinTheirError compares percentiles of any distribution with those of the
// sorted values: they differ by at most 0.1 % or the resolution, in sums too.
func TestPercentilesAreWithinTheirError(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, draw := range map[string]func() time.Duration{
		"exponential": func() time.Duration { return time.Duration(r.ExpFloat64() * 2e6) },
		"normal":      func() time.Duration { return time.Duration(max(0, 50e6+r.NormFloat64()*5e6)) },
		"two peaks": func() time.Duration {
			if r.IntN(100) == 0 {
				return 500*time.Millisecond + time.Duration(r.IntN(1000))
			}
			return 100*time.Microsecond + time.Duration(r.IntN(1000))
		},
		"decades": func() time.Duration { return time.Duration(math.Pow(10, 2+8*r.Float64())) },
	} {
		m := NewMeter([]Stretch{{For: 10 * time.Second}}, time.Minute, 1, good)
		var all []time.Duration
		for range 50_000 {
			begin, took := time.Duration(r.Int64N(int64(10*time.Second))), draw()
			all = append(all, took)
			m.Add([]Sample{{Begin: begin, Sent: begin, End: begin + took, Answer: Answer{Status: 200}}})
		}
		slices.Sort(all)
		total := m.Sum(0, 10)
		for _, p := range []float64{1, 50, 90, 95, 99, 99.9, 100} {
			want := all[int(math.Ceil(p/100*float64(len(all))-1e-9))-1].Seconds()
			got := total.Percentile(p)
			if off := math.Abs(got - want); off > max(0.001*want, Resolution.Seconds()) {
				t.Errorf("%s: p%v is %v, want %v", name, p, got, want)
			}
		}
		if l := total.Latency(); l.N != 50_000 || l.P99S != total.Percentile(99) || l.MinS > l.P50S || l.P50S > l.MaxS {
			t.Errorf("%s: %+v", name, l)
		}
		text, err := total.Encoded()
		if err != nil {
			t.Fatal(err)
		}
		again, err := hdrhistogram.Decode([]byte(text))
		if err != nil || again.TotalCount() != 50_000 || again.ValueAtPercentile(99) != total.latency.ValueAtPercentile(99) {
			t.Errorf("%s: %v, read again", name, err)
		}
		if bytes.ContainsAny([]byte(text), "\n ") {
			t.Error("the encoding is not one word")
		}
	}
}

func TestWhatIsCounted(t *testing.T) {
	m := NewMeter([]Stretch{{For: 2 * time.Second, Stage: -1}, {For: 2 * time.Second}}, time.Minute, 2, good)
	const ms = time.Millisecond
	at := func(begin, sent, end time.Duration, a Answer) Sample {
		return Sample{Begin: begin, Sent: sent, End: end, Answer: a}
	}
	waited := at(3000*ms, 3500*ms, 3600*ms, Answer{Status: 200, In: 10})
	waited.Waited, waited.Request = true, 1
	m.Add([]Sample{
		at(0, 0, 5*ms, Answer{Status: 200, In: 7}),
		at(2000*ms, 2000*ms, 2010*ms, Answer{Status: 503}),
		at(2000*ms, 2002*ms, 2012*ms, Answer{Status: 200}),
		at(2500*ms, 2500*ms, 3500*ms, Answer{Failure: Timeout}),
		at(2600*ms, 2600*ms, 2601*ms, Answer{Failure: Refused}),
		waited,
		at(3900*ms, 9000*ms, 9000*ms, Answer{Failure: Unsent}),
		at(3950*ms, 3950*ms, 3960*ms, Answer{Failure: Interrupted}),
		at(5000*ms, 5000*ms, 5001*ms, Answer{Status: 200}), // after the end
	})
	x := m.Sum(2, 4)
	if x.Starts != 7 || x.Failures[Interrupted] != 1 || x.Good != 2 || x.Wrong != 1 || x.Failed != 3 || x.Late != 1 || x.Waited != 1 || x.In != 10 || x.Answered != 3 {
		t.Errorf("%+v", x)
	}
	// Two answers, what timed out, was not sent and was interrupted: an error that comes at once is no
	// latency.
	if l := x.Latency(); l.N != 5 || math.Abs(l.MaxS-5.1) > 0.006 {
		t.Errorf("%+v", l)
	}
	if s := x.Service(); s.N != 4 {
		t.Errorf("%+v", s)
	}
	if r := m.Requests(); r[0].Starts != 7 || r[1].Starts != 1 || r[0].Wrong != 1 || r[0].Failed != 3 {
		t.Errorf("%+v", r)
	}
	if first := m.Sum(0, 2); first.Starts != 1 || first.In != 7 || m.Slices(time.Hour)[0].Stage != -1 {
		t.Errorf("warm-up: %+v", first)
	}
	if n := len(m.Slices(2500 * ms)); n != 3 {
		t.Errorf("%d slices in 2.5 s", n)
	}
}

// TestSlicesAreBounded tests that a week does not have more slices than an hour.
func TestSlicesAreBounded(t *testing.T) {
	for _, d := range []time.Duration{time.Second, 90 * time.Second, time.Hour, 7 * 24 * time.Hour} {
		m := NewMeter([]Stretch{{For: d}, {For: d, Stage: 1}}, time.Minute, 1, good)
		last := time.Duration(0)
		for _, s := range m.slices {
			if s.From != last || s.To-s.From < time.Second {
				t.Fatalf("%v: a slice from %v to %v after %v", d, s.From, s.To, last)
			}
			last = s.To
		}
		if last != 2*d || len(m.slices) > MaxSlices {
			t.Errorf("%v: %d slices until %v", d, len(m.slices), last)
		}
	}
}
