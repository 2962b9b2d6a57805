package load

import (
	"context"
	"fmt"
	"math"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/load/fleet"
	"fettle.dev/fettle/internal/unit"
)

// Knee describes the search for the highest rate at which the thresholds are met.
type Knee struct {
	Answer Answer `json:"answer"`
	// Rate is the highest rate that held in a confirming stage, or 0 if no rate held.
	Rate float64 `json:"rate_per_s"`
	// Failed is the lowest rate above Rate that did not hold.
	Failed float64     `json:"failed_per_s,omitempty"`
	Stages []KneeStage `json:"stages"`
}

// KneeStage is one stage of the search.
type KneeStage struct {
	Purpose    Purpose         `json:"purpose"`
	Rate       float64         `json:"rate_per_s"`
	ForS       float64         `json:"for_s"`
	Verdict    Verdict         `json:"verdict"`
	Why        string          `json:"why"`
	AnswerRate float64         `json:"answers_per_s"`
	P50S       float64         `json:"p50_s"`
	P99S       float64         `json:"p99_s"`
	ErrorShare float64         `json:"error_share"`
	Observed   []fleet.Figures `json:"observed,omitempty"`
}

// Range is the range of rates to search, and the minimum duration of a stage.
type Range struct {
	Lowest, Highest float64
	Each            time.Duration
}

// leadIn divides a stage's length to get its lead-in (1/5). The lead-in precedes the stage,
// drains the previous stage's backlog and does not count.
const leadIn = 5

// StageLength returns the length of a stage at a rate, and the length of its lead-in. A stage
// lasts at least each, and longer if the thresholds need more latencies.
func (p *Plan) StageLength(perSecond float64, each time.Duration) (stage, before time.Duration) {
	wants := int64(0)
	for _, g := range p.Gates {
		wants = max(wants, g.Wants())
	}
	// 20 % more than needed: errors have no latency.
	seconds := math.Ceil(1.2 * float64(wants) / perSecond)
	stage = max(each, time.Duration(seconds)*time.Second)
	return stage, max(time.Second, stage/leadIn)
}

// FindKnee finds the highest rate at which the thresholds are met. It calls told after each
// stage, and tell each second.
func (g *Rig) FindKnee(ctx context.Context, in Range, seed uint64, tell Tell, told func(KneeStage)) (*Result, error) {
	found := &Knee{Stages: []KneeStage{}}
	at := map[float64]*Result{} // last result of each rate
	if warm := g.plan.WarmUp; warm > 0 {
		r := g.with([]engine.Stage{{From: in.Lowest, To: in.Lowest, For: warm}}, warm, 0)
		if x, err := g.measure(ctx, r, seed, tell); err != nil || x.Cut != nil {
			return nil, cut(ctx, x, err)
		}
	}
	search := search{Lowest: in.Lowest, Highest: in.Highest, Stage: func(perSecond float64, for_ Purpose) (Verdict, error) {
		length, before := g.plan.StageLength(perSecond, in.Each)
		r := g.with([]engine.Stage{{From: perSecond, To: perSecond, For: length}}, length, before)
		x, err := g.measure(ctx, r, seed+uint64(len(found.Stages)), tell)
		if err != nil || x.Cut != nil {
			return "", cut(ctx, x, err)
		}
		at[perSecond] = x
		s := KneeStage{Purpose: for_, Rate: perSecond, ForS: length.Seconds(), AnswerRate: x.Whole.AnswerRate, P50S: x.Whole.Latency.P50S, P99S: x.Whole.Latency.P99S, ErrorShare: x.Whole.ErrorShare, Observed: x.Whole.Observed}
		if s.Verdict, s.Why, err = g.holds(x); err != nil {
			return "", err
		}
		found.Stages = append(found.Stages, s)
		told(s)
		if s.Verdict != Holds {
			err = engine.Pause(ctx, min(5*time.Second, before))
		}
		return s.Verdict, err
	}}
	result, err := search.Run()
	if err != nil {
		return nil, err
	}
	found.Answer, found.Rate, found.Failed = result.Answer, result.Rate, result.Failed
	x := at[result.Rate]
	if x == nil {
		x = at[result.Failed]
	}
	x.Knee = found
	x.Word, x.Text = x.kneeVerdict(result)
	return x, nil
}

// cut returns the error of a stage that ended early, or nil.
func cut(ctx context.Context, x *Result, err error) error {
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return x.Early()
}

