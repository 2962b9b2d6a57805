package load

import (
	"fmt"

	"fettle.dev/fettle/internal/evidence"
)

// blocks is the number of samples of each stage, for comparing runs.
const blocks = 10

// series records samples of each stage for comparing runs: latency percentiles and the answer
// rate, in periods of equal length.
func (c *course) series(x *Result) error {
	for from := c.from; from < len(c.slices); {
		stage, to := c.slices[from].Stage, from
		for to < len(c.slices) && c.slices[to].Stage == stage {
			to++
		}
		at := ""
		if len(c.plan.Stages) > 1 {
			// the same rate may occur twice
			at = fmt.Sprintf("@%d:%s", stage+1, c.plan.stageName(stage))
		}
		p50, p99 := evidence.Series{Name: "http:p50" + at, Unit: "ms"}, evidence.Series{Name: "http:p99" + at, Unit: "ms"}
		rate := evidence.Series{Name: "http:rate" + at, Unit: "1/s", More: true}
		n := min(blocks, to-from)
		for i := range n {
			t := c.meter.Sum(from+(to-from)*i/n, from+(to-from)*(i+1)/n)
			for _, s := range []struct {
				to    *evidence.Series
				value float64
				known bool
			}{{&p50, 1000 * t.Percentile(50), t.Good > 0}, {&p99, 1000 * t.Percentile(99), t.Good > 0}, {&rate, perSecond(t.Answered, t.To-t.From), true}} {
				if s.known {
					if err := s.to.Add(s.value); err != nil {
						return err
					}
				}
			}
		}
		for _, s := range []evidence.Series{p50, p99, rate} {
			if len(s.Samples) > 0 {
				x.Series = append(x.Series, s)
			}
		}
		from = to
	}
	return nil
}

// curves records the latency of each stage by percentile and over time.
func (c *course) curves(x *Result) {
	if x.Whole.Latency.N == 0 {
		return
	}
	ms := evidence.Axis{Name: "latency", Unit: "ms", Scale: evidence.Log}
	by := evidence.Curve{Name: "latency by percentile", X: evidence.Axis{Name: "percentile", Scale: evidence.Percentile}, Y: ms}
	for i, stage := range x.Stages {
		name := "from the intended start"
		if len(x.Stages) > 1 {
			name = fmt.Sprintf("%d: %s", i+1, stage.Rate)
		}
		if line := stage.Latency.Line(name); len(line.Points) > 0 {
			by.Lines = append(by.Lines, line)
		}
	}
	over := evidence.Curve{Name: "latency over time", X: evidence.Axis{Name: "time", Unit: "s", Scale: evidence.Linear}, Y: ms, Lines: []evidence.Line{{Name: "p50"}, {Name: "p99"}}}
	for _, s := range x.Slices {
		if s.P50S > 0 {
			over.Lines[0].Points = append(over.Lines[0].Points, [2]float64{s.FromS, 1000 * s.P50S})
			over.Lines[1].Points = append(over.Lines[1].Points, [2]float64{s.FromS, 1000 * s.P99S})
		}
	}
	if len(by.Lines) > 0 {
		x.Curves = append(x.Curves, by)
	}
	if len(over.Lines[0].Points) > 0 {
		x.Curves = append(x.Curves, over)
	}
}
