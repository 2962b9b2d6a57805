package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/prove"
	provelive "fettle.dev/fettle/internal/measure/prove/live"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

// runs is the store of the machine's runs.
func (m *machine) runs() evidence.Store {
	return evidence.Store{Dir: filepath.Join(m.engine.StateDir, "runs")}
}

// proof is an experiment at work.
type proof struct {
	*machine
	o        proveOptions
	design   prove.Design
	change   prove.Change
	tuning   *prove.Tuning // nil where the change is a pair of commands
	work     work
	closing  func() error // of the work; nil where there is nothing to close
	body     *prove.Evidence
	underway *evidence.RunInProgress // nil until the first visit can be recorded
	visits   []prove.Visit
	planned  *journal.Planned // who made the plan of --plan
	watchdog *watchdog
	lease    *os.File
	guarded  atomic.Bool // the watchdog is there
	over     atomic.Bool // the machine is restored
}

// prepare looks whether the change can be tested, and starts the watchdog. Nothing is
// changed by it.
func (p *proof) prepare(ctx context.Context) (err error) {
	limit := cmp.Or(p.o.Timeout, changeTimeout)
	deadline, err := p.deadline(2*p.o.Budget + time.Hour)
	if err != nil {
		return err
	}
	if err := p.measured(ctx, mark(deadline.SinceBoot, "work")); err != nil {
		return orUsage(err)
	}
	switch {
	case p.o.ways() != 1:
		return p.o.oneChange()
	case (p.o.ChangeCmd == "") != (p.o.UndoCmd == ""):
		return ui.Hinted(ui.Usage, errors.New("--change-cmd and --undo-cmd go together: what is changed has to be undone"), "for example: fettle prove --change-cmd 'sysctl -w vm.swappiness=10' --undo-cmd 'sysctl -w vm.swappiness=60' -- make test")
	case p.o.ChangeCmd != "" && p.o.keep:
		return ui.Without(errors.New("--keep is for changes of fettle's own: run the --change-cmd by hand"), "--keep")
	}
	// As long as this process lives the daemon keeps its hands off.
	if p.lease, err = p.leased(ctx); err != nil {
		return p.leaseTaken(err)
	}
	if how := tune.Armed(p.engine.StateDir); how != "" && p.o.resume == "" {
		return ui.Hinted(ui.Refused, errors.New(leftBehind),
			how+"; then fettle prove --resume last, or rm "+filepath.Join(p.engine.StateDir, "experiment"))
	}
	// What others do with the journal meanwhile takes a moment, and none of it may keep
	// the machine from being restored.
	p.engine.Wait = patience
	if err := p.takeBackExperiments(ctx, 0); err != nil {
		return err
	}
	if p.o.ChangeCmd != "" {
		p.change = &prove.Commands{ApplyWith: p.o.ChangeCmd, UndoWith: p.o.UndoCmd, Dir: p.o.Dir, Mark: mark(deadline.SinceBoot, "apply"), Timeout: limit,
			Applying: p.applying, End: host.KillTagged}
		p.body.Change = prove.Tested{Apply: evidence.EscapeInvalidUTF8(p.o.ChangeCmd), Undo: evidence.EscapeInvalidUTF8(p.o.UndoCmd)}
	} else if err := p.settings(ctx, deadline); err != nil {
		return err
	}
	if err := p.oneTuner(ctx); err != nil {
		return err
	}
	switch err := p.work.Check(ctx); {
	case err != nil && ctx.Err() != nil:
		return ui.Exit(ui.Interrupted, errors.New("interrupted: nothing was changed"))
	case errors.Is(err, provelive.ErrIdle):
		return ui.Retry(ui.Refused, err, "name the log that the work writes; --anyway waits for lines of this one", "--anyway")
	case err != nil:
		return orUsage(err)
	}
	p.watchdog, err = p.guard(deadline, p.o.UndoCmd, p.o.Dir, p.lease)
	p.guarded.Store(err == nil)
	return err
}

