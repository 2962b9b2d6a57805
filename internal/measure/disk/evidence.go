package disk

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// Schema names the JSON form of the evidence, Kind the kind of its run.
const (
	Schema = "fettle/bench-disk/v1"
	Kind   = "bench-disk"
)

// Evidence is the body of a run.
type Evidence struct {
	Schema string `json:"schema"` // fettle/bench-disk/v1
	Plan   Plan   `json:"plan"`
	// Cut is set if the run was interrupted.
	Cut   *evidence.Interruption `json:"cut,omitempty"`
	FIO   string                 `json:"fio"`   // version
	Queue string                 `json:"queue"` // fio's engine for cells with more than one request in flight

	Places   []Measured        `json:"directories"`
	Warnings []string          `json:"warnings,omitempty"`
	Verdict  Word              `json:"verdict"`
	Series   []evidence.Series `json:"series"`
	Curves   []evidence.Curve  `json:"curves,omitempty"`
}

// JSONBody marks Evidence as the body of a run.
func (Evidence) JSONBody() {}

// Measured is a directory with its results.
type Measured struct {
	Place
	Results []Result `json:"results"`
	Fit     *Fit     `json:"block_size_fit,omitempty"`
	// Unfitted lists the block sizes that the fit omits because they are doubtful.
	Unfitted []string   `json:"not_in_block_size_fit,omitempty"`
	Verdict  []Judgment `json:"verdicts"`
	// Foreman is the result that foreman-maintain's own check would report.
	Foreman *ForemanMaintain `json:"foreman_maintain,omitempty"`
}

// Result is a cell with its samples.
type Result struct {
	Cell
	Value  float64 `json:"value"` // median of the samples
	Spread float64 `json:"spread_ratio"`
	// InFlight and the fields below are medians of the samples.
	InFlight float64 `json:"requests_in_flight"`
	MeanS    float64 `json:"latency_mean_s"`
	P50S     float64 `json:"latency_p50_s"`
	P99S     float64 `json:"latency_p99_s"`
	SyncsPS  float64 `json:"syncs_per_s,omitempty"`
	// FromStorage is the share of the read data that came from storage; absent if nothing was read.
	FromStorage *float64 `json:"from_storage_ratio,omitempty"`
	Steady      Steady   `json:"steady"`
	Doubts      []Doubt  `json:"doubts,omitempty"`
	Samples     []Sample `json:"visits"`
}

// Doubtful returns the doubt that prevents a verdict, or nil.
func (r *Result) Doubtful() *Doubt {
	for i, d := range r.Doubts {
		if d.Kind != Shallow {
			return &r.Doubts[i]
		}
	}
	return nil
}

// result summarizes a cell's samples.
func result(mode Mode, c Cell, samples []Sample) Result {
	r := Result{Cell: c, Samples: samples}
	median := func(of func(*Sample) float64) float64 {
		all := make([]float64, len(samples))
		for i := range samples {
			all[i] = of(&samples[i])
		}
		return stats.Median(all)
	}
	side := func(v *Sample) (mean, p50, p99 float64) {
		s := v.Read
		if s == nil {
			s = v.Write
		}
		return s.Latency.Mean, s.Latency.P50, s.Latency.P99
	}
	values := make([]float64, len(samples))
	var steady []Steady
	for i, v := range samples {
		values[i] = v.Value
		steady = append(steady, settled(v.PerSecond, window(mode, len(v.PerSecond))))
	}
	r.Value, r.Spread, r.Steady = stats.Median(values), spread(values), worst(steady)
	r.InFlight = median(func(v *Sample) float64 { return v.InFlight })
	r.MeanS = median(func(v *Sample) float64 { m, _, _ := side(v); return m })
	r.P50S = median(func(v *Sample) float64 { _, m, _ := side(v); return m })
	r.P99S = median(func(v *Sample) float64 { _, _, m := side(v); return m })
	if c.Cache == Log {
		r.MeanS, r.P50S = median(func(v *Sample) float64 { return v.Sync.Mean }), median(func(v *Sample) float64 { return v.Sync.P50 })
		r.P99S = median(func(v *Sample) float64 { return v.Sync.P99 })
		r.SyncsPS = median(func(v *Sample) float64 { return v.Write.IOPS })
	}
	if c.reads() {
		share := median(func(v *Sample) float64 { return float64(v.StorageBytes) / float64(max(v.Read.Bytes, 1)) })
		r.FromStorage = &share
	}
	r.Doubts = common(samples)
	if r.Spread > mostSpread {
		r.Doubts = append(r.Doubts, Doubt{Noisy, fmt.Sprintf("the %s differ by %.0f %% (possible causes: other guests, thin provisioning, first writes)", text.Count(len(samples), "repeat"), 100*r.Spread)})
	}
	return r
}

// common returns the doubts of at least half of the samples. A single disturbed sample shows in the
// spread.
func common(samples []Sample) (out []Doubt) {
	count := map[DoubtKind]int{}
	for _, v := range samples {
		for _, d := range v.Doubts {
			if count[d.Kind]++; 2*count[d.Kind] >= len(samples) && !slices.ContainsFunc(out, func(o Doubt) bool { return o.Kind == d.Kind }) {
				out = append(out, d)
			}
		}
	}
	return out
}

