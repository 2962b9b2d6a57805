package prove

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Schema names the JSON form of the evidence.
const Schema = "fettle/prove/v1"

// Method is the version of the method that derives the verdict and its text from samples. Every
// change that alters the text for the same samples increases it. Records without a version have
// version 1.
const Method = 5

// Evidence is the body of an experiment's run. All of it can be computed again from the design and
// the samples.
type Evidence struct {
	Schema string   `json:"schema"` // fettle/prove/v1
	Design Design   `json:"design"`
	Work   []string `json:"work,omitempty"` // a command; absent for running work
	Change Tested   `json:"change"`
	// Asked holds the options of the experiment.
	Asked json.RawMessage `json:"asked"`

	// Method is the version that made the verdict; absent means 1.
	Method int    `json:"method,omitempty"`
	Ending Ending `json:"ending"`
	Error  string `json:"error,omitempty"` // why it ended early; "" if by its design
	Verdict
	// Metrics are the verdicts on all metrics, if there are several. Verdict is that on the first.
	Metrics []Judged `json:"metrics,omitempty"`
	// Washout is the number of warm-up runs dropped after each switch.
	Washout int `json:"washout_visits"`
	// Noise is the scale of one block's difference.
	Noise float64 `json:"noise_ratio"`
	// Unsettled is the number of first blocks that do not count, because the machine needed more
	// warm-up runs than the design has.
	Unsettled int `json:"unsettled_blocks,omitempty"`
	// Blocks are differences of logarithms, with the change minus without.
	Blocks []float64 `json:"blocks_log_ratio"`
	// Limited is the number of winsorized blocks.
	Limited int `json:"limited_blocks"`

	Guards    []Guarded     `json:"guards,omitempty"`
	Covariate *Adjusted     `json:"covariate,omitempty"`
	Second    SecondOpinion `json:"second_opinion"`
	Warnings  []string      `json:"warnings,omitempty"`
	// Busy lists what disturbed the machine before the first run.
	Busy []string `json:"busy,omitempty"`
	// Moved lists other values that changed on the machine with the change. They are exploratory:
	// among so many counters some differ by chance.
	Moved []Movement `json:"moved,omitempty"`

	// Resumed lists the times at which the experiment was resumed after it had ended without an
	// answer. The interval is valid however often the verdict is calculated, so this costs nothing.
	Resumed []Resumption `json:"resumed,omitempty"`

	Samples []Sample `json:"visits"`
}

// EvidenceOf returns the evidence in the record of an experiment.
func EvidenceOf(r *evidence.Run) (*Evidence, error) {
	e := new(Evidence)
	if err := json.Unmarshal(r.Body, e); err != nil {
		return nil, fmt.Errorf("run %s: %w", r.ID, err)
	}
	return e, nil
}

// Resumption is the point at which an experiment was resumed after it had ended.
type Resumption struct {
	Run     string    `json:"run"` // run with the first samples
	At      time.Time `json:"time"`
	Blocks  int       `json:"blocks"` // complete ones
	Verdict string    `json:"verdict"`
	Ending  Ending    `json:"ending"`
}

// NoiseKnown reports whether Noise is known: from the second block on.
func (e *Evidence) NoiseKnown() bool { return len(e.Blocks) > 1 }

// Judged returns the verdicts on all metrics.
func (e *Evidence) Judged() []Judged {
	if len(e.Metrics) > 0 {
		return e.Metrics
	}
	return []Judged{{e.Design.Metric, e.Verdict, e.Noise}}
}

// Improved reports whether a metric is better, and no other is worse or undecided.
func (e *Evidence) Improved() bool {
	better := false
	for _, j := range e.Judged() {
		if j.Word != Better && j.Word != NoEffect {
			return false
		}
		better = better || j.Word == Better
	}
	return better
}

// Unanswered reports whether the experiment ended without an answer for lack of time or blocks. It
// can then be resumed.
func (e *Evidence) Unanswered() bool {
	undecided := func(j Judged) bool { return j.Word == CannotTell }
	return slices.ContainsFunc(e.Judged(), undecided) && (e.Ending == EndedBudget || e.Ending == EndedMost)
}

// JSONBody marks Evidence as the body of a run.
func (Evidence) JSONBody() {}

