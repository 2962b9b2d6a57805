package engine

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestUnion tests that the merged parts of several meters, each with a share of the samples and
// sent as JSON, equal one meter with all samples.
func TestUnion(t *testing.T) {
	stretches := []Stretch{{For: 3 * time.Second, Stage: -1}, {For: 5 * time.Second}, {For: 5 * time.Second, Stage: 1}}
	fresh := func() *Meter {
		return NewMeter(stretches, time.Second, 3, func(status int) bool { return status < 400 })
	}
	whole, shares := fresh(), []*Meter{fresh(), fresh(), fresh(), fresh()} // the last one sees nothing
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		x := Sample{Begin: time.Duration(r.Int64N(int64(13 * time.Second))), Request: r.IntN(3), Waited: r.IntN(50) == 0, Answer: Answer{Status: 200, In: r.Int64N(5000)}}
		x.Sent = x.Begin + time.Duration(r.ExpFloat64()*float64(200*time.Microsecond))
		x.End = x.Sent + time.Duration(r.ExpFloat64()*float64(30*time.Millisecond))
		switch r.IntN(40) {
		case 0:
			x.Answer.Status = 503
		case 1:
			x.Answer = Answer{Failure: Timeout}
		case 2:
			x.Answer = Answer{Failure: Closed, Err: ErrNoAnswer}
		}
		whole.Add([]Sample{x})
		shares[r.IntN(3)].Add([]Sample{x})
	}
	shares[1].CPU(4*time.Second, 0.7, 1.5)
	whole.CPU(4*time.Second, 0.7, 1.5)
	union := fresh()
	for _, m := range shares {
		p, err := m.Part()
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var again Part
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatal(err)
		}
		if err := union.Merge(&again); err != nil {
			t.Fatal(err)
		}
	}
	n := len(whole.slices)
	for i := range n {
		if d := cmp.Diff(told(t, whole, i, i+1), told(t, union, i, i+1)); d != "" {
			t.Errorf("slice %d(-whole +union):\n%s", i, d)
		}
	}
	if d := cmp.Diff(told(t, whole, 0, n), told(t, union, 0, n)); d != "" {
		t.Errorf("all(-whole +union):\n%s", d)
	}
	if d := cmp.Diff(whole.Requests(), union.Requests()); d != "" {
		t.Error(d)
	}
	if whole.Delay() != union.Delay() || union.Example(Closed) != whole.Example(Closed) || union.Slices(13 * time.Second)[4].CPU != 0.7 || union.Slices(13 * time.Second)[4].Wanted != 1.5 {
		t.Errorf("%+v, %+v", whole.Delay(), union.Delay())
	}
}

// told returns all results of a meter for some slices, including the histogram.
func told(t *testing.T, m *Meter, from, to int) []any {
	t.Helper()
	x := m.Sum(from, to)
	histogram, err := x.Encoded()
	if err != nil {
		t.Fatal(err)
	}
	return []any{x.From, x.To, x.Starts, x.Good, x.Wrong, x.Failed, x.Answered, x.In, x.Late, x.Waited, x.Statuses, x.Failures, x.Latency(), x.Service(), histogram}
}

func TestOtherParts(t *testing.T) {
	good := func(int) bool { return true }
	one := NewMeter([]Stretch{{For: 5 * time.Second}}, time.Second, 1, good)
	one.Add([]Sample{{End: time.Second, Answer: Answer{Status: 200}}})
	for want, p := range map[string]func(*Part){
		"not a part of this run: slices":  func(p *Part) { p.Slices = p.Slices[1:] },
		"slice 2: not a part of this run": func(p *Part) { p.Slices[1].Stage = 7 },
		"slice 1: ":                       func(p *Part) { p.Slices[0].Latency = "nonsense" },
		"slices or requests differ":       func(p *Part) { p.Requests = nil },
		"1 duration above the maximum duration of this run": func(p *Part) {
			far := NewMeter([]Stretch{{For: 5 * time.Second}}, 1000*time.Hour, 1, good)
			far.Add([]Sample{{End: 900 * time.Hour, Answer: Answer{Status: 200}}})
			other, err := far.Part()
			if err != nil {
				t.Fatal(err)
			}
			p.Slices[0].Latency = other.Slices[0].Latency
		},
	} {
		part, err := one.Part()
		if err != nil {
			t.Fatal(err)
		}
		p(part)
		if err := NewMeter([]Stretch{{For: 5 * time.Second}}, time.Second, 1, good).Merge(part); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
