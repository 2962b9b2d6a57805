package puppetrun

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"fettle.dev/fettle/internal/requests/logs"
)

// Measured holds the figures of a stage, type or resource. Unknown figures are absent.
type Measured struct {
	Name      string   `json:"name"`
	Count     uint64   `json:"count"` // number of runs that contain it
	TotalS    float64  `json:"total_s"`
	Share     *float64 `json:"share,omitempty"` // share of the time of all runs
	MeanS     *float64 `json:"mean_s,omitempty"`
	P50S      *float64 `json:"p50_s,omitempty"` // percentiles within 0.8 %
	P90S      *float64 `json:"p90_s,omitempty"`
	P99S      *float64 `json:"p99_s,omitempty"`
	MaxS      *float64 `json:"max_s,omitempty"`
	SlowestOn string   `json:"slowest_on,omitempty"` // node with the time MaxS
	Failed    uint64   `json:"failed,omitempty"`
	Changed   uint64   `json:"changed,omitempty"`
}

// tally adds up times by name.
type tally struct {
	table *logs.Table
	more  []further // by group
}

// further holds figures of a group that logs.Table lacks.
type further struct {
	changed uint64
	longest int64  // in microseconds
	on      string // the node
}

func newTally(most int) *tally { return &tally{table: logs.New(true, most)} }

// add adds a run's time to a name, in seconds. A negative time means that the run has none.
func (t *tally) add(name string, seconds float64, failed, changed bool, node string) {
	took := int64(-1)
	if seconds >= 0 {
		took = int64(math.Round(seconds * 1e6))
	}
	key := []byte(name)
	i := t.table.Find(logs.HashParts(key), key)
	t.table.Add(i, t.table.Sample(took, failed))
	if i < 0 {
		return
	}
	if i == len(t.more) {
		t.more = append(t.more, further{longest: -1})
	}
	m := &t.more[i]
	if changed {
		m.changed++
	}
	// Reports are read in any order, so the first node by name with the longest time is kept.
	if took > m.longest || took == m.longest && node < m.on {
		m.longest, m.on = took, node
	}
}

// measured returns the top entries by total time, or all entries if top is 0. all is the total
// time of all runs, in seconds.
func (t *tally) measured(all float64, top int) []Measured {
	order := make([]int, t.table.Len())
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(t.table.At(b).Sum, t.table.At(a).Sum), bytes.Compare(t.table.Text(a), t.table.Text(b)))
	})
	if top > 0 && len(order) > top {
		order = order[:top]
	}
	out := []Measured{}
	for _, i := range order {
		out = append(out, t.one(i, all))
	}
	return out
}

func (t *tally) one(i int, all float64) Measured {
	s := t.table.At(i)
	m := Measured{Name: string(t.table.Text(i)), Count: s.Count, TotalS: float64(s.Sum) / 1e6, Failed: uint64(s.Errors), Changed: t.more[i].changed}
	if s.Timed() == 0 {
		return m
	}
	number := func(us float64) *float64 { v := us / 1e6; return &v }
	q := t.table.Quantiles(i, []float64{.5, .9, .99})
	m.MeanS, m.P50S, m.P90S, m.P99S, m.MaxS = number(s.Mean()), number(q[0]), number(q[1]), number(q[2]), number(float64(s.Max))
	m.SlowestOn = t.more[i].on
	if all > 0 {
		m.Share = number(1e6 * m.TotalS / all)
	}
	return m
}
