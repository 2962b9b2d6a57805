package cli

import (
	"errors"
	"strings"
	"time"

	"fettle.dev/fettle/internal/requests/load"
	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/ui"
)

// kneeStage is how long a stage of --find-knee is without --for.
const kneeStage = 10 * time.Second

// checkKnee says what --find-knee lacks.
func (o loadHTTPOptions) checkKnee() error {
	switch {
	case !o.findKnee:
		return nil
	case o.rate == "":
		return ui.Retry(ui.Usage, errors.New("--find-knee wants the lowest rate, as --rate 100/s, or both ends, as --rate 100/s..5000/s"), "", "--rate=100/s")
	case len(o.expect) == 0:
		return ui.Retry(ui.Usage, errors.New("--find-knee wants to know what has to hold: --expect 'p99 < 200ms', --expect 'errors < 1%'"), "", "--expect=p99 < 200ms")
	}
	if stage, err := engine.ParseRate(o.rate, o.length); err == nil && stage.To < stage.From {
		highest, lowest, _ := strings.Cut(o.rate, "..")
		return ui.Instead(ui.Usage, errors.New("--find-knee: --rate has its lowest end first"), "", "--rate="+lowest+".."+highest)
	}
	return nil
}

// kneeRange is where the knee is searched for.
func (o loadHTTPOptions) kneeRange(p *load.Plan) load.Range {
	in := load.Range{Lowest: p.Stages[0].From, Highest: engine.Most, Each: o.length}
	if strings.Contains(o.rate, "..") {
		in.Highest = p.Stages[0].To
	}
	return in
}

// kneeCode is the exit code of a search.
func kneeCode(r *load.Result) error {
	switch r.Word {
	case load.Held:
		return nil
	case load.TooSlow:
		return ui.Exit(ui.GateNotMet, errors.New(r.Text))
	}
	return ui.Exit(ui.Failed, errors.New("the highest rate cannot be told: "+r.Text))
}
