package prove

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/unit"
)

// Schema names the JSON form of the evidence.
const Schema = "fettle/prove/v1"

// Method is the number of the method that makes a verdict of samples, and words of that.
// It is raised with whatever makes another text of the same samples. Records that tell
// none are of before it was counted; they stand as method 1.
const Method = 2

// Evidence is what an experiment leaves: the body of its run. All of it can be
// computed again from the design and the visits.
type Evidence struct {
	Schema string   `json:"schema"` // fettle/prove/v1
	Design Design   `json:"design"`
	Work   []string `json:"work,omitempty"` // a command; none of running work
	Change Tested   `json:"change"`
	// Asked are the options that the experiment was asked for with.
	Asked json.RawMessage `json:"asked"`

	// Method is that of the verdict; absent is 1.
	Method int    `json:"method,omitempty"`
	Ending Ending `json:"ending"`
	Error  string `json:"error,omitempty"` // why it ended, where that is not in its design
	Verdict
	// Washout is the number of visits that were dropped after each switch.
	Washout int `json:"washout_visits"`
	// Noise is the scale of one quad's difference.
	Noise float64 `json:"noise_ratio"`
	// Placebo and Quads are differences of logarithms, with the change less without.
	Placebo []float64 `json:"placebo_log_ratio"`
	Quads   []float64 `json:"quads_log_ratio"`
	// Limited counts the quads that count with less than their difference.
	Limited int `json:"limited_quads"`

	Guards    []Guarded     `json:"guards,omitempty"`
	Covariate *Adjusted     `json:"covariate,omitempty"`
	Second    SecondOpinion `json:"second_opinion"`
	Warnings  []string      `json:"warnings,omitempty"`
	// Moved is what the machine did differently with the change. It is exploratory:
	// of so many things some differ by chance.
	Moved []Movement `json:"moved,omitempty"`

	// Resumed says where the experiment was taken up after it had ended without an
	// answer. The interval is valid at every look, so that this is none more.
	Resumed []Resumption `json:"resumed,omitempty"`

	Visits []Visit `json:"visits"`
}

// Resumption is where an experiment that had ended was taken up again.
type Resumption struct {
	Run     string    `json:"run"` // whose visits are the first ones here
	At      time.Time `json:"time"`
	Quads   int       `json:"quads"` // that were complete
	Verdict string    `json:"verdict"`
	Ending  Ending    `json:"ending"`
}

// NoiseKnown says whether there is a Noise: from the first quad of the placebo on.
func (e *Evidence) NoiseKnown() bool { return len(e.Placebo)+len(e.Quads) > 0 }

// Unanswered says whether an experiment has ended without an answer, for want of time or
// of quads: it can go on.
func (e *Evidence) Unanswered() bool {
	return e.Word == CannotTell && (e.Ending == EndedBudget || e.Ending == EndedMost)
}

// JSONBody says that it is the body of a run.
func (Evidence) JSONBody() {}

// Tested is the change under test.
type Tested struct {
	Profile  []string  `json:"profiles,omitempty"`
	Settings []Setting `json:"settings,omitempty"`
	Apply    string    `json:"apply_command,omitempty"`
	Undo     string    `json:"undo_command,omitempty"`
	// Left are the values that the change would have, and cannot here.
	Left []Setting `json:"not_tested,omitempty"`
}

// Setting is a setting under test.
type Setting struct {
	Setting setting.Setting `json:"setting"`
	Before  setting.Value   `json:"before,omitzero"`
	With    setting.Value   `json:"with"`
	Why     string          `json:"why,omitempty"`
}

// SecondOpinion is what other ways to look at the quads say. None of it decides.
type SecondOpinion struct {
	// SignFlip is the exact p-value of no effect. It is one only where the number of
	// quads was fixed beforehand; after an early stop it describes.
	SignFlip float64 `json:"sign_flip_p"`
	// Drift is the change of the value from one counted visit to the next.
	Drift float64 `json:"drift_ratio_per_visit"`
	// Lag1 is the autocorrelation of the counted visits, less their quad's difference;
	// absent where these do not differ, or are too few.
	Lag1 *float64 `json:"lag1_autocorrelation,omitempty"`
	// Between is the share of the variance of the single measurements that lies
	// between the runs, where a visit had many.
	Between *float64 `json:"between_runs_share,omitempty"`
}

// Autocorrelation is Lag1 in words.
func (s *SecondOpinion) Autocorrelation() string {
	if s.Lag1 == nil {
		return "none: nothing is left to vary"
	}
	return fmt.Sprintf("%.2f", *s.Lag1)
}

// Movement is something that the machine did differently with the change.
type Movement struct {
	Name    string  `json:"name"`
	Without float64 `json:"without"` // median of the visits
	With    float64 `json:"with"`
	// P is that of the quads' differences by sign flips, not corrected for their number.
	P float64 `json:"p"`
}

