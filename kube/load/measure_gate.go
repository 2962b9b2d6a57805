package load

import (
	"fmt"
	"math"
	"strings"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/kube/load/plan"
	"fettle.dev/fettle/kube/load/run"
)

// Gate is a threshold for a run, such as "create p99 < 1s", "scheduled p50 < 100ms", "ready p99 <
// 5s", "errors < 1%" or "rate > 450/s".
type Gate struct {
	of   string // create, scheduled or ready; "" for a value of the whole run
	gate *engine.Gate
}

// Defaults returns Kubernetes' objectives at the 99th percentile, for runs without gates: 1 s for a
// call that changes one object, and 5 s until a stateless pod with a pulled image runs
// (kubernetes/community, sig-scalability/slos).
func Defaults() []*Gate {
	var all []*Gate
	for _, text := range []string{"create p99 <= 1s", "ready p99 <= 5s"} {
		g, err := ParseGate(text)
		if err != nil {
			panic(err) // the texts are constants
		}
		all = append(all, g)
	}
	return all
}

// ParseGate parses the text of a gate.
func ParseGate(text string) (*Gate, error) {
	of, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	switch of {
	case "create", "scheduled", "ready":
	default:
		of, rest = "", text
	}
	g, err := engine.ParseThreshold(rest)
	if err != nil {
		return nil, fmt.Errorf("%w; name the measurement before the percentile: create, scheduled or ready", err)
	}
	switch {
	case g.Observed():
		return nil, fmt.Errorf("%q: kubectl fettle load does not observe servers; want create, scheduled or ready with a percentile, or errors or rate", text)
	case of == "" && g.Wants() > 0:
		return nil, fmt.Errorf("%q: want create, scheduled or ready before the percentile", text)
	case of != "" && g.Wants() == 0:
		return nil, fmt.Errorf("%q: %s applies to the whole run; leave out %s", text, g.Asks(), of)
	}
	return &Gate{of, g}, nil
}

// Measured is a gate with its measured result.
type Measured struct {
	Gate    string `json:"gate"`
	Met     bool   `json:"met"`
	Unknown bool   `json:"unknown,omitempty"`
	Text    string `json:"text"`
}

// Judge compares a run's measurements with the gates.
func (m *Meter) Judge(gates []*Gate, out *run.DriveOutcome) []Measured {
	all := []Measured{}
	for _, g := range gates {
		d, coarse := m.create, int64(0)
		switch g.of {
		case "scheduled":
			d, coarse = m.scheduled, m.coarse.Scheduled
		case "ready":
			d, coarse = m.ready, m.coarse.Ready
		}
		x := measured{d: d, t: d.Times(), out: out}
		r := g.gate.Judge(x)
		all = append(all, Measured{g.String(), r.Met, r.Unknown, r.Text})
		if coarse == 0 || r.Unknown {
			continue
		}
		// Whole-second durations may be off by one second: a verdict that depends on it is unknown.
		last := &all[len(all)-1]
		last.Text += " (accurate to one second, because pod timestamps in the API are whole seconds)"
		x.shift = -nearlySecond
		least := g.gate.Judge(x)
		x.shift = nearlySecond
		if most := g.gate.Judge(x); least.Met != most.Met {
			last.Met, last.Unknown = false, true
		}
	}
	return all
}

// nearlySecond is the maximum error, in seconds, of a difference between two truncated timestamps,
// less the rounding of a distribution.
const nearlySecond = 0.99

func (g *Gate) String() string {
	return strings.TrimSpace(g.of + " " + g.gate.Text)
}

// Answers is how many durations a run will measure, according to its plan.
type Answers struct {
	Objects int64
	Pods    int64 // including controllers' pods
	// PerNode reports whether each node adds one more; the number of nodes is unknown here.
	PerNode bool
}

// AnswersOf returns the expected durations of a plan. made reports whether an object exists
// already; it may be nil.
func AnswersOf(p *plan.Plan, made func(i int) bool) (a Answers) {
	for i := range p.Len() {
		if made != nil && made(i) {
			continue
		}
		a.Objects++
		_, perNode := p.Pods(i)
		a.Pods += int64(p.PodsInAll(i))
		a.PerNode = a.PerNode || perNode
	}
	return a
}