// measured summarizes a place.
func measured(p *Place, results []Result) Measured {
	m := Measured{Place: *p, Results: results, Verdict: judge(p, results)}
	var sizes, times []float64
	for _, r := range results {
		switch {
		case !strings.HasPrefix(r.Name, "block-"):
		case r.Doubtful() != nil:
			m.Unfitted = append(m.Unfitted, r.Name)
		default:
			sizes, times = append(sizes, float64(r.BlockBytes)), append(times, r.MeanS)
		}
	}
	m.Fit = fit(sizes, times)
	return m
}

// series returns the series of all places.
func series(places []Measured) (out []evidence.Series) {
	for _, p := range places {
		for _, r := range p.Results {
			s := evidence.Series{Name: "disk:" + r.Name + "@" + p.Directory, Unit: r.Unit, More: r.More()}
			rate := evidence.Series{Name: "disk:" + r.Name + "-rate@" + p.Directory, Unit: "1/s", More: true}
			for _, v := range r.Samples {
				s.Samples = append(s.Samples, v.Value)
				if r.Cache == Log {
					rate.Samples = append(rate.Samples, v.Write.IOPS)
				}
			}
			out = append(out, s)
			if rate.Samples != nil {
				out = append(out, rate)
			}
		}
	}
	return out
}

// curves returns the curves of block sizes and of depths, with a line per directory.
func curves(places []Measured) (out []evidence.Curve) {
	for _, ladder := range []struct {
		cells string // prefix of the cells' names
		curve evidence.Curve
		point func(*Result) [2]float64
	}{
		{"block-", evidence.Curve{Name: "reads by block size", X: evidence.Axis{Name: "block", Unit: "KiB", Scale: evidence.Log}, Y: evidence.Axis{Name: "rate", Unit: "MB/s", Scale: evidence.Log}},
			func(r *Result) [2]float64 { return [2]float64{float64(r.BlockBytes) / 1024, r.Value} }},
		{"depth-", evidence.Curve{Name: "random reads by requests in flight", X: evidence.Axis{Name: "in flight", Scale: evidence.Log}, Y: evidence.Axis{Name: "rate", Unit: "1/s", Scale: evidence.Log}},
			func(r *Result) [2]float64 { return [2]float64{float64(r.Depth), r.Value} }},
	} {
		for _, p := range places {
			line, doubtful := evidence.Line{Name: p.Directory}, false
			for i := range p.Results {
				if r := &p.Results[i]; strings.HasPrefix(r.Name, ladder.cells) {
					line.Points = append(line.Points, ladder.point(r))
					doubt := ""
					if d := r.Doubtful(); d != nil {
						doubt, doubtful = string(d.Kind), true
					}
					line.Doubts = append(line.Doubts, doubt)
				}
			}
			if !doubtful {
				line.Doubts = nil
			}
			if line.Points != nil {
				ladder.curve.Lines = append(ladder.curve.Lines, line)
			}
		}
		if ladder.curve.Lines != nil {
			out = append(out, ladder.curve)
		}
	}
	return out
}

// warnings returns remarks on the figures, for the user.
func (e *Evidence) warnings(hypervisor string) (out []string) {
	switch e.Plan.Mode {
	case Quick, Full:
		out = append(out, fmt.Sprintf("each figure comes from runs of %s to %s seconds; --sustained measures the sustained speed", unit.Digits(e.Plan.unit.Seconds()), unit.Digits(3*e.Plan.unit.Seconds())))
	case Sustained:
		for _, p := range e.Places {
			for _, r := range p.Results {
				if s := r.Steady; s.State == Yes {
					out = append(out, fmt.Sprintf("%s: %s was steady after %s GB; the speed after further writes is unknown", p.Directory, r.Name, unit.Digits(s.MovedBytes/1e9)))
				}
			}
		}
	}
	if hypervisor != "" {
		out = append(out, "this is a guest ("+hypervisor+"): fettle cannot detect a cache on the host")
	}
	for _, p := range e.Places {
		if p.Storage.Class == fact.ClassSAN || p.Storage.Class == fact.ClassNetwork {
			out = append(out, fmt.Sprintf("%s is behind a network: judge it by stream-read with 8 requests in flight and by fdatasync, not by one small request at a time", p.Directory))
		}
	}
	return out
}

// Sum sets the verdict, series, curves and warnings from the places' results.
func (e *Evidence) Sum(hypervisor string) {
	e.Schema = Schema
	var all []Judgment
	for _, p := range e.Places {
		all = append(all, p.Verdict...)
	}
	e.Verdict, e.Series, e.Warnings = overall(all), series(e.Places), e.warnings(hypervisor)
	e.Curves = curves(e.Places)
}

// Text returns the verdict in one line.
func (e *Evidence) Text() string {
	var parts []string
	for _, p := range e.Places {
		words := []string{}
		for _, j := range p.Verdict {
			if j.Verdict == NoVerdict {
				words = append(words, j.Name+" no verdict")
				continue
			}
			words = append(words, fmt.Sprintf("%s %s %s %s", j.Name, unit.Digits(j.Value), j.Unit, j.Verdict))
		}
		if len(words) == 0 {
			for _, r := range p.Results[:min(len(p.Results), 2)] {
				words = append(words, fmt.Sprintf("%s %s %s", r.Name, unit.Digits(r.Value), r.Unit))
			}
		}
		parts = append(parts, p.Directory+": "+strings.Join(words, ", "))
	}
	return e.Cut.Text(strings.Join(parts, "; "))
}
