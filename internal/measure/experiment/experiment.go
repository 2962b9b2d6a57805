// Package experiment runs experiments on this machine. In: a change (profiles, settings, a plan, a
// pair of commands), work to measure (a command, a cell of a benchmark, running work) and the
// options of fettle prove. Out: prove's evidence as a record that can be resumed. If this process
// is killed, a watchdog restores the machine. The verbs prove, bench memory and runs use it.
package experiment

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// LeftBehind describes an experiment that was killed together with its watchdog.
const LeftBehind = "an experiment and its watchdog ended without undoing the change; it is not in fettle's journal and may still be in force"

// Experiment is one experiment. Set the fields below Machine before Run.
type Experiment struct {
	*tune.Machine
	Screen   *ui.Screen
	By       evidence.Signature
	Watchdog tune.Watchdog
	Settle   time.Duration // time for which the machine is observed before the first run

	o        Options
	design   prove.Design
	change   prove.Change
	tuning   *prove.Tuning // nil if the change is a pair of commands
	work     work
	closing  func() error // closes the work; may be nil
	body     *prove.Evidence
	record   *evidence.RunInProgress // nil until the first sample can be recorded
	samples  []prove.Sample
	past     int              // samples of the record that this process continues
	began    time.Time        // when this process began to measure
	planned  *journal.Planned // author of the plan of --plan
	watchdog *watchdog
	lease    *os.File
	verb     string      // that has the lease; "" for prove
	guarded  atomic.Bool // the watchdog runs
	restored atomic.Bool // the machine is in its original state
}

// Restored reports whether the machine is restored. It may be called concurrently.
func (p *Experiment) Restored() bool { return p.restored.Load() }

// Result is the result of an experiment.
type Result struct {
	Run     *evidence.Run
	Body    *prove.Evidence
	Samples int
}

// Run measures work, a command, unless the options name other work. It returns nil if nothing was
// measured.
func (p *Experiment) Run(ctx context.Context, o Options, work []string) (res *Result, err error) {
	p.o, p.body = o, &prove.Evidence{Schema: prove.Schema, Method: prove.Method, Work: work}
	want := expected[o.Expect]
	if o.Resume != "" {
		if err := p.resume(); err != nil {
			return nil, err
		}
		if p.record != nil {
			defer p.record.Close()
		}
	}
	p.restored.Store(p.o.Comparison())
	err = p.prepare(ctx)
	if p.closing != nil {
		defer func() {
			if closed := p.closing(); closed != nil {
				err = errors.Join(ui.Exit(ui.Incomplete, closed), err)
			}
		}()
	}
	if err != nil {
		return nil, err
	}
	ending, err := p.measure(ctx)
	if ending == "" {
		return nil, err
	}
	err = p.verdict(ending, err, want)
	if err == nil && p.o.Keep && p.body.Improved() {
		if at := slices.IndexFunc(p.body.Guards, func(g prove.Guarded) bool { return g.State != "within" }); at >= 0 {
			err = ui.Exit(ui.GateNotMet, fmt.Errorf("change not kept: the measurements do not show that the limit of --guard %s holds", p.body.Guards[at].Name))
		} else {
			err = p.keep(ctx)
		}
	}
	if p.body.Unanswered() && p.record.Run.ID != "" {
		p.Screen.Say("to continue, run: %s", p.Screen.Own("fettle prove --resume "+p.record.Run.ID+" --budget 30m"))
	}
	return &Result{p.record.Run, p.body, len(p.samples)}, err
}

// errInterrupted is returned if the experiment was interrupted before it began.
var errInterrupted = ui.Exit(ui.Interrupted, errors.New("interrupted; nothing changed"))

// preparing adds the exit code to the error of a step of the preparation. After a Ctrl-C it returns
// errInterrupted instead.
func preparing(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errInterrupted
	}
	return orExit(ui.Usage, err)
}