// oneTuner refuses an experiment where another tuner would write what it tests. What a
// command changes fettle does not know, so --anyway lets that pass.
func (p *proof) oneTuner(ctx context.Context) error {
	tuners, err := p.otherTuners(ctx, func() (out []setting.Setting) {
		for _, s := range p.body.Change.Settings {
			out = append(out, s.Setting)
		}
		return out
	})
	switch {
	case err != nil || len(tuners) == 0:
		return err
	case p.o.ChangeCmd == "":
		return inForce(tuners[0], "fettle tune PROFILE --take-over")
	case !p.o.Anyway:
		return inForce(tuners[0], "--anyway measures while it runs; fettle tune PROFILE --take-over")
	}
	p.screen.Say("%s %s: what it writes while this measures is not known", tuners[0].Name, tuners[0].Phase(true))
	return nil
}

// dismiss ends what guards the machine, which is restored: watchdog and lease.
func (p *proof) dismiss() {
	p.watchdog.dismiss()
	_ = tune.End(p.lease)
	p.over.Store(true)
}

// begin opens the record, unless it was taken up.
func (p *proof) begin() (err error) {
	if p.underway != nil {
		return nil
	}
	p.body.Design = p.design
	if p.body.Asked, err = json.Marshal(p.o); err != nil {
		return err
	}
	body, err := json.Marshal(p.body)
	if err != nil {
		return err
	}
	p.underway, err = p.runs().Begin(&evidence.Run{Kind: "prove", Command: p.command, User: user(), Version: p.version, Began: p.host.Clock.Now().UTC(),
		Machine: evidence.Fingerprint(p.host), Verdict: "under way", Body: body})
	for _, v := range p.visits { // of the record that it goes on from
		if err == nil {
			err = p.underway.Append(v)
		}
	}
	return err
}

// settle is how long the machine is watched before the first run; only the tests set
// another time, where a directory stands in for it.
var settle = 3 * time.Second

func (p *proof) run(ctx context.Context) (prove.Ending, error) {
	if len(p.visits) > 0 {
		// First of all: whoever cut it off may have cut off what restores the machine.
		if err := p.change.Undo(ctx); err != nil {
			return "", ui.Exit(ui.Incomplete, &prove.Stuck{Err: err})
		}
	}
	if p.o.Live {
		p.screen.Say("windows of %v, and %v after each switch: at least %s, at the most until %s", p.o.Window, p.o.Settle,
			roughly(float64(p.design.Placebo+p.design.Least)*p.o.quad().Seconds()), p.host.Clock.Now().Add(p.o.Budget).Local().Format("2006-01-02 15:04"))
	} else if why := p.unfit(ctx); len(why) > 0 { // running work is what keeps the machine busy
		if !p.o.Anyway {
			p.dismiss()
			return "", ui.Retry(ui.Refused, fmt.Errorf("this is no moment to measure: %s", strings.Join(why, "; ")), "wait until it is quiet; --anyway measures now, and the result says so", "--anyway")
		}
		for _, w := range why {
			p.screen.Say("measured all the same: %s", w)
		}
	}
	if len(p.visits) == 0 {
		if err := prove.Rehearse(ctx, p.change); err != nil {
			return "", p.unrehearsed(ctx, err)
		}
	}
	if err := p.begin(); err != nil {
		p.dismiss()
		return "", err
	}
	perf, err := p.host.OpenPerf()
	if err != nil {
		p.dismiss()
		return "", err
	}
	defer perf.Close()
	past := p.visits
	e := &prove.Experiment{Design: p.design, Change: p.change, Workload: p.work, Watch: &prove.Machine{Host: p.host, Perf: perf}, Clock: p.host.Clock, Anyway: p.o.Anyway,
		Record: func(v prove.Visit) error {
			p.visits = append(p.visits, v)
			return p.underway.Append(v)
		},
		Progress: p.progress,
	}
	course, ending, err := e.Run(ctx, past)
	if s := (*prove.Stuck)(nil); !errors.As(err, &s) {
		p.dismiss()
	}
	if course == nil {
		return "", err
	}
	p.body = p.body.Summed(prove.Sum(course, ending, err, p.visits))
	return ending, errors.Join(err, p.finish())
}

// rests is how many moments the machine is given to come to rest: from what prepared
// the work, or what somebody has just ended.
const rests = 10

// unfit watches the machine for a moment, and where it is not fit for a few more.
func (p *proof) unfit(ctx context.Context) (why []string) {
	defer p.screen.Status("")
	for range rests {
		begun := prove.Counters(p.host)
		if wait(ctx, settle) != nil {
			return nil
		}
		why = prove.Unfit(p.host, begun, prove.Counters(p.host), settle.Seconds())
		if len(why) == 0 || p.o.Anyway {
			return why
		}
		p.screen.Status("waiting for the machine to come to rest: %s", why[0])
	}
	return why
}

