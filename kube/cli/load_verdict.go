package cli

import (
	"fmt"

	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// The verdicts on a cluster load.
const (
	verdictMet    = "met"
	verdictNotMet = "not met"
	verdictOpen   = "cannot tell"
	verdictNone   = "none"
)

// judge is the verdict on a run that came to its end, and what the run ends with. A gate
// that was not asked for fails only if it is known not to be met, and so do the API
// server's own metrics; where some gates were asked for, these alone count.
func (x *LoadRun) judge(asked bool) error {
	x.Verdict = verdictNotMet
	switch {
	case x.Objects.Failed > 0:
		code := ui.Partial
		if x.Objects.Created+x.Objects.Reused+x.Objects.Before == 0 {
			code = ui.Failed
		}
		return ui.Hinted(code, fmt.Errorf("%d of %d objects could not be made", x.Objects.Failed, x.Objects.Planned), "kubectl fettle load resume "+x.Run+" tries them again")
	case x.Actions != nil && x.Actions.Failed > 0:
		return ui.Hinted(ui.Partial, fmt.Errorf("%d of %d patches, deletions and reads failed", x.Actions.Failed, x.Actions.Planned), "kubectl fettle load resume "+x.Run+" tries them again")
	case x.NotReady > 0:
		return ui.Exit(ui.GateNotMet, fmt.Errorf("%s %s not ready when the time to wait was over: %s", counted(x.NotReady, "object"), either(x.NotReady, "was", "were"), x.Example))
	}
	var open error
	for _, g := range x.Gates {
		switch {
		case g.Met:
		case !g.Unknown:
			return ui.Exit(ui.GateNotMet, fmt.Errorf("%s is not met: %s", g.Gate, g.Text))
		case open == nil:
			open = ui.Exit(ui.GateNotMet, fmt.Errorf("whether %s is met is not known: %s", g.Gate, g.Text))
		}
	}
	if x.Servers != nil && !asked {
		for _, c := range x.Servers.Missed() {
			return ui.Exit(ui.GateNotMet, fmt.Errorf("the API server's own metrics: %s of %s (%s) took %s at the 99th percentile, and the objective is %s", c.Verb, c.Resource, c.Scope, unit.FormatSeconds(c.P99S), unit.FormatSeconds(c.LimitS)))
		}
	}
	if open == nil {
		x.Verdict = verdictMet
		return nil
	}
	x.Verdict = verdictOpen
	if !asked {
		return nil
	}
	return open
}

// expected is the verdict in words.
func (x *LoadRun) expected() (ui.Mark, string) {
	switch x.Verdict {
	case verdictMet:
		return ui.MarkGood, "what was expected is met"
	case verdictNotMet:
		return ui.MarkBad, "what was expected is not met"
	case verdictOpen:
		unknown := 0
		for _, g := range x.Gates {
			if g.Unknown {
				unknown++
			}
		}
		return ui.MarkOpen, fmt.Sprintf("whether what was expected is met cannot be told: of %s %d had too few answers", counted(len(x.Gates), "gate"), unknown)
	}
	return ui.MarkBad, "not judged: the run did not come to its end"
}
