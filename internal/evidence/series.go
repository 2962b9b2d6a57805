package evidence

import (
	"encoding/json"
	"fmt"
	"math"
)

// Series is one thing that a bench has measured, once in each of its repeats. The body
// of every bench has its series as a list "series" at the top, so that runs can be
// compared and drawn without knowing what measured them.
type Series struct {
	// Name is that of the thing measured, the same in every run: disk:randrw-qd32@/srv.
	Name string `json:"name"`
	// Unit is spelled as in MB/s, ms, 1/s.
	Unit string `json:"unit"`
	// More says that more is better.
	More bool `json:"more_is_better"`
	// Samples are the values, one of each repeat, in the order of their measurement.
	Samples []float64 `json:"samples"`
}

// SeriesOf are the series of a run; none where the measurement is of a kind that has
// none.
func SeriesOf(r *Run) ([]Series, error) {
	var body struct {
		Series []Series `json:"series"`
	}
	if len(r.Body) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return nil, fmt.Errorf("run %s: its series cannot be read: %w", r.ID, err)
	}
	seen := map[string]bool{}
	for i, s := range body.Series {
		switch {
		case s.Name == "":
			return nil, fmt.Errorf("run %s: series %d has no name", r.ID, i+1)
		case seen[s.Name]:
			return nil, fmt.Errorf("run %s: it has two series %q", r.ID, s.Name)
		}
		seen[s.Name] = true
	}
	return body.Series, nil
}

// Add appends a sample. JSON has no infinity, so a bench that has one has not
// measured anything.
func (s *Series) Add(value float64) error {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return fmt.Errorf("%s: %v is no measurement", s.Name, value)
	}
	s.Samples = append(s.Samples, value)
	return nil
}