// finish puts the record into the store.
func (p *proof) finish() error {
	var work []string
	for _, word := range p.body.Work {
		work = append(work, evidence.EscapeInvalidUTF8(word))
	}
	p.body.Work = work
	body, err := json.Marshal(p.body)
	if err != nil {
		return err
	}
	r := p.underway.Run
	r.Body, r.Verdict = body, p.body.Text
	if p.resumable() {
		// Kept as it is: --resume goes on.
		return errors.Join(p.underway.Append(stop{p.body.Ending, p.body.Error}), p.underway.Close())
	}
	r.Ended = p.host.Clock.Now().UTC()
	if err := p.runs().Finish(p.underway); err != nil {
		r.ID, r.Ended = "", time.Time{} // there is no such record
		return fmt.Errorf("the record cannot be kept: %w; what was measured is in %s", err, p.underway.Path)
	}
	return nil
}

// resumable says whether the experiment can go on from its record: one that was
// interrupted, or whose work or machine failed once it had taught something.
func (p *proof) resumable() bool {
	return p.body.Ending == prove.EndedInterrupted || p.body.Ending == prove.EndedFailed && len(p.body.Placebo)+len(p.body.Quads) > 0
}

// progress says where the experiment is, on a terminal.
func (p *proof) progress(c *prove.Course, v prove.Visit) {
	s := c.Next()
	if len(p.visits) == 2 && !p.o.Live {
		d := p.design
		quads := float64(d.Placebo + d.Least)
		p.screen.Say("at least %.0f runs, about %s; at the most until %s", quads*c.Visits(), roughly(quads*c.Visits()*v.TookS), p.host.Clock.Now().Add(p.o.Budget).Local().Format("15:04"))
	}
	if s.Phase != v.Phase || s.Quad != v.Quad {
		switch {
		case v.Phase == prove.Placebo && s.Phase == prove.Quads:
			p.screen.Say("placebo: the noise of a quad is %.1f %%; about %.0f %ss to see %s", 100*c.Noise(), float64(c.Planned(100_000))*c.Visits(), p.design.Unit(), p.o.Margin)
		case v.Phase == prove.Quads && p.screen.Width > 0:
			p.screen.Say("quad %d: %s", v.Quad+1, c.Verdict().Text)
		}
	}
}

func roughly(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

// verdict turns how the experiment ended into an error with its exit code.
func (p *proof) verdict(ending prove.Ending, err error, want prove.Word) error {
	switch {
	case errors.As(err, new(*prove.Stuck)):
		return p.stuck(err)
	case ending == "":
		return err
	case ending == prove.EndedInterrupted:
		return ui.Exit(ui.Interrupted, errors.Join(errors.New("interrupted: the machine is as it was, and what was measured is kept: fettle prove --resume "+p.underway.Name()+" goes on"), err))
	case ending == prove.EndedHopeless:
		return ui.Retry(ui.Refused, err, "a larger --margin, a longer workload or a larger --budget may decide it; --anyway measures until the budget is used", "--anyway")
	case ending == prove.EndedGuard:
		return ui.Exit(ui.GateNotMet, err)
	case err != nil && p.resumable():
		code := ui.Failed
		switch {
		case errors.Is(err, journal.ErrBusy), errors.Is(err, tune.ErrLeased):
			code = ui.Busy
		case errors.As(err, new(*prove.Unswitched)):
			code = ui.RolledBack
		}
		return ui.Hinted(code, err, "what was measured is kept: fettle prove --resume "+p.underway.Name()+" goes on")
	case err != nil:
		return err
	case want != "" && p.body.Word != want:
		return ui.Exit(ui.GateNotMet, fmt.Errorf("expected %s; the verdict is: %s", p.o.expect, p.body.Text))
	}
	return nil
}

// keep applies the change for good.
func (p *proof) keep(ctx context.Context) error {
	o := p.tuning.Options
	o.Try = nil
	res, err := p.engine.Apply(ctx, p.tuning.Planner, o)
	if res == nil {
		return err
	}
	if err = p.machine.verdict(res, err); err == nil {
		p.screen.Say("kept: transaction %d, which fettle undo takes back", res.Tx)
	}
	return err
}
