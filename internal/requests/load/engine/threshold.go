// threshold reads thresholds as p99 < 200ms and errors < 1%, and says whether what was
// measured meets them.

package engine

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/unit"
)

// Measured is what gates ask.
type Measured interface {
	Percentile(p float64) float64 // of the latency, in seconds
	MeanS() float64
	MaxS() float64
	Latencies() int64 // how many there are
	Errors() float64  // 0 to 1
	Rate() float64    // answers a second
	// Observed is a figure of the servers, by its name; false where nobody looked.
	Observed(name string) (float64, bool)
}

// Errors and Rate are what the gates of those names ask for.
const (
	Errors = "errors"
	Rate   = "rate"
)

// Of the servers thresholds can ask these: shares of the processors and of the memory, tasks
// that run or wait for each processor, bytes a second of the busiest interface.
const (
	CPU      = "cpu"
	RunQueue = "runqueue"
	Memory   = "memory"
	Network  = "network"
)

// Gate is one threshold.
type Gate struct {
	Text  string
	below bool // the value has to be below the limit, else above
	equal bool // the limit itself meets it
	limit float64
	value func(Measured) float64
	show  func(float64) string
	// wants is how many latencies it takes to know the value.
	wants int64
	what  string
}

// Asks is what the gate asks for: p99, errors, rate, cpu.
func (g *Gate) Asks() string { return g.what }

// Observed says that the gate asks for a figure of the servers.
func (g *Gate) Observed() bool {
	return g.what == CPU || g.what == RunQueue || g.what == Memory || g.what == Network
}

// Wants is how many answers it takes to know the value.
func (g *Gate) Wants() int64 { return g.wants }

var form = regexp.MustCompile(`^\s*(p[0-9.]+|mean|max|errors|rate|cpu|runqueue|memory|network)\s*(<=|>=|<|>)\s*(\S.*?)\s*$`)

// ParseThreshold reads a threshold.
func ParseThreshold(text string) (*Gate, error) {
	words := form.FindStringSubmatch(text)
	if words == nil {
		return nil, fmt.Errorf("%q: want a threshold as 'p99 < 200ms', 'errors < 1%%' or 'rate > 450/s' (p50 to p99.9, mean, max, errors, rate; of servers that are observed cpu, runqueue, memory, network)", text)
	}
	what, sign, limit := words[1], words[2], words[3]
	g := &Gate{Text: what + " " + sign + " " + limit, below: sign[0] == '<', equal: len(sign) == 2, what: what}
	var err error
	switch what {
	case Errors:
		if g.limit, err = percent(limit); err != nil {
			return nil, fmt.Errorf("%q: want a share of the requests, as 1%% or 0.1%%", text)
		}
		g.value, g.show = Measured.Errors, showPercent
	case CPU, Memory:
		if g.limit, err = percent(limit); err != nil {
			return nil, fmt.Errorf("%q: want a share of the server's, as 80%%", text)
		}
		g.show = showPercent
	case RunQueue:
		if g.limit, err = strconv.ParseFloat(limit, 64); err != nil || !(g.limit >= 0) {
			return nil, fmt.Errorf("%q: want a number of tasks for each processor, as 1.5", text)
		}
		g.show = func(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }
	case Network:
		size, second := strings.CutSuffix(strings.ReplaceAll(limit, " ", ""), "/s")
		n, err := unit.ParseSize(size)
		if !second || err != nil {
			return nil, fmt.Errorf("%q: want bytes a second, as 100MB/s", text)
		}
		g.limit = float64(n)
		g.show = func(v float64) string { return unit.Size(v).Human() + "/s" }
	case Rate:
		if g.limit, err = ParseSchedule(limit); err != nil {
			return nil, err
		}
		g.value = Measured.Rate
		g.show = func(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) + "/s" }
	default:
		d, err := time.ParseDuration(strings.ReplaceAll(limit, " ", ""))
		if err != nil || d <= 0 {
			return nil, fmt.Errorf("%q: want a time with its unit, as 200ms or 1.5s", text)
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
			// The rule of three: where none of n is above a limit, at most 3/n of all
			// are, at 95 %.
			g.wants = int64(math.Ceil(3/(1-p/100) - 1e-6))
		}
	}
	return g, nil
}

// percent reads a share.
func percent(limit string) (float64, error) {
	digits, ok := strings.CutSuffix(limit, "%")
	n, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if !ok || err != nil || !(n >= 0 && n <= 100) {
		return 0, errors.New("no share")
	}
	return n / 100, nil
}

func showPercent(v float64) string { return strconv.FormatFloat(100*v, 'g', 3, 64) + " %" }

// Result is what came of a gate.
type Result struct {
	Gate string `json:"gate"` // p99 < 200ms
	Met  bool   `json:"met"`
	Text string `json:"text"` // what was measured
	// Unknown says that it was not met because nothing is known of it.
	Unknown bool `json:"unknown,omitempty"`
}

// TooFew says why so many latencies are too few to meet the gate; "" where they are not.
func (g *Gate) TooFew(n int64) string {
	if n >= g.wants {
		return ""
	}
	answers, are := "answers", "are"
	if n == 1 {
		answers = "answer"
	}
	if g.wants == 1 {
		are = "is"
	}
	return fmt.Sprintf("cannot tell from %d %s: %d %s asked for", n, answers, g.wants, are)
}

// Judge says whether a gate is met. Where too little was measured it is not.
func (g *Gate) Judge(m Measured) Result {
	if why := g.TooFew(m.Latencies()); why != "" {
		return Result{g.Text, false, why, true}
	}
	var v float64
	if g.Observed() {
		var seen bool
		if v, seen = m.Observed(g.what); !seen {
			return Result{g.Text, false, "cannot tell: it was not observed", true}
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
