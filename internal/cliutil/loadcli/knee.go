package loadcli

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
func (o *Options) checkKnee() error {
	if !o.FindKnee {
		return nil
	}
	if stage, err := engine.ParseRate(o.Rate, o.Length); err == nil && stage.To < stage.From {
		highest, lowest, _ := strings.Cut(o.Rate, "..")
		return ui.Instead(ui.Usage, errors.New("--find-knee: --rate LOW..HIGH needs the lower rate first"), "", "--rate="+lowest+".."+highest)
	}
	return nil
}

// Range returns the range of rates in which to search for the knee.
func (o *Options) Range(p *load.Plan) load.Range {
	in := load.Range{Lowest: p.Stages[0].From, Highest: engine.Most, Each: o.Length}
	if strings.Contains(o.Rate, "..") {
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