// takeLease takes the lease, and undoes what earlier experiments left. While this process has the
// lease, the daemon changes nothing.
func (p *Experiment) takeLease(ctx context.Context) (err error) {
	if p.lease, err = lease(ctx, p.Machine, cmp.Or(p.verb, "prove")); err != nil {
		return err
	}
	if how := tune.Armed(p.StateDir); how != "" && p.o.Resume == "" {
		return ui.Hinted(ui.Refused, errors.New(LeftBehind),
			how+"; then fettle prove --resume last, or rm "+filepath.Join(p.StateDir, "experiment"))
	}
	if err := p.removeLeft(ctx); err != nil {
		return err
	}
	// Other transactions are short and must not keep the machine from being restored.
	p.Wait = patience
	return undoExperiments(ctx, p.Machine, 0)
}

// prepare checks that the change can be tested, and starts the watchdog. It changes nothing.
func (p *Experiment) prepare(ctx context.Context) (err error) {
	limit := cmp.Or(p.o.Timeout, changeTimeout)
	deadline, err := deadlineAfter(p.Machine, 2*p.o.Budget+time.Hour)
	if err != nil {
		return err
	}
	if err := preparing(ctx, p.makeWork(ctx, mark(deadline.SinceBoot, "work"))); err != nil {
		return err
	}
	if err := p.takeLease(ctx); err != nil {
		return err
	}
	if work, two := p.work.(commands); two && p.o.ARef != "" {
		if err := preparing(ctx, p.checkOut(ctx, work)); err != nil {
			return err
		}
	}
	if p.o.ChangeCmd != "" {
		p.change = &prove.Commands{ApplyWith: p.o.ChangeCmd, UndoWith: p.o.UndoCmd, Dir: p.o.Dir, Mark: mark(deadline.SinceBoot, "apply"), Timeout: limit,
			Applying: p.applying, End: host.KillTagged}
		p.body.Change = prove.Tested{Apply: evidence.EscapeInvalidUTF8(p.o.ChangeCmd), Undo: evidence.EscapeInvalidUTF8(p.o.UndoCmd)}
	} else if p.o.Comparison() {
		p.change = unchanged{}
		p.body.Change = prove.Tested{A: evidence.EscapeInvalidUTF8(p.o.A), B: evidence.EscapeInvalidUTF8(p.o.B)}
		if p.o.ARef != "" {
			p.body.Change = prove.Tested{A: "commit " + p.o.ARef, B: "commit " + p.o.BRef}
		}
	} else if err := p.settings(ctx, deadline); err != nil {
		return err
	}
	if err := p.refuseOtherTuner(ctx); err != nil {
		return err
	}
	err = p.work.Check(ctx)
	if errors.Is(err, provelive.ErrIdle) && ctx.Err() == nil {
		return ui.Retry(ui.Refused, err, "name a log that the work writes now; --force waits for new lines in this log", "--force")
	}
	if err := preparing(ctx, err); err != nil {
		return err
	}
	p.watchdog, err = guard(p.Watchdog, deadline, p.o.UndoCmd, p.o.Dir, p.lease)
	p.guarded.Store(err == nil)
	return err
}

// refuseOtherTuner returns an error if another tuner would write the settings under test. The
// settings that a command changes are unknown; --force permits these.
func (p *Experiment) refuseOtherTuner(ctx context.Context) error {
	if p.o.Comparison() {
		return nil
	}
	tuners, err := p.OtherTuners(ctx, func() (out []setting.Setting) {
		for _, s := range p.body.Change.Settings {
			out = append(out, s.Setting)
		}
		return out
	})
	switch {
	case err != nil || len(tuners) == 0:
		return err
	case p.o.ChangeCmd == "" || !p.o.Anyway:
		refused := &ui.Error{}
		if errors.As(tune.OtherTunerInForce(tuners[0], "fettle tune PROFILE --take-over"), &refused) && tuners[0].Operator == nil {
			afterwards := "systemctl enable --now " + tuners[0].Unit
			if len(tuners[0].BusNames) > 0 {
				afterwards = "systemctl unmask " + tuners[0].Unit + "; " + afterwards
			}
			refused.Hint = fmt.Sprintf("stop it during the measurement: %s; afterwards: %s", tuners[0].HandOver, afterwards)
		}
		if p.o.ChangeCmd != "" {
			refused.Remedy = &ui.Remedy{Options: []string{"--force"}, To: "to measure while it runs"}
		}
		return refused
	}
	p.Screen.Say("%s %s; it may write values during the measurement", tuners[0].Name, tuners[0].Phase(true))
	return nil
}

