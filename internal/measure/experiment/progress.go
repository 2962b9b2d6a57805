package experiment

import (
	"math"

	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// show shows the progress of an experiment until stop is called. past is the number of visits
// of the record that it continues.
func (p *Experiment) show(e *prove.Experiment, past int) (stop func()) {
	end := p.Host.Clock.Now().Add(p.o.Budget)
	step, stop := p.Screen.StepsUntil(end)
	e.Progress = func(c *prove.Course, v prove.Visit) {
		p.tellPhase(c, v)
		next, left := ahead(c, p.design)
		done := len(p.visits) - past
		step(next, done, done+left)
	}
	return stop
}

// announce prints how long an experiment with --live takes, and what --force ignores. It is
// called once nothing can be refused any more.
func (p *Experiment) announce(busy []string) {
	if p.o.Live {
		p.Screen.Say("measuring in windows of %v, with %v to settle after each switch; takes at least %s, ends at %s at the latest", p.o.Window, p.o.Settle,
			ui.Roughly(float64(p.design.Least)*p.o.Block().Seconds()), p.Host.Clock.Now().Add(p.o.Budget).Local().Format("2006-01-02 15:04"))
	}
	for _, why := range busy {
		p.Screen.Say("--force: measuring although %s", why)
	}
}

// ahead returns the next block's number and the approximate number of visits left. Before the first
// verdict this is the minimum number.
func ahead(c *prove.Course, d prove.Design) (words string, visits int) {
	s := c.Next()
	if s.Phase == prove.Done {
		return "evaluating", 0
	}
	all, of := d.Least, "at least"
	switch {
	case c.Counted() < d.Least:
	case c.Planned(unbounded) > d.Most:
		all, of = d.Most, "at most"
	default:
		all, of = c.Planned(d.Most), "about"
	}
	all = max(all+s.Block-c.Counted(), s.Block+1)
	return text.Sprintf("block %d of %s %d", s.Block+1, of, all), max(1, int(float64(all-s.Block)*c.Visits())-s.Place)
}

// unbounded is more blocks than any experiment has.
const unbounded = 100_000

// needed describes how many visits detect an effect as large as the margin with the noise so far,
// and whether the experiment may end earlier.
func needed(c *prove.Course, d prove.Design) string {
	visits := func(blocks int) string { return text.Count(int(math.Round(float64(blocks)*c.Visits())), d.Unit()) }
	blocks := c.Planned(unbounded)
	words := visits(blocks) + " are needed to detect " + unit.Digits(100*d.Margin) + " %"
	if blocks > d.Most {
		words += ", and this experiment ends after at most " + visits(d.Most) + ": it may stay undecided"
	}
	return words
}

// tellPhase prints the result of a phase or block.
func (p *Experiment) tellPhase(c *prove.Course, v prove.Visit) {
	s := c.Next()
	if len(p.visits) == 2 && !p.o.Live {
		d := p.design
		blocks := float64(d.Least)
		p.Screen.Say("takes at least %s, about %s; ends at %s at the latest", text.Count(d.Least*(2+d.Washout), "run"), ui.Roughly(blocks*c.Visits()*v.TookS), p.Host.Clock.Now().Add(p.o.Budget).Local().Format("15:04"))
	}
	if s.Phase != v.Phase || s.Block != v.Block {
		switch {
		case c.Counted() == 0:
			p.Screen.Say("block %d: the runs after a switch still differ, so each switch gets one more warm-up run, and counting begins again", v.Block+1)
		case p.Screen.Width > 0:
			p.Screen.Say("block %d: %s", v.Block+1, c.Verdict().Text)
		}
		if c.Counted() == p.design.Least && s.Phase != prove.Done {
			p.Screen.Say("the noise of a block is %.1f %%; about %s", 100*c.Noise(), needed(c, p.design))
		}
	}
}
