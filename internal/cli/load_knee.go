package cli

import (
	"errors"
	"strings"
	"time"

	"fettle.dev/fettle/internal/requests/load"
	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/ui"
)

// kneeStage is the default length of a stage of --find-knee, without --for.
const kneeStage = 10 * time.Second

// checkKnee returns an error unless the range ends with its highest rate.
func (o loadHTTPOptions) checkKnee() error {
	if !o.findKnee {
		return nil
	}
	if stage, err := engine.ParseRate(o.rate, o.length); err == nil && stage.To < stage.From {
		highest, lowest, _ := strings.Cut(o.rate, "..")
		return ui.Instead(ui.Usage, errors.New("--find-knee: --rate LOW..HIGH needs the lower rate first"), "", "--rate="+lowest+".."+highest)
	}
	return nil
}

// kneeRange returns the range of rates in which to search for the knee.
func (o loadHTTPOptions) kneeRange(p *load.Plan) load.Range {
	in := load.Range{Lowest: p.Stages[0].From, Highest: engine.Most, Each: o.length}
	if strings.Contains(o.rate, "..") {
		in.Highest = p.Stages[0].To
	}
	return in
}

// kneeCode returns an error with an exit code if a search found no rate.
func kneeCode(r *load.Result) error {
	switch r.Word {
	case load.Sustained:
		return nil
	case load.TooSlow:
		return ui.Exit(ui.GateNotMet, errors.New(r.Text))
	}
	return ui.Exit(ui.Failed, errors.New("highest rate unknown: "+r.Text))
}
