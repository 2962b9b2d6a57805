// Thresholds such as p99 < 200ms and errors < 1%, and their evaluation.

package engine

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Measured provides the values that thresholds compare.
type Measured interface {
	Percentile(p float64) float64 // of the latency, in seconds
	MeanS() float64
	MaxS() float64
	Latencies() int64 // number of latencies
	Errors() float64  // 0 to 1
	Rate() float64    // answers a second
	// Observed returns a figure of the observed servers by name, or false if it is unknown.
	Observed(name string) (float64, bool)
}

// Errors and Rate are the names of the thresholds on the error share and the answer rate.
const (
	Errors = "errors"
	Rate   = "rate"
)

// Names of thresholds on observed servers: CPU share, runnable tasks per processor, memory
// share, bytes a second of the busiest interface.
const (
	CPU      = "cpu"
	RunQueue = "runqueue"
	Memory   = "memory"
	Network  = "network"
)

// Gate is one threshold.
type Gate struct {
	Text  string
	below bool // the value must be below the limit, otherwise above
	equal bool // the limit itself is allowed
	limit float64
	value func(Measured) float64
	show  func(float64) string
	// wants is the minimum number of latencies for a valid result.
	wants int64
	what  string
}

// Asks returns the name of the compared value: p99, errors, rate, cpu.
func (g *Gate) Asks() string { return g.what }

// Upper reports whether the value must be below the limit.
func (g *Gate) Upper() bool { return g.below }

// Observed reports whether the value is a figure of the observed servers.
func (g *Gate) Observed() bool {
	return g.what == CPU || g.what == RunQueue || g.what == Memory || g.what == Network
}

// Wants returns the minimum number of latencies for a valid result.
func (g *Gate) Wants() int64 { return g.wants }

var form = internaltext.LazyRegexp(`^\s*(p[0-9.]+|mean|max|errors|rate|cpu|runqueue|memory|network)\s*(<=|>=|<|>)\s*(\S.*?)\s*$`)

// ParseThreshold parses a threshold such as p99 < 200ms.
func ParseThreshold(text string) (*Gate, error) {
	words := form().FindStringSubmatch(text)
	if words == nil {
		return nil, fmt.Errorf("%q: want a threshold such as 'p99 < 200ms', 'errors < 1%%' or 'rate > 450/s' (p50 to p99.9, mean, max, errors, rate; for observed servers cpu, runqueue, memory, network)", text)
	}
	what, sign, limit := words[1], words[2], words[3]
	g := &Gate{Text: what + " " + sign + " " + limit, below: sign[0] == '<', equal: len(sign) == 2, what: what}
	var err error
	switch what {
	case Errors:
		if g.limit, err = percent(limit); err != nil {
			return nil, fmt.Errorf("%q: want a share of the requests, such as 1%% or 0.1%%", text)
		}
		g.value, g.show = Measured.Errors, showPercent
	case CPU, Memory:
		if g.limit, err = percent(limit); err != nil {
			return nil, fmt.Errorf("%q: want a share of the server's capacity, such as 80%%", text)
		}
		g.show = showPercent
	case RunQueue:
		if g.limit, err = strconv.ParseFloat(limit, 64); err != nil || !(g.limit >= 0) {
			return nil, fmt.Errorf("%q: want a number of tasks per processor, such as 1.5", text)
		}
		g.show = unit.Digits
	case Network:
		size, second := strings.CutSuffix(strings.ReplaceAll(limit, " ", ""), "/s")
		n, err := unit.ParseSize(size)
		if !second || err != nil {
			return nil, fmt.Errorf("%q: want bytes a second, such as 100MB/s", text)
		}
		g.limit = float64(n)
		g.show = func(v float64) string { return unit.Size(v).Human() + "/s" }
	case Rate:
		if g.limit, err = ParseSchedule(limit); err != nil {
			return nil, err
		}
		g.value = Measured.Rate
		g.show = func(v float64) string { return unit.Digits(v) + "/s" }
	default:
		d, err := time.ParseDuration(strings.ReplaceAll(limit, " ", ""))
		if err != nil || d <= 0 {
			return nil, fmt.Errorf("%q: want a time with unit, such as 200ms or 1.5s", text)
		}
		g.limit, g.show, g.wants = d.Seconds(), unit.FormatSeconds, 1
		switch what {
		case "mean":
			g.value = Measured.MeanS
		case "max":
			g.value = Measured.MaxS
		default:
			p, err := strconv.ParseFloat(what[1:], 64)
			if err != nil || !(p > 0 && p < 100) {
				return nil, fmt.Errorf("%q: want a percentile above 0 and below 100", text)
			}
			g.value = func(m Measured) float64 { return m.Percentile(p) }
			// Rule of three: if none of n values exceeds a limit, at most 3/n of all values
			// exceed it, with 95 % confidence.
			g.wants = int64(math.Ceil(3/(1-p/100) - 1e-6))
		}
	}
	return g, nil
}