// Sum is the evidence of an experiment that has ended.
func Sum(c *Course, ending Ending, err error, visits []Visit) *Evidence {
	e := &Evidence{Schema: Schema, Method: Method, Design: c.design, Ending: ending, Verdict: c.Verdict(),
		Washout: c.washout, Visits: visits}
	if err != nil {
		e.Error = err.Error()
	}
	e.Quads, e.Placebo = c.Differences()
	if n := c.Noise(); !math.IsNaN(n) {
		e.Noise = n
	}
	if s := c.tracks[0].sequence; s != nil && s.N() > 0 {
		e.Limited = s.Winsorized()
	}
	e.Guards, e.Covariate = c.Guards(), c.Covariate()
	e.Second.SignFlip = stats.SignFlip(e.Quads)
	var counted []float64
	var runs []stats.Summary
	for _, v := range visits {
		if v.Within != nil && (v.Phase == Placebo || v.Arm == Without) {
			runs = append(runs, *v.Within)
		}
		if !v.Dropped && v.Phase == Quads {
			log := math.Log(v.Values[c.design.Metric.Name])
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
	e.Moved = moved(visits)
	e.Warnings = c.warnings(ending)
	return e
}

// JudgedBy is the number of the method that the evidence was judged with.
func (e *Evidence) JudgedBy() int { return max(e.Method, 1) }

// Otherwise is that evidence was judged by another method than this version's, and
// that this one finds something else in its samples. The verdict stands as it was given.
type Otherwise struct {
	Method int
	Text   string // the verdict of this version's method; empty where it can make none
	Err    error  // why it cannot
}

func (o *Otherwise) Error() string {
	if o.Err != nil {
		return fmt.Sprintf("judged by method %d; method %d, which this version has, cannot judge the samples again: %v", o.Method, Method, o.Err)
	}
	return fmt.Sprintf("judged by method %d; method %d, which this version has, says of the same samples: %s", o.Method, Method, o.Text)
}

func (o *Otherwise) Unwrap() error { return o.Err }

// Again judges the samples once more, since a file may come from anywhere. The error is
// an *Otherwise where another method has judged them before, or says why the evidence is
// not to be relied on.
func (e *Evidence) Again() error {
	c, err := Replay(e.Design, e.Visits)
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
		return fmt.Errorf("the record says %q, but from its samples it is %q: do not rely on it", e.Text, v.Text)
	}
}

// Summed is what an experiment found, with what the evidence of its beginning says of
// the question.
func (e *Evidence) Summed(found *Evidence) *Evidence {
	found.Asked, found.Work, found.Change, found.Resumed = e.Asked, e.Work, e.Change, e.Resumed
	for _, r := range e.Resumed {
		found.Warnings = append(found.Warnings, fmt.Sprintf("taken up again after quad %d, when run %s had ended with: %s; the interval is valid at every look, also at these", r.Quads, r.Run, r.Verdict))
	}
	return found
}

// warnings are what a reader of the verdict has to know.
func (c *Course) warnings(ending Ending) (out []string) {
	if with := c.Carried(With); c.phase != Placebo && math.Abs(with) > 2*c.Noise() && math.Abs(with) > 0.01 {
		out = append(out, "the visit after the change was applied differs by "+percent(math.Abs(with))+" from the next one: a switch costs that; it was dropped")
	}
	if b := c.Covariate(); b != nil && b.P < 0.05 {
		out = append(out, fmt.Sprintf("%s differs with the change too (%s %%, p %.2g): taking it out may take a part of the effect away, or make one up; look at the metric without it as well", b.Name, unit.SignedPercent(math.Expm1(b.Difference)), b.P))
	}
	if c.washout > c.design.Washout {
		out = append(out, "the machine took longer to settle after a switch: more visits were dropped than asked for")
	}
	if ending == EndedVerdict && len(c.tracks[0].placebo) > 0 && c.quad < 2*c.design.Least {
		if w := c.Verdict().Word; w != Better && w != Worse {
			return out // there is no effect whose size could be overstated
		}
		out = append(out, "stopped early: the estimate of an early stop tends to be larger than the effect; the interval is right all the same")
	}
	return out
}

// fewest is the number of quads from which movements are told.
const fewest = 6

// moved compares what was seen during the visits with the change and without, by the
// differences within quads.
func moved(visits []Visit) (out []Movement) {
	quads := map[int]map[Arm][]Values{}
	names := map[string]bool{}
	for _, v := range visits {
		if v.Phase != Quads || v.Dropped || len(v.Moved) == 0 {
			continue
		}
		if quads[v.Quad] == nil || v.Place == 0 {
			quads[v.Quad] = map[Arm][]Values{}
		}
		quads[v.Quad][v.Arm] = append(quads[v.Quad][v.Arm], v.Moved)
		for name := range v.Moved {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		var differences, with, without []float64
		for _, q := range quads {
			if len(q[With]) != 2 || len(q[Without]) != 2 {
				continue
			}
			b, a := q[With][0][name]+q[With][1][name], q[Without][0][name]+q[Without][1][name]
			differences = append(differences, b-a)
			with, without = append(with, b/2), append(without, a/2)
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
