package disk

import (
	"bytes"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/ui"
)

// TestDiskDoubtful tests that a doubtful figure is drawn differently and labeled, that it is
// excluded from the fit, and that the page says so.
func TestDiskDoubtful(t *testing.T) {
	cell := func(name string, doubts ...DoubtKind) Result {
		r := Result{Cell: Cell{Name: name, Unit: "MB/s"}, Value: 500}
		for _, d := range doubts {
			r.Doubts = append(r.Doubts, Doubt{Kind: d, Text: "why"})
		}
		return r
	}
	show := func(m Measured) string {
		var out bytes.Buffer
		s := ui.NewScreen(&out, &bytes.Buffer{})
		(&Evidence{Places: []Measured{m}}).Print(s, &evidence.Run{})
		return out.String()
	}
	place := Place{Directory: "/srv"}
	once := cell("stream-read")
	once.Samples = make([]Sample, 1)
	if got := show(Measured{Place: Place{Directory: "/srv"}, Results: []Result{once}}); strings.Contains(got, "0 %") {
		t.Errorf("one repeat has no spread:\n%s", got)
	}
	sound := Measured{Place: place, Results: []Result{cell("buffered-read"), cell("buffered-write")}, Fit: &Fit{FixedS: 1e-4, BytesPS: 1e9}}
	doubtful := sound
	doubtful.Results = []Result{cell("buffered-read", Contended), cell("buffered-write", Shallow, Noisy)}
	doubtful.Unfitted = []string{"block-4k", "block-16k"}
	for _, c := range []struct {
		of    Measured
		has   []string
		never []string
	}{
		{sound, []string{"this: /srv  ", "each request costs"}, []string{"doubtful", "--"}},
		{doubtful, []string{"this: /srv (doubtful: buffered-read contended, buffered-write noisy)", "-------", "Left out as doubtful: block-4k, block-16k."}, nil},
		{Measured{Place: place, Unfitted: []string{"block-4k"}}, []string{"too few reliable figures for a fit; doubtful: block-4k"}, nil},
	} {
		got := show(c.of)
		for _, want := range c.has {
			if !strings.Contains(got, want) {
				t.Errorf("not there: %q\n%s", want, got)
			}
		}
		for _, no := range c.never {
			if strings.Contains(got, no) {
				t.Errorf("there: %q\n%s", no, got)
			}
		}
	}
}