// TooFew explains that a gate has too few durations for Judge, and which percentile would be
// possible; "" if there are enough.
func (g *Gate) TooFew(a Answers) string {
	n := a.Objects
	if g.of == "scheduled" || g.of == "ready" {
		if n = a.Pods; a.PerNode {
			return ""
		}
	}
	why := g.gate.TooFew(n)
	if why == "" {
		return ""
	}
	for _, lower := range []string{"p99", "p95", "p90", "p50"} {
		if other, err := engine.ParseThreshold(lower + " < 1s"); err == nil && other.TooFew(n) == "" {
			return fmt.Sprintf("%s cannot be judged: %s; %s can be", g, why, lower)
		}
	}
	return fmt.Sprintf("%s will not be met: %s", g, why)
}

// measured is the input for one gate.
type measured struct {
	d     *engine.Distribution
	t     engine.Times
	out   *run.DriveOutcome
	shift float64 // added to every duration, in seconds
}

func (m measured) Percentile(p float64) float64 { return max(0, m.d.Percentile(p)+m.shift) }
func (m measured) MeanS() float64               { return max(0, m.t.MeanS+m.shift) }
func (m measured) MaxS() float64                { return max(0, m.t.MaxS+m.shift) }
func (m measured) Latencies() int64             { return m.t.N }
func (m measured) Rate() float64                { return m.out.Rate() }

func (m measured) Errors() float64 {
	all := m.out.Created + m.out.Reused + m.out.Failed
	if all == 0 {
		return 0
	}
	return float64(m.out.Failed) / float64(all)
}

func (m measured) Observed(string) (float64, bool) { return 0, false }

// single is one duration in seconds, and when it became known, in seconds since the run's start.
type single struct{ at, took float32 }

func (m *Meter) single(at time.Time, took time.Duration) single {
	return single{float32(at.Sub(m.began).Seconds()), float32(took.Seconds())}
}

// Series divides a run into consecutive parts with equal numbers of durations: at least
// leastInPart, and leastForP99 for a 99th percentile.
const (
	parts       = 20
	leastInPart = 25
	leastForP99 = 100
)

// Series returns the measurements with one sample per part of the run: median and 99th percentile
// of durations, and objects created per second. A series too short for two parts has one sample.
func (m *Meter) Series() []evidence.Series {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := []evidence.Series{}
	add := func(s evidence.Series) {
		if len(s.Samples) > 0 {
			all = append(all, s)
		}
	}
	for _, x := range []struct {
		name  string
		times []single
	}{{"create", m.creates}, {"scheduled", m.schedules}, {"ready", m.readies}} {
		median := evidence.Series{Name: x.name + " p50", Unit: "s"}
		tail := evidence.Series{Name: x.name + " p99", Unit: "s"}
		for _, part := range cut(x.times) {
			median.Samples = append(median.Samples, quantile(part, 0.5))
			if len(part) >= leastForP99 {
				tail.Samples = append(tail.Samples, quantile(part, 0.99))
			}
		}
		add(median)
		add(tail)
	}
	made := evidence.Series{Name: "made", Unit: "1/s", More: true}
	last := float32(0)
	for _, part := range cut(m.creates) {
		end := last
		for _, s := range part {
			end = max(end, s.at)
		}
		if end > last {
			made.Samples = append(made.Samples, float64(len(part))/float64(end-last))
		}
		last = end
	}
	add(made)
	return all
}

// cut divides durations into as many parts as they suffice for.
func cut(times []single) [][]single {
	if len(times) == 0 {
		return nil
	}
	n := max(1, min(parts, len(times)/leastInPart))
	var all [][]single
	for i := range n {
		all = append(all, times[len(times)*i/n:len(times)*(i+1)/n])
	}
	return all
}

func quantile(part []single, q float64) float64 {
	values := make([]float64, len(part))
	for i, s := range part {
		values[i] = math.Round(float64(s.took)*1e7) / 1e7
	}
	return stats.Quantile(values, q)
}
