package tune

import (
	"context"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/ui"
)

// Status describes the selection in force on a machine, with warnings.
type Status struct {
	Schema   string      `json:"schema"` // fettle/status/v1
	Headline ui.Headline `json:"headline"`
	Machine  string      `json:"machine"`
	Profiles []string    `json:"profiles"` // empty if there is no selection
	Mode     string      `json:"mode,omitempty"`
	// Copy marks a recorded machine, whose journal is unknown.
	Copy bool `json:"copy,omitempty"`
	// Tuners are the other tuners in force that exclude a second one. TunersUnknown is the reason
	// why the running ones are unknown, or "".
	Tuners        []override.Tuner `json:"tuners,omitempty"`
	TunersUnknown string           `json:"tuners_unknown,omitempty"`
	// Recorded is the selection in TuneD's own files for its next start; nil if none exists.
	Recorded *TunedRecord `json:"tuned_record,omitempty"`
	// Operator selects the machine's profile; nil if none exists.
	Operator *override.Operator `json:"operator,omitempty"`
	// PostLoaded is the profile that overrides the selected ones.
	PostLoaded string     `json:"post_loaded,omitempty"`
	Since      *time.Time `json:"since,omitempty"`
	Tx         int        `json:"transaction,omitempty"`
	// ThisBoot reports whether the selection has been applied since boot.
	ThisBoot bool `json:"this_boot"`
	// Newer is the number of values that differ between the profiles' current definition and the
	// accepted one; nil if unknown.
	Newer   *int    `json:"newer_definition,omitempty"`
	Dynamic Dynamic `json:"dynamic_tuning"`
	// NumaBalance is the state of numa_balance; null if it is off.
	NumaBalance *Balancing `json:"numa_balance"`
	// Live lists the transactions that an undo would undo.
	Live        []int `json:"live"`
	Interrupted []int `json:"interrupted,omitempty"`
	// UnderWay is the process whose transaction is in progress, or "". The transaction is one of
	// the interrupted ones.
	UnderWay string  `json:"under_way,omitempty"`
	Trials   []Trial `json:"trials,omitempty"`
	// Asked lists single values that are still in force on top of a selection.
	Asked []Checked `json:"asked,omitempty"`
	// Drifted lists values in force that another program has changed.
	Drifted []Checked `json:"drifted,omitempty"`
	// Rejected lists values of the selection that are invalid or that the kernel rejected.
	Rejected []Checked `json:"rejected,omitempty"`
	// KeepUnmatched lists the entries of keep.d without effect: the selection does not set their
	// settings, and none of its writes changes them. Without a selection it lists entries for
	// settings that this machine lacks.
	KeepUnmatched []KeepEntry `json:"keep_unmatched,omitempty"`
	Damage        []string    `json:"damage,omitempty"`
	// Persistent is true if fettle's unit applies the active profiles at boot.
	Persistent bool `json:"persistent"`
	// Experiment is the experiment that is running or being restored by its watchdog, or nil.
	Experiment *Leaseholder `json:"experiment,omitempty"`
	// ExperimentUndo is the command that undoes the change of an experiment that was killed
	// together with its watchdog, or "".
	ExperimentUndo string `json:"experiment_undo_command,omitempty"`
}

// TunedRecord is the selection in TuneD's files.
type TunedRecord struct {
	Profile string `json:"profile"`
	Mode    string `json:"mode"`
	File    string `json:"file"`
}

// Trial is a transaction that is undone automatically unless it is confirmed.
type Trial struct {
	Tx    int       `json:"transaction"`
	Until time.Time `json:"until"`
	// Remaining is the time until the trial is undone, by the machine's clock since boot. It is
	// absent for an experiment and for an overdue trial.
	Remaining float64 `json:"remaining_s,omitempty"`
	// Overdue is true if the trial is still in force after its deadline or after a boot, because
	// its watchdog has ended. The next transaction, the daemon or the next boot undoes it.
	Overdue bool `json:"overdue,omitempty"`
	// Experiment marks a phase of an experiment, which cannot be confirmed. If no experiment
	// is running, this one was killed together with its watchdog.
	Experiment bool `json:"experiment,omitempty"`
	// Verb is the verb of fettle that made the experiment: prove, search, quiet, bench memory,
	// bench network.
	Verb string `json:"verb,omitempty"`
}

// trial describes an unconfirmed trial.
func (e *Engine) trial(t *journal.Tx, overdue bool) Trial {
	tr := Trial{Tx: t.ID, Until: t.Try.Until, Overdue: overdue, Experiment: t.Try.Experiment}
	if t.Try.Experiment { // the next one undoes it before it changes anything
		tr.Verb = leaseNotice(e.StateDir).Verb
	}
	if overdue || t.Try.Experiment {
		return tr
	}
	left := t.Try.Until.Sub(e.Host.Clock.Now())
	if up, err := e.Host.Clock.SinceBoot(); err == nil {
		left = t.Try.SinceBoot - up
	}
	tr.Remaining = max(0, left).Seconds()
	return tr
}

// StatusSchema names the JSON form of a status.
const StatusSchema = "fettle/status/v1"

