package load

import (
	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/requests/load/fleet"
)

// Observed is an observed server with its figures.
type Observed struct {
	Machine string `json:"machine"`
	// RunQueueSource is the source of the run queue figures.
	RunQueueSource string `json:"run_queue_source"`
	// Ended is why observation stopped before the end of the load, or empty.
	Ended   string          `json:"ended,omitempty"`
	Samples []fleet.Figures `json:"samples"`
}

// observed records the figures of the observed servers, also as curves.
func (c *course) observed(x *Result) {
	over := evidence.Curve{Name: "processors of the servers over time", X: evidence.Axis{Name: "time", Unit: "s", Scale: evidence.Linear}, Y: evidence.Axis{Name: "not idle", Unit: "%", Scale: evidence.Linear}}
	for _, server := range c.seen {
		o := Observed{Machine: server.Name, RunQueueSource: server.RunQueueSource(), Samples: server.Samples()}
		if err := server.Err(); err != nil {
			o.Ended = evidence.EscapeInvalidUTF8(err.Error())
		}
		line := evidence.Line{Name: server.Name}
		for _, f := range o.Samples {
			if n := len(line.Points); n == 0 || f.FromS > line.Points[n-1][0] {
				line.Points = append(line.Points, [2]float64{f.FromS, 100 * f.CPUShare})
			}
		}
		if len(line.Points) > 0 {
			over.Lines = append(over.Lines, line)
		}
		x.Observed = append(x.Observed, o)
	}
	if len(over.Lines) > 0 {
		x.Curves = append(x.Curves, over)
	}
}
