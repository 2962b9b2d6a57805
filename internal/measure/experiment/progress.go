package experiment

import (
	"fmt"
	"math"
	"time"

	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// show shows the progress of an experiment until stop is called. past is the number of samples
// of the record that it continues.
func (p *Experiment) show(e *prove.Experiment, past int) (stop func()) {
	step, stop := p.Screen.StepsUntil(p.lastStart())
	p.began, p.past = p.Host.Clock.Now(), past
	e.Progress = func(c *prove.Course, v prove.Sample) {
		p.tellPhase(c, v)
		next, left := ahead(c, p.design)
		done := len(p.samples) - past
		step(next, done, done+left)
	}
	return stop
}

// lastStart returns the time after which no sample begins, if the measurement starts or continues now.
func (p *Experiment) lastStart() time.Time {
	left := p.o.Budget
	for _, v := range p.samples {
		left -= Seconds(v.TookS)
	}
	return p.Host.Clock.Now().Add(left)
}

// announce prints how long an experiment with --live takes, and what it can detect; for other work
// both are known only after the first runs. It also prints what disturbs the measurement. It is
// called when nothing can refuse the experiment any more.
func (p *Experiment) announce() {
	if p.o.Live {
		// Windows vary in length, and the last may end after the budget.
		longest, shortest := p.o.Block().Seconds(), 2*p.o.Window.Seconds()+p.o.Settle.Seconds()
		p.Screen.Say("measuring in windows of %v, with %v to settle after each switch; takes at least %s; no window begins after %s", p.o.Window, p.o.Settle,
			ui.Roughly(float64(prove.Begin(p.design).Fewest())*shortest), p.lastStart().Local().Format("2006-01-02 15:04"))
		p.Screen.Say("%s", detects(p.design, int(p.o.Budget.Seconds()/longest), prove.Begin(p.design).Fewest(), Seconds(2.2*longest)))
	}
	if len(p.samples) > 0 {
		return // resumed, and not observed again
	}
	for _, why := range p.body.Busy {
		p.Screen.Say("the machine is busy: %s; this widens the interval, which is valid anyway; see fettle quiet check", why)
	}
}

// detects describes what an experiment of at most this many blocks can detect. fewest is the number
// of blocks for a verdict, two the budget for two blocks.
func detects(d prove.Design, blocks, fewest int, two time.Duration) string {
	blocks = min(blocks, d.Most)
	switch fit := text.Count(blocks, "block"); {
	case blocks < 2:
		return "not even two blocks of two " + d.Unit() + "s fit, the fewest for an interval; use --budget " + ceil(two) + " or more"
	case blocks < fewest:
		return text.Sprintf("about %s fit, and a verdict takes %d: ends with an interval of %s confidence", fit, fewest, percent(1-math.Pow(2, float64(1-blocks))))
	default:
		// A block is the difference of two runs.
		effect := stats.Detectable(blocks, math.Sqrt2*typical, share(d))
		return text.Sprintf("about %s fit: if %ss vary by %s, these detect %s in four of five cases", fit, d.Unit(), percent(typical), percent(effect))
	}
}

// share returns the part of the error probability that each metric with a verdict has.
func share(d prove.Design) float64 { return d.Alpha / float64(1+len(d.Also)) }

// ceil formats a time as an option accepts it, rounded up to seconds or, if it is long, to minutes.
func ceil(d time.Duration) string {
	if s := (d + time.Second - 1) / time.Second; s < 100 {
		return fmt.Sprintf("%ds", s)
	}
	return fmt.Sprintf("%dm", (d+time.Minute-1)/time.Minute)
}

// typical is a spread of runs for examples, as a ratio.
const typical = 0.01

func percent(ratio float64) string { return unit.Percent(ratio) + " %" }

// ahead returns the next block's number and the approximate number of samples left. Before the first
// verdict this is the minimum number.
func ahead(c *prove.Course, d prove.Design) (words string, samples int) {
	s := c.Next()
	if s.Phase == prove.Done {
		return "evaluating", 0
	}
	all, of := c.Fewest(), "at least"
	switch {
	case c.Counted() < all:
	case c.Planned(unbounded) > d.Most:
		all, of = d.Most, "at most"
	default:
		all, of = c.Planned(d.Most), "about"
	}
	all = max(all+s.Block-c.Counted(), s.Block+1)
	return text.Sprintf("block %d of %s %d", s.Block+1, of, all), max(1, int(float64(all-s.Block)*c.Samples())-s.Place)
}

// unbounded is more blocks than any experiment has.
const unbounded = 100_000

// needed describes how many samples detect an effect as large as the margin with the noise so far,
// and whether the experiment may end earlier, after most blocks.
func needed(c *prove.Course, d prove.Design, most int) string {
	samples := func(blocks int) string { return text.Count(int(math.Round(float64(blocks)*c.Samples())), d.Unit()) }
	blocks := c.Planned(unbounded)
	words := samples(blocks) + " are needed to detect " + unit.Digits(100*d.Margin) + " %"
	if blocks > most {
		words += ", and this experiment ends after at most " + samples(most) + ": it may stay undecided, but shows effects from " + percent(stats.Detectable(most, c.Noise(), share(d)))
	}
	return words
}

// fewestSamples returns the number of samples of the fewest blocks with a verdict, if no block but the
// first begins with a switch.
func fewestSamples(c *prove.Course) int { return c.Fewest()*(2+c.Washout()) + c.Washout() }

// tellPhase prints the result of a phase or block.
func (p *Experiment) tellPhase(c *prove.Course, v prove.Sample) {
	s := c.Next()
	// took is the time of a sample with its switch.
	took := p.Host.Clock.Now().Sub(p.began).Seconds() / float64(len(p.samples)-p.past)
	left := p.o.Budget.Seconds() - took*float64(len(p.samples))
	fit := p.design.Most
	if took > 0 {
		fit = s.Block + int(min(float64(fit), left/(took*c.Samples())))
	}
	if len(p.samples) == 2 && !p.o.Live {
		least := fewestSamples(c)
		p.Screen.Say("takes at least %s, about %s; no run begins after %s", text.Count(least, "run"), ui.Roughly(float64(least)*took), p.began.Add(p.o.Budget).Local().Format("15:04"))
		if c.Washout() < p.design.Washout {
			p.Screen.Say("without warm-up runs, for which the budget is too short")
		}
		// With the first run, which does not count, and a tenth for runs that take longer.
		p.Screen.Say("%s", detects(p.design, fit, c.Fewest(), Seconds(1.1*took*(1+2*c.Samples()))))
	}
	if s.Phase != v.Phase || s.Block != v.Block {
		switch {
		case c.Counted() == 0:
			p.Screen.Say("block %d: the runs after a switch still differ, so each switch gets one more warm-up run, and counting begins again", v.Block+1)
		case p.Screen.Width > 0:
			p.Screen.Say("block %d: %s", v.Block+1, c.Verdict().Text)
		}
		if c.Counted() == p.design.Least && s.Phase != prove.Done {
			of := ""
			if len(p.design.Also) > 0 {
				of = " in " + p.design.Metric.Name
			}
			p.Screen.Say("the noise of a block is %.1f %%%s; about %s", 100*c.Noise(), of, needed(c, p.design, min(fit, p.design.Most)))
		}
	}
}