// Status returns the selection in force, with warnings. accepted is the selection's accepted
// content, present is the current definition of the same profiles. Either may be nil.
func (e *Engine) Status(ctx context.Context, s *journal.State, accepted, present *profile.Profile) (*Status, error) {
	st := &Status{Schema: StatusSchema, Machine: e.Host.Name, Profiles: []string{}, Dynamic: e.dynamic(), NumaBalance: e.balancing(), Live: []int{}, Damage: s.Damage}
	e.inCharge(ctx, st)
	st.Experiment, st.ExperimentUndo = Holder(e.StateDir), LeftBehind(e.StateDir)
	overdue := e.expired(s)
	for _, t := range s.Live() {
		st.Live = append(st.Live, t.ID)
		if t.Try != nil && !t.Confirmed && t.Commit != nil {
			st.Trials = append(st.Trials, e.trial(t, slices.Contains(overdue, t.ID)))
		}
	}
	for _, t := range s.Interrupted() {
		st.Interrupted = append(st.Interrupted, t.ID)
	}
	st.Asked = e.Asked(ctx, s)
	t := s.InForce()
	sel, err := SelectionOf(t)
	if err != nil || sel == nil || accepted == nil {
		st.KeepUnmatched = e.keepMissing(ctx)
		return st, err
	}
	st.Profiles, st.Mode, st.PostLoaded, st.Since, st.Tx = sel.Profiles, sel.Mode, sel.PostLoaded, &t.Time, t.ID
	st.ThisBoot = t.BootID == e.bootID()
	old, err := e.PlanProfile(ctx, accepted, s)
	if err != nil {
		return st, err
	}
	st.Drifted, st.Rejected = e.drifted(old, s)
	if present != nil {
		now, err := e.PlanProfile(ctx, present, s)
		if err != nil {
			return st, err
		}
		n := len(differences(old, now))
		st.Newer = &n
	}
	st.KeepUnmatched = e.keepUnmatched(old)
	return st, nil
}

// inCharge adds the other tuners of the machine to st.
func (e *Engine) inCharge(ctx context.Context, st *Status) {
	all, err := override.Tuners(ctx, e.Host)
	if err != nil {
		st.TunersUnknown = host.Why("/proc", err)
	}
	for _, t := range all {
		if t.Exclusive {
			st.Tuners = append(st.Tuners, t)
		}
	}
	st.Operator = override.NodeTuning(e.Host)
	if s, err := profile.ReadState(e.Host); err == nil && len(s.Active) > 0 {
		st.Recorded = &TunedRecord{strings.Join(s.Active, " "), string(s.Mode), profile.ActiveProfileFile}
	}
}

// keepUnmatched returns the entries of keep.d that match no setting of a plan, and no setting that
// its writes change.
func (e *Engine) keepUnmatched(p *Plan) []KeepEntry {
	var out []KeepEntry
	for _, k := range e.Keep {
		if k.Rule != "" {
			continue // a scan requires many settings that no profile sets
		}
		only := *e
		only.Keep = Keep{k}
		keeps := func(step Step) bool {
			_, _, ok := only.Kept(step.Setting, step.named())
			return ok || only.keepsPart(step.Setting, step.Before, step.Want)
		}
		if !slices.ContainsFunc(p.Steps, keeps) {
			out = append(out, k)
		}
	}
	return out
}

// keepMissing returns the entries of keep.d that name a single setting which this kernel lacks.
func (e *Engine) keepMissing(ctx context.Context) []KeepEntry {
	var out []KeepEntry
	for _, k := range e.Keep {
		kind, err := e.Kinds.For(k.id)
		if err != nil || k.Rule != "" || !isKernelValue(kind) {
			continue // a pattern, or a file that may be created later
		}
		if v, err := kind.Read(ctx, k.id); err == nil && v.Absent {
			out = append(out, k)
		}
	}
	return out
}

// drifted returns the settings that have changed since fettle wrote them in this boot, and
// those that were rejected.
func (e *Engine) drifted(p *Plan, s *journal.State) (drifted, rejected []Checked) {
	t := s.InForce()
	thisBoot := t != nil && t.BootID == e.bootID()
	chains := s.Chains()
	for _, step := range p.Steps {
		c := step.checked()
		if last := top(chains[step.Setting]); step.Action == Write && last != nil && thisBoot {
			c.Verdict, c.Why = e.differs(step, last)
		} else if c.Verdict != plugin.Rejected {
			continue
		}
		switch c.Verdict {
		case plugin.Drifted:
			drifted = append(drifted, c)
		case plugin.Rejected:
			rejected = append(rejected, c)
		}
	}
	return drifted, rejected
}

// differences lists the settings for which the two plans want different values.
func differences(a, b *Plan) []string {
	want := func(p *Plan) map[string]string {
		m := map[string]string{}
		for _, s := range p.Steps {
			if s.Action != Release && s.Verdict != plugin.Deferred && len(s.Varies) == 0 {
				m[s.Setting.String()] = s.Want.String()
			}
		}
		return m
	}
	x, y := want(a), want(b)
	var out []string
	for s, v := range x {
		if w, ok := y[s]; !ok || w != v {
			out = append(out, s)
		}
	}
	for s := range y {
		if _, ok := x[s]; !ok {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return out
}
