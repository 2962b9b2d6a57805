package evidence

import (
	"encoding/json"
	"fmt"
	"math"
)

// Series is a measured quantity with one value per repetition. The body of
// every benchmark has a top-level list "series", so that runs can be compared
// and drawn without knowing the benchmark.
type Series struct {
	// Name identifies the quantity across runs, such as disk:randrw-qd32@/srv.
	Name string `json:"name"`
	// Unit is the unit of the samples, such as MB/s, ms, 1/s.
	Unit string `json:"unit"`
	// More reports whether higher is better.
	More bool `json:"more_is_better"`
	// Samples are the values in order of measurement, one per repetition.
	Samples []float64 `json:"samples"`
}

// SeriesOf returns the series of a run, or nil if its kind has none.
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
			return nil, fmt.Errorf("run %s: two series are named %q", r.ID, s.Name)
		}
		seen[s.Name] = true
	}
	return body.Series, nil
}

// Add appends a sample. It rejects NaN and infinity, which JSON cannot represent.
func (s *Series) Add(value float64) error {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return fmt.Errorf("series %s: %v is not a finite number", s.Name, value)
	}
	s.Samples = append(s.Samples, value)
	return nil
}