// percent parses a percentage such as 1% and returns a share, 0 to 1.
func percent(limit string) (float64, error) {
	digits, ok := strings.CutSuffix(limit, "%")
	n, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if !ok || err != nil || !(n >= 0 && n <= 100) {
		return 0, errors.New("not a share such as 1%")
	}
	return n / 100, nil
}

func showPercent(v float64) string { return unit.Digits(100*v) + " %" }

// Result is an evaluated threshold.
type Result struct {
	Gate string `json:"gate"` // p99 < 200ms
	Met  bool   `json:"met"`
	Text string `json:"text"` // the measured value
	// Unknown reports whether the threshold counts as missed because the value is unknown.
	Unknown bool `json:"unknown,omitempty"`
}

// WriteGates prints evaluated thresholds as a table. of returns the stage of a gate, or "", and the
// gate's result. at is printed between a threshold and its stage.
func WriteGates[Gate any](s *ui.Screen, all []Gate, at string, of func(Gate) (string, Result)) {
	g := ui.Grid{Columns: []ui.Column{{Head: "expected"}, {Head: "verdict"}, {Head: "measured", Below: true}}}
	for _, gate := range all {
		stage, r := of(gate)
		word, name := "not met", r.Gate
		if r.Met {
			word = "met"
		}
		if stage != "" {
			name += at + stage
		}
		g.Rows = append(g.Rows, []string{name, word, r.Text})
	}
	g.Write(s)
}

// Thresholds adds to a headline how many thresholds were met, and the measured values of
// missed thresholds. of returns the stage of a gate, or "", and the gate's result.
func Thresholds[Gate any](h *ui.Headline, all []Gate, of func(Gate) (string, Result)) {
	if len(all) == 0 {
		return
	}
	var met, missed []string
	for _, g := range all {
		stage, r := of(g)
		name := r.Gate
		if stage != "" {
			name += " at " + stage
		}
		if r.Met {
			met = append(met, name+" ("+r.Text+")")
		} else {
			missed = append(missed, name+" ("+r.Text+")")
		}
	}
	h.Value("thresholds_met", float64(len(met)), "")
	count := h.Count("thresholds", len(all), "threshold")
	if len(missed) == 0 {
		h.Line("✓ %d of %s met: %s", len(met), count, strings.Join(met, ", "))
		return
	}
	h.Line("✗ %d of %s met; not met: %s", len(met), count, strings.Join(missed, ", "))
}

// TooFew explains that n latencies are too few for the threshold. It returns "" for enough.
func (g *Gate) TooFew(n int64) string {
	if n >= g.wants {
		return ""
	}
	answers, verb := "answers", "are"
	if n == 1 {
		answers = "answer"
	}
	if g.wants == 1 {
		verb = "is"
	}
	return internaltext.Sprintf("cannot tell from %d %s: %d %s needed", n, answers, g.wants, verb)
}

// Judge evaluates a threshold. A threshold is missed if there are too few latencies.
func (g *Gate) Judge(m Measured) Result {
	if why := g.TooFew(m.Latencies()); why != "" {
		return Result{g.Text, false, why, true}
	}
	var v float64
	if g.Observed() {
		var seen bool
		if v, seen = m.Observed(g.what); !seen {
			return Result{g.Text, false, "cannot tell: not observed", true}
		}
	} else {
		v = g.value(m)
	}
	met := v > g.limit || g.equal && v == g.limit
	if g.below {
		met = v < g.limit || g.equal && v == g.limit
	}
	return Result{g.Text, met, g.show(v), false}
}