// holds judges a stage. A stage that meets all thresholds holds, even if the generator was at
// its limit: the generator's delays are part of the latency. Otherwise a limited generator
// explains the failure, because it sends bursts that a server may refuse. It does not explain
// a missed threshold on an observed server, or answers that are all errors.
func (g *Rig) holds(x *Result) (v Verdict, why string, err error) {
	var missed *Gate // first missed threshold
	server := x.Whole.Starts > 0 && x.Whole.Wrong == x.Whole.Starts
	for i := range x.Gates {
		gate, asked := &x.Gates[i], g.plan.Gates[i]
		if gate.Unknown && asked.Observed() {
			return "", "", fmt.Errorf("%s: %s%s", gate.Gate, gate.Text, x.blind())
		}
		if !gate.Met {
			server = server || asked.Observed()
			if missed == nil {
				missed = gate
			}
		}
	}
	kept := len(x.Stages) == 1 && x.Stages[0].KeptUp
	switch {
	case x.Word != Silent && kept && missed == nil:
		return Holds, x.Whole.summary(), nil
	case x.Generator.Limited && !server:
		return KneeLimited, x.Generator.Texts[0], nil
	case x.Word == Silent:
		return Fails, x.Text, nil
	case missed != nil:
		return Fails, fmt.Sprintf("threshold %s not met: %s", missed.Gate, missed.Text), nil
	}
	return Fails, unit.Digits(x.Whole.AnswerRate) + " answers a second: the server did not keep up with the rate", nil
}

// blind returns why an observed server has no figures, or "".
func (x *Result) blind() string {
	for _, o := range x.Observed {
		if o.Ended != "" {
			return ": " + o.Machine + ": " + o.Ended
		}
	}
	return ""
}

// kneeVerdict returns the verdict of a search and its explanation in one line.
func (x *Result) kneeVerdict(r kneeResult) (Word, string) {
	// last returns why the last stage at a rate has the first verdict that occurs.
	last := func(perSecond float64, verdicts ...Verdict) string {
		for _, v := range verdicts {
			for i := len(x.Knee.Stages) - 1; i >= 0; i-- {
				if s := x.Knee.Stages[i]; s.Rate == perSecond && s.Verdict == v {
					return s.Why
				}
			}
		}
		return ""
	}
	failed := func(perSecond float64) string { return last(perSecond, Fails, KneeLimited) }
	name := func(perSecond float64) string { return engine.Stage{From: perSecond, To: perSecond}.String() }
	held := fmt.Sprintf("the server sustained %s (%s)", name(r.Rate), last(r.Rate, Holds))
	switch r.Answer {
	case FailsAtLowest:
		return TooSlow, fmt.Sprintf("the server fails even at the lowest rate, %s: %s", name(r.Failed), failed(r.Failed))
	case HoldsAtHighest:
		return Sustained, fmt.Sprintf("%s, the highest rate of the search", held)
	case GeneratorFirst:
		if r.Rate == 0 {
			return Limited, fmt.Sprintf("the generator was the limit, even at %s: %s", name(r.Failed), last(r.Failed, KneeLimited, Fails))
		}
		return Limited, fmt.Sprintf("the generator was the limit at %s: %s; %s", name(r.Failed), last(r.Failed, KneeLimited, Fails), held)
	case KneeNonMonotonic:
		if r.Odd == r.Failed {
			return NonMonotonic, fmt.Sprintf("not monotonic: the server sustained %s in the search but not in the confirmation: %s", name(r.Odd), failed(r.Odd))
		}
		return NonMonotonic, fmt.Sprintf("not monotonic: the server did not sustain %s (%s), but it sustained %s twice (%s)", name(r.Failed), failed(r.Failed), name(r.Odd), last(r.Odd, Holds))
	}
	return Sustained, fmt.Sprintf("%s is the knee: the server sustained it (%s), but not %s: %s", name(r.Rate), last(r.Rate, Holds), name(r.Failed), failed(r.Failed))
}

// String formats a stage on one line: rate, verdict, and latencies or the reason.
func (s KneeStage) String() string {
	text := fmt.Sprintf("%s %s: p50 %s, p99 %s", engine.Stage{From: s.Rate, To: s.Rate}, s.Verdict, unit.FormatSeconds(s.P50S), unit.FormatSeconds(s.P99S))
	if s.Verdict != Holds {
		text = fmt.Sprintf("%s %s: %s", engine.Stage{From: s.Rate, To: s.Rate}, s.Verdict, s.Why)
	}
	return text
}
