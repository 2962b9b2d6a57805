package evidence

import (
	"encoding/json"
	"fmt"
)

// Scale is the scale of a curve's axis.
type Scale string

// Scales of an axis. On a percentile axis 99 and 99.9 are as far apart as 90 and 99.
const (
	Linear     Scale = "linear"
	Log        Scale = "log"
	Percentile Scale = "percentile" // from 0 to below 100
)

// Axis describes one axis of a curve.
type Axis struct {
	Name  string `json:"name"` // such as queue depth, latency
	Unit  string `json:"unit,omitempty"`
	Scale Scale  `json:"scale"`
}

// Curve shows how one measured value depends on another: latency by percentile, rate by queue
// depth. A benchmark's body may have a top-level list "curves" in addition to its series. Curves
// are displayed; series are compared.
type Curve struct {
	Name  string `json:"name"`
	X     Axis   `json:"x"`
	Y     Axis   `json:"y"`
	Lines []Line `json:"lines"`
}

// Line is one line of a curve.
type Line struct {
	Name string `json:"name"`
	// Points are x and y, with x ascending.
	Points [][2]float64 `json:"points"`
	// Doubts has one text per point: the reason that the point is doubtful, or "". It is empty, or
	// as long as Points.
	Doubts []string `json:"doubts,omitempty"`
}

// CurvesOf returns the curves of a run, or nil if it has none.
func CurvesOf(r *Run) ([]Curve, error) {
	var body struct {
		Curves []Curve `json:"curves"`
	}
	if len(r.Body) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return nil, fmt.Errorf("run %s: its curves cannot be read: %w", r.ID, err)
	}
	for _, c := range body.Curves {
		for _, a := range []Axis{c.X, c.Y} {
			if a.Scale != Linear && a.Scale != Log && (a.Scale != Percentile || a == c.Y) {
				return nil, fmt.Errorf("run %s: curve %q: the scale of %q is %q; use linear or log, or percentile for x", r.ID, c.Name, a.Name, a.Scale)
			}
		}
		for _, l := range c.Lines {
			if n := len(l.Doubts); n > 0 && n != len(l.Points) {
				return nil, fmt.Errorf("run %s: curve %q, line %q: %d points, but uncertainties for %d", r.ID, c.Name, l.Name, len(l.Points), n)
			}
			for i, p := range l.Points {
				switch {
				case i > 0 && p[0] <= l.Points[i-1][0]:
					return nil, fmt.Errorf("run %s: curve %q, line %q: x does not rise at point %d", r.ID, c.Name, l.Name, i+1)
				case c.X.Scale == Percentile && (p[0] < 0 || p[0] >= 100):
					return nil, fmt.Errorf("run %s: curve %q, line %q: %v is not a percentile from 0 to below 100", r.ID, c.Name, l.Name, p[0])
				case c.X.Scale == Log && p[0] <= 0, c.Y.Scale == Log && p[1] <= 0:
					return nil, fmt.Errorf("run %s: curve %q, line %q: %v cannot be shown on a logarithmic scale", r.ID, c.Name, l.Name, p)
				}
			}
		}
	}
	return body.Curves, nil
}
