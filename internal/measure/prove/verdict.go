package prove

import (
	"math"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// Word is the verdict in short.
type Word string

// Verdicts. Their texts are faster and slower for times and rates, better and worse otherwise.
const (
	Better     Word = "better"
	Worse      Word = "worse"
	NoEffect   Word = "no-effect"
	CannotTell Word = "cannot-tell"
)

// Decided reports whether the experiment can stop with this verdict.
func (w Word) Decided() bool { return w != CannotTell }

// Verdict is the verdict of the blocks so far. Effects are improvements as a ratio: 0.08 means 8 %
// less time, or 8 % more where more is better.
type Verdict struct {
	Word Word   `json:"verdict"`
	Text string `json:"text"`
	// Effect is the estimate, or absent before the first block.
	Effect *float64 `json:"effect_ratio,omitempty"`
	// Interval contains the effect with probability 1-alpha over all looks. It is absent while
	// unbounded.
	Interval *[2]float64 `json:"effect_interval_ratio,omitempty"`
	// Provisional is what is known while Interval is unbounded. It never decides.
	Provisional *Provisional `json:"provisional,omitempty"`
	// More is the approximate number of samples until an answer; 0 if there is one.
	More int `json:"more_visits,omitempty"`
}

// Provisional is an interval of fewer blocks than a verdict needs.
type Provisional struct {
	Interval   [2]float64 `json:"effect_interval_ratio"`
	Confidence float64    `json:"confidence"`
	// Unsettled reports that the interval is of blocks with a warm-up that was too short: it
	// includes what is left after a switch.
	Unsettled bool `json:"unsettled,omitempty"`
}

// provisional returns what is known while the interval is unbounded, or nil with fewer than two
// blocks.
func (t *track) provisional() *Provisional {
	p := &Provisional{}
	var i stats.Interval
	switch {
	case t.sequence.N() > 1:
		i, p.Confidence = t.sequence.Range()
	case t.unsettled != nil:
		i, p.Confidence = t.unsettled.Range()
		p.Unsettled = true
	default:
		return nil
	}
	p.Interval = t.metric.effects(i)
	return p
}

func (p *Provisional) text() string {
	text := bounds(p.Interval[0], p.Interval[1]) + " with " + percent(p.Confidence) + " confidence"
	if p.Unsettled {
		text += " and the cost of a switch"
	}
	return text
}

// effects converts an interval of logarithms of a ratio to improvements.
func (m Metric) effects(i stats.Interval) [2]float64 {
	if m.More {
		return [2]float64{m.Effect(i.Low), m.Effect(i.High)}
	}
	return [2]float64{m.Effect(i.High), m.Effect(i.Low)}
}

// Judged is a metric with its verdict.
type Judged struct {
	Metric
	Verdict
	// Noise is the scale of one block's difference.
	Noise float64 `json:"noise_ratio"`
}

// Judged returns the verdicts on all deciding metrics.
func (c *Course) Judged() (out []Judged) {
	for _, t := range c.deciding() {
		j := Judged{Metric: t.metric, Verdict: c.judge(t)}
		if t.sequence.N() > 1 {
			j.Noise = t.sequence.Noise()
		}
		out = append(out, j)
	}
	return out
}

// decided reports whether there is a verdict on each metric.
func (c *Course) decided() bool {
	return !slices.ContainsFunc(c.Judged(), func(j Judged) bool { return !j.Word.Decided() })
}

// Verdict returns the current verdict on the first metric. If there are several metrics, its text
// includes the verdicts on the others. It may be called after any sample: the probability that any
// of these verdicts is wrong stays alpha.
func (c *Course) Verdict() Verdict {
	all := c.Judged()
	v := all[0].Verdict
	if len(all) == 1 {
		return v
	}
	var texts []string
	for _, j := range all {
		texts = append(texts, j.Name+": "+j.Text)
		v.More = max(v.More, j.Verdict.More)
	}
	v.Text = strings.Join(texts, "; ")
	return v
}

// judge returns the verdict on a metric.
func (c *Course) judge(t *track) Verdict {
	v, estimate := Verdict{Word: CannotTell, Text: "cannot tell yet"}, 0.0
	switch {
	case t.sequence.N() > 0:
		estimate = t.sequence.Estimate()
		v = judge(t.interval, estimate, c.design.Margin, t.metric)
	case t.unsettled == nil:
		v.Text += ": no block is complete"
		return v
	}
	if v.Interval == nil {
		if v.Provisional = t.provisional(); v.Provisional != nil {
			v.Text += v.Provisional.text()
		} else {
			v.Text += " (" + t.metric.described(*v.Effect) + " in the only block)"
		}
	}
	if t.scale == zeros && v.Word == NoEffect {
		v.Text = "equal, both 0"
		return v
	}
	// Distant blocks are winsorized. If they alone cause an effect while most blocks are alike,
	// that effect is still real.
	tail := false
	if mean := stats.Mean(t.sequence.Values()); v.Word == NoEffect && math.Abs(mean) > math.Log1p(c.design.Margin) {
		tail = true
		v.Word, v.Text = CannotTell, "cannot tell yet: most blocks are alike, but a few outliers make a mean of "+number(t.metric.Effect(mean))+" %; use a percentile as the metric to see them"
	}
	if v.Word == CannotTell && !tail {
		const limit = 100_000
		n := c.Fewest() - t.sequence.N()
		if v.Interval != nil {
			// Until the interval excludes 0 or lies within the margins.
			half := max(math.Abs(estimate), math.Log1p(c.design.Margin)-math.Abs(estimate))
			n = max(t.sequence.Needed(half, limit), 1)
		}
		switch v.More = int(math.Ceil(float64(max(n, 1)) * c.Samples())); {
		case n >= limit:
			v.Text += ": more " + c.design.Unit() + "s than can be made"
		case v.Interval == nil:
			v.More = max(n, 1) * (2 + c.washout) // if no further block begins with a switch
			v.Text += ": at least " + text.Count(v.More, "more "+c.design.Unit())
		default:
			v.Text += ": about " + text.Count(v.More, "more "+c.design.Unit())
		}
	}
	return v
}

// rounding is the relative rounding error of equal values.
const rounding = 1e-9

// judge returns the verdict for an interval of the logarithm of the ratio with the change to
// without.
func judge(i stats.Interval, mid, margin float64, m Metric) Verdict {
	// From here on, positive values are improvements.
	at, effects := m.Effect(mid), m.effects(i)
	low, high := effects[0], effects[1]
	v := Verdict{Effect: &at}
	if !math.IsInf(i.Low, 0) && !math.IsInf(i.High, 0) {
		v.Interval = &effects
	}
	log := math.Log1p(margin)
	small := math.Abs(i.Low) <= log && math.Abs(i.High) <= log
	better, worse := words(m)
	switch {
	case low > rounding && small:
		v.Word, v.Text = Better, better+", but less than "+percent(margin)+bounds(low, high)
	case high < -rounding && small:
		v.Word, v.Text = Worse, worse+", but less than "+percent(margin)+bounds(-high, -low)
	case low > rounding:
		v.Word, v.Text = Better, better+" by "+percent(at)+bounds(low, high)
	case high < -rounding:
		v.Word, v.Text = Worse, worse+" by "+percent(-at)+bounds(-high, -low)
	case small:
		v.Word, v.Text = NoEffect, "no effect above "+percent(margin)+bounds(low, high)
	case v.Interval == nil:
		v.Word, v.Text = CannotTell, "cannot tell yet"
	default:
		v.Word, v.Text = CannotTell, "cannot tell yet"+bounds(low, high)
	}
	return v
}

// bounds is an interval in the text of a verdict.
func bounds(low, high float64) string { return " [" + number(low) + ", " + number(high) + "]" }

// described describes an effect in words.
func (m Metric) described(effect float64) string {
	switch better, worse := words(m); {
	case math.Abs(effect) <= rounding:
		return "no difference"
	case effect > 0:
		return percent(effect) + " " + better
	default:
		return percent(-effect) + " " + worse
	}
}

// words returns the words for improvements and deteriorations of a metric.
func words(m Metric) (better, worse string) {
	if m.Unit == "s" || strings.HasSuffix(m.Unit, "/s") {
		return "faster", "slower"
	}
	return "better", "worse"
}

// number formats a ratio in percent.
func number(ratio float64) string { return unit.Percent(ratio) }

func percent(ratio float64) string { return number(ratio) + " %" }
