package disk

import (
	"math"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/fact"
)

func TestFit(t *testing.T) {
	var sizes, times []float64
	for _, b := range blockSizes {
		sizes, times = append(sizes, float64(b)), append(times, 80e-6+float64(b)/700e6)
	}
	f := fit(sizes, times)
	if f == nil || math.Abs(f.FixedS-80e-6) > 1e-9 || math.Abs(f.BytesPS-700e6) > 1 || f.Worst > 1e-9 {
		t.Errorf("%+v", f)
	}
	// The small blocks count as much as the large ones.
	times[0] *= 1.2
	if g := fit(sizes, times); g == nil || math.Abs(g.BytesPS-700e6) > 0.05*700e6 || g.FixedS < 80e-6 || g.Worst < 0.05 {
		t.Errorf("%+v", g)
	}
	// The table of Red Hat's solution on the disk speed of Satellite: 4k 15.3, 16k 52, 1M 489, 4M
	// 828 MiB/s.
	sizes, times = nil, nil
	for _, r := range []struct{ kib, mibs float64 }{{4, 15.3}, {16, 52}, {1024, 489}, {4096, 828}} {
		sizes, times = append(sizes, r.kib*1024), append(times, r.kib/1024/r.mibs)
	}
	if f := fit(sizes, times); f == nil || f.Worst > 0.3 || f.FixedS < 200e-6 || f.FixedS > 300e-6 {
		t.Errorf("%+v", f)
	}
	if f := fit([]float64{1, 2, 3}, []float64{3, 2, 1}); f != nil {
		t.Errorf("larger requests that are quicker: %+v", f)
	}
}

// TestFitDoubtful tests that a doubtful block size is excluded from the fit and marked in the
// curve.
func TestFitDoubtful(t *testing.T) {
	var results []Result
	for _, b := range blockSizes {
		r := Result{Cell: Cell{Name: "block-" + kib(b), BlockBytes: b}, Value: 5, MeanS: 80e-6 + float64(b)/700e6}
		if b == 16<<10 {
			r.MeanS, r.Doubts = 10*r.MeanS, []Doubt{{Shallow, "is none"}, {Noisy, "others"}}
		}
		results = append(results, r)
	}
	m := measured(place(fact.ClassSSD, "sda"), results)
	if m.Fit == nil || m.Fit.Worst > 1e-9 || len(m.Unfitted) != 1 || m.Unfitted[0] != "block-16k" {
		t.Errorf("%+v, without %v", m.Fit, m.Unfitted)
	}
	c := curves([]Measured{m})
	if got := strings.Join(c[0].Lines[0].Doubts, ","); got != ",noisy,,,," {
		t.Errorf("doubts %q", got)
	}
	for i := range results {
		results[i].Doubts = []Doubt{{Cached, "all of them"}}
	}
	if m := measured(place(fact.ClassSSD, "sda"), results); m.Fit != nil || len(m.Unfitted) != 6 {
		t.Errorf("%+v, without %v", m.Fit, m.Unfitted)
	}
	for i := range results {
		results[i].Doubts = nil
	}
	if c := curves([]Measured{measured(place(fact.ClassSSD, "sda"), results)}); c[0].Lines[0].Doubts != nil {
		t.Errorf("%+v", c)
	}
}