// dismiss ends the watchdog and the lease after the machine was restored.
func (p *Experiment) dismiss() {
	if p.o.ARef != "" {
		_ = p.closing() // while the lease is held; Run reports its error
	}
	p.watchdog.dismiss()
	_ = tune.End(p.lease)
	p.restored.Store(true)
}

// begin opens the record, unless it was resumed.
func (p *Experiment) begin() (err error) {
	if p.record != nil {
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
	r := &evidence.Run{Kind: "prove", Began: p.Host.Clock.Now().UTC(), Verdict: "under way", Body: body}
	p.By.Sign(r, p.Host)
	p.record, err = Store(p.Machine).Begin(r)
	for _, v := range p.samples { // samples of the resumed record
		if err == nil {
			err = p.record.Append(v)
		}
	}
	return err
}

// measure runs all samples. It returns the ending "" if nothing was measured.
func (p *Experiment) measure(ctx context.Context) (prove.Ending, error) {
	if len(p.samples) > 0 {
		// Undo first: the interruption may have ended the watchdog too.
		if err := p.change.Undo(ctx); err != nil {
			return "", ui.Exit(ui.Incomplete, &prove.Stuck{Err: err})
		}
	}
	if !p.o.Live && len(p.samples) == 0 { // running work is what keeps the machine busy
		p.body.Busy = p.unfit(ctx)
	}
	if len(p.samples) == 0 {
		if err := prove.Rehearse(ctx, p.change); err != nil {
			return "", p.unrehearsed(ctx, err)
		}
	}
	if err := p.begin(); err != nil {
		p.dismiss()
		return "", err
	}
	perf, err := p.Host.OpenPerf()
	if err != nil {
		p.dismiss()
		return "", err
	}
	defer perf.Close()
	p.announce()
	past := p.samples
	e := &prove.Experiment{Design: p.design, Change: p.change, Workload: p.work, Watch: &prove.Machine{Host: p.Host, Perf: perf}, Clock: p.Host.Clock, Comparison: p.o.Comparison(),
		Shorten: p.o.shortens(),
		Record: func(v prove.Sample) error {
			p.samples = append(p.samples, v)
			return p.record.Append(v)
		},
	}
	stop := p.show(e, len(past))
	course, ending, err := e.Run(ctx, past)
	stop()
	if s := (*prove.Stuck)(nil); !errors.As(err, &s) {
		p.dismiss()
	}
	if course == nil {
		return "", err
	}
	p.body = p.body.Summed(prove.Sum(course, ending, err, p.samples))
	return ending, errors.Join(err, p.finish())
}

// unfit observes the machine and returns what would disturb a measurement, or nil. It waits for an
// idle machine for at most ten observations and a tenth of the budget: the preparation of the work,
// or a program that just ended, may still load it.
func (p *Experiment) unfit(ctx context.Context) (why []string) {
	defer p.Screen.Status("")
	look := min(p.Settle, p.o.Budget/10)
	if look == 0 {
		return nil
	}
	for waited := look; ; waited += look {
		begun := prove.Counters(p.Host)
		if host.Sleep(ctx, look) != nil {
			return nil
		}
		why = prove.Unfit(p.Host, begun, prove.Counters(p.Host), look.Seconds())
		if len(why) == 0 || p.o.Anyway || waited+look > min(10*look, p.o.Budget/10) {
			return why
		}
		p.Screen.Status("waiting until the machine is idle: %s", why[0])
	}
}

// Seconds returns a time in seconds as a duration.
func Seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