// Tested is the change under test.
type Tested struct {
	Profile  []string  `json:"profiles,omitempty"`
	Settings []Setting `json:"settings,omitempty"`
	Apply    string    `json:"apply_command,omitempty"`
	Undo     string    `json:"undo_command,omitempty"`
	// A and B are two commands or commits that are compared, instead of a change.
	A string `json:"a_command,omitempty"`
	B string `json:"b_command,omitempty"`
	// Left lists values of the change that cannot be in force on this machine.
	Left []Setting `json:"not_tested,omitempty"`
}

// Setting is a setting under test.
type Setting struct {
	Setting setting.Setting `json:"setting"`
	Before  setting.Value   `json:"before,omitzero"`
	With    setting.Value   `json:"with"`
	Why     string          `json:"why,omitempty"`
}

// SecondOpinion holds other statistics of the blocks. None of them affects the verdict.
type SecondOpinion struct {
	// SignFlip is the exact p-value of no effect if the number of blocks was fixed beforehand.
	// After an early stop it is only descriptive.
	SignFlip float64 `json:"sign_flip_p"`
	// Drift is the change of the value per counted sample.
	Drift float64 `json:"drift_ratio_per_visit"`
	// Lag1 is the autocorrelation of the counted samples without their block's difference. It is
	// absent if they do not vary or are too few.
	Lag1 *float64 `json:"lag1_autocorrelation,omitempty"`
	// Between is the share of the single measurements' variance that lies between runs, if samples
	// have several measurements.
	Between *float64 `json:"between_runs_share,omitempty"`
}

// Autocorrelation formats Lag1.
func (s *SecondOpinion) Autocorrelation() string {
	if s.Lag1 == nil {
		return "not calculated: no variance left"
	}
	return fmt.Sprintf("%.2f", *s.Lag1)
}

// Movement is a value that changed on the machine with the change.
type Movement struct {
	Name    string  `json:"name"`
	Without float64 `json:"without"` // median of the samples
	With    float64 `json:"with"`
	// P is the p-value of the blocks' differences by sign flips, not corrected for their number.
	P float64 `json:"p"`
}

// Sum returns the evidence of an experiment that has ended.
func Sum(c *Course, ending Ending, err error, samples []Sample) *Evidence {
	e := &Evidence{Schema: Schema, Method: Method, Design: c.design, Ending: ending, Verdict: c.Verdict(),
		Washout: c.washout, Samples: samples}
	if err != nil {
		e.Error = err.Error()
	}
	e.Blocks, e.Unsettled = c.Differences(), c.unsettled
	if all := c.Judged(); len(all) > 1 {
		e.Metrics = all
	}
	if n := c.Noise(); !math.IsNaN(n) {
		e.Noise = n
	}
	if len(e.Blocks) > 0 {
		e.Limited = c.tracks[0].sequence.Winsorized()
	}
	e.Guards, e.Covariate = c.Guards(), c.Covariate()
	e.Second.SignFlip = stats.SignFlip(e.Blocks)
	var counted []float64
	var runs []stats.Summary
	for _, v := range samples {
		if v.Within != nil && v.Arm == Without {
			runs = append(runs, *v.Within)
		}
		if value := v.Values[c.design.Metric.Name]; e.Counts(v) && value > 0 {
			log := math.Log(value)
			if effect := e.Effect; effect != nil && v.Arm == With {
				log -= c.tracks[0].sequence.Estimate()
			}
			counted = append(counted, log)
		}
	}
	e.Second.Drift = math.Expm1(stats.Slope(counted))
	if lag := stats.Lag1(counted); !math.IsNaN(lag) && stats.SD(counted) > rounding {
		e.Second.Lag1 = &lag
	}
	if share := stats.BetweenRuns(runs); !math.IsNaN(share) {
		e.Second.Between = &share
	}
	e.Moved = e.moved()
	e.Warnings = c.warnings(ending)
	if ending == EndedBudget && e.Interval == nil && e.Provisional == nil {
		seconds := 0.0
		for _, v := range samples {
			seconds += v.TookS / float64(len(samples))
		}
		e.Warnings = append(e.Warnings, fmt.Sprintf("an interval takes two blocks, which take about %s; use a larger --budget or shorter work", ui.Roughly(2*c.Samples()*seconds)))
	}
	return e
}

// Counts reports whether the verdict uses a sample, provided that its block was completed. Up to
// method 3 an experiment began with another phase, which did not count.
func (e *Evidence) Counts(v Sample) bool {
	return v.Phase == Blocks && !v.Dropped && v.Block >= e.Unsettled
}

// JudgedBy returns the version of the method that judged the evidence.
func (e *Evidence) JudgedBy() int { return max(e.Method, 1) }

