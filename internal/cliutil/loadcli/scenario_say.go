package loadcli

import (
	"errors"
	"fmt"
	"time"

	"fettle.dev/fettle/internal/requests/load/scenario"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// SayScenario prints what will be sent, how long it takes at least, and the command that removes
// the created objects.
func SayScenario(s *ui.Screen, p *scenario.Plan, undo string) {
	s.Say("%s", p.Says())
	for _, target := range p.Targets() {
		s.Say("loads %s", target)
	}
	if least := p.Least(); least > 0 {
		s.Say("takes at least %s, until %s or later", unit.FormatSeconds(least.Seconds()), time.Now().Add(least).Local().Format("15:04:05"))
	}
	if p.Creates {
		s.Say("may create up to %s, named with the prefix %q; %s removes them", internaltext.Count(p.MostObjects(), "object"), p.Prefix, undo)
	} else if p.Changes {
		s.Say("may change objects on the server")
	}
}

// ScenarioProgress returns a function that shows the progress of a run by step.
func ScenarioProgress(step func(text string, done, all int), title string) func(scenario.Now) {
	if title != "" {
		title += ": "
	}
	return func(now scenario.Now) {
		text := title + internaltext.Sprintf("%d of %s ended", now.Ended, internaltext.CountPlural(uint64(now.Passes), "pass", "passes"))
		if now.Failed > 0 {
			text += internaltext.Sprintf(", %d failed", now.Failed)
		}
		step(text, int(now.Ended), int(now.Passes))
	}
}

// GatedScenario returns an error with an exit code if a run missed a threshold.
func GatedScenario(x *scenario.Result) error {
	failed := x.Failed()
	switch {
	case x.Word == scenario.Silent:
		return ui.Exit(ui.Failed, errors.New(x.Text))
	case x.Word == scenario.Partial:
		return ui.Exit(ui.Failed, errors.New("a client was lost; the figures cover the others, until it was missed"))
	case len(failed) == 0:
		return nil
	case x.Word == scenario.Limited:
		return ui.Exit(ui.Failed, errors.New("thresholds not judged: the load generator was the limit"))
	}
	return ui.Exit(ui.GateNotMet, fmt.Errorf("threshold %s not met: %s", failed[0].Name(), failed[0].Text))
}