// Otherwise is returned if another version of the method judged the evidence and this version's
// verdict on the samples differs. The recorded verdict stands.
type Otherwise struct {
	Method int
	Text   string // verdict of this version; "" if it has none
	Err    error  // why it has none
}

func (o *Otherwise) Error() string {
	if o.Err != nil {
		return fmt.Sprintf("evaluated by method %d; method %d of this version cannot evaluate the samples: %v", o.Method, Method, o.Err)
	}
	return fmt.Sprintf("evaluated by method %d; method %d of this version gives for the same samples: %s", o.Method, Method, o.Text)
}

func (o *Otherwise) Unwrap() error { return o.Err }

// Again judges the samples again, since a file may come from anywhere. It returns an *Otherwise if
// another version's verdict differs, or an error if the evidence is unreliable.
func (e *Evidence) Again() error {
	c, err := Replay(e.Design, e.Samples)
	switch {
	case e.JudgedBy() != Method && err != nil:
		return &Otherwise{Method: e.JudgedBy(), Err: err}
	case err != nil:
		return err
	}
	switch v := c.Verdict(); {
	case v.Word == e.Word && v.Text == e.Text:
		return nil
	case e.JudgedBy() != Method:
		return &Otherwise{Method: e.JudgedBy(), Text: v.Text}
	default:
		return fmt.Errorf("the record contradicts itself: verdict %q, but its samples give %q; do not use it", e.Text, v.Text)
	}
}

// Summed returns the results in found, with the question as described in the initial evidence e.
func (e *Evidence) Summed(found *Evidence) *Evidence {
	found.Asked, found.Work, found.Change, found.Resumed, found.Busy = e.Asked, e.Work, e.Change, e.Resumed, e.Busy
	for _, why := range e.Busy {
		found.Warnings = append(found.Warnings, "the machine was busy before the first run ("+why+"); this widens the interval, which is valid anyway")
	}
	for _, r := range e.Resumed {
		found.Warnings = append(found.Warnings, fmt.Sprintf("resumed after block %d, where run %s had ended (%s); the interval is valid however often you look", r.Blocks, r.Run, r.Verdict))
	}
	return found
}

// warnings returns remarks on the verdict.
func (c *Course) warnings(ending Ending) (out []string) {
	if with := c.Carried(With); math.Abs(with) > 2*c.Noise() && math.Abs(with) > 0.01 {
		out = append(out, "the last run dropped after a switch differs by "+percent(math.Abs(with))+" from the next one: the cost of the switch")
	}
	if b := c.Covariate(); b != nil && b.P < 0.05 {
		out = append(out, fmt.Sprintf("the change also affects the covariate %s (%s %%, p %s), so the correction for it may hide or create part of the effect; also measure without --covariate", b.Name, unit.SignedPercent(math.Expm1(b.Difference)), unit.Digits(b.P)))
	}
	if c.short {
		out = append(out, "the budget was too short for warm-up runs, so effects of the previous run, possibly of the other side, are in each result")
	}
	if c.washout > c.design.Washout {
		out = append(out, "the machine took longer to settle after a switch; more runs were dropped than requested")
	}
	if ending == EndedVerdict && c.Counted() < 2*c.design.Least {
		if w := c.Verdict().Word; w != Better && w != Worse {
			return out // there is no effect to overestimate
		}
		out = append(out, "stopped early: the estimate of an early stop tends to exceed the effect; the interval is valid")
	}
	return out
}

// fewest is the minimum number of blocks for reporting movements.
const fewest = 6

// moved compares observations with and without the change, by differences within blocks.
func (e *Evidence) moved() (out []Movement) {
	blocks := map[int]map[Arm]Values{}
	names := map[string]bool{}
	for _, v := range e.Samples {
		if !e.Counts(v) || len(v.Moved) == 0 {
			continue
		}
		if blocks[v.Block] == nil || v.Place == 0 {
			blocks[v.Block] = map[Arm]Values{}
		}
		blocks[v.Block][v.Arm] = v.Moved
		for name := range v.Moved {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		var differences, with, without []float64
		for _, q := range blocks {
			if len(q) != 2 {
				continue
			}
			b, a := q[With][name], q[Without][name]
			differences = append(differences, b-a)
			with, without = append(with, b), append(without, a)
		}
		if len(differences) < fewest {
			return nil
		}
		m := Movement{Name: name, Without: stats.Median(without), With: stats.Median(with), P: stats.SignFlip(differences)}
		if m.P < 0.05 && m.With != m.Without {
			out = append(out, m)
		}
	}
	return out
}
