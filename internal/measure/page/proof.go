package page

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/stats"
)

// proof holds the parts of the page for an experiment.
type proof struct {
	*prove.Evidence
	Sentences []string
	Strip     *strip
	Figures   []figure
	Samples   *samples
	Looks     *looks
	Change    []prove.Setting
	Notes     []string // warnings for the reader
	Lower     string   // names of the sides of the strip
	Higher    string
	Medians   [2]string // without the change, with it
	Rails     []rail
	Moves     []move
	Opinion   []figure
	Live      string // how running work was measured; "" for a command
}

type figure struct{ Name, Value string }

// rail is a guard rail or a cap in words.
type rail struct{ Name, State, Worse, Allowed string }

// move is a counter that moved with the change.
type move struct{ Name, Without, With, P string }

// samples holds the data of the chart of visits, both counted and dropped, in their order.
type samples struct {
	Unit    string    `json:"unit"`
	Name    string    `json:"name"`
	Log     bool      `json:"log"`
	Values  []float64 `json:"values"`
	Arms    string    `json:"arms"`    // A or B, a letter a visit
	Dropped []bool    `json:"dropped"` // by visit
	Blocks  []block   `json:"blocks"`
	Rows    []row     `json:"-"`
	Left    int       `json:"-"` // visits not in Rows
}

// block is a block of four visits, given by the indices of its first and last visit.
type block struct {
	Phase string `json:"phase"`
	Order string `json:"order"` // ABBA or BAAB
	From  int    `json:"from"`
	To    int    `json:"to"`
}

// row is a visit in the table below the chart.
type row struct {
	N              int
	Phase          string
	Block          int
	Side, Counts   string
	Value, Took    string
	Order, Started string
}

// looks holds the data of the chart of the verdict after each block, in percent.
type looks struct {
	Margin    float64    `json:"margin"`
	Blocks    []float64  `json:"blocks"`
	Estimates []*float64 `json:"estimates"`
	Lows      []*float64 `json:"lows"`
	Highs     []*float64 `json:"highs"`
	Range     [2]float64 `json:"range"`
	Rows      []look     `json:"-"`
}

type look struct {
	N                         int
	Block, Estimate, Interval string
	Text                      string
}

// mostRows limits the visits in the table.
const mostRows = 2000

func newProof(e *prove.Evidence) (*proof, error) {
	p := &proof{Evidence: e, Change: e.Change.Settings, Notes: slices.Clone(e.Warnings)}
	m := e.Design.Metric
	p.Lower, p.Higher = "worse", "better"
	if m.Unit == "s" || strings.HasSuffix(m.Unit, "/s") {
		p.Lower, p.Higher = "slower", "faster"
	}
	seen, err := prove.Looks(e.Design, e.Visits)
	if err != nil && e.JudgedBy() == prove.Method {
		return nil, err
	}
	if again := e.Again(); again != nil {
		text := again.Error()
		p.Notes = append(p.Notes, strings.ToUpper(text[:1])+text[1:]+".")
	}
	if e.Effect != nil {
		p.Strip = newStrips([]bar{{*e.Effect, e.Interval, string(e.Word)}}, e.Design.Margin)[0]
	}
	p.Samples = newSamples(e)
	p.Looks = newLooks(e, seen)
	sides := map[prove.Arm][]float64{}
	for _, v := range e.Visits {
		if v.Phase == prove.Blocks && !v.Dropped {
			sides[v.Arm] = append(sides[v.Arm], v.Values[m.Name])
		}
	}
	if len(sides[prove.Without]) > 0 && len(sides[prove.With]) > 0 {
		p.Medians = [2]string{amount(stats.Median(sides[prove.Without]), m.Unit), amount(stats.Median(sides[prove.With]), m.Unit)}
	}
	p.Sentences = sentences(e)
	counted := 0
	for _, v := range e.Visits {
		if !v.Dropped {
			counted++
		}
	}
	p.Figures = []figure{
		{e.Design.Unit() + "s made", fmt.Sprint(len(e.Visits))}, {"of them count", fmt.Sprint(counted)},
		{"blocks of the experiment", fmt.Sprintf("%d of at most %d", len(e.Blocks), e.Design.Most)},
		{"noise of one block", "not known yet"}, {"smallest effect that matters", plain(e.Design.Margin) + " %"},
		{"chance of a wrong verdict", "at most " + plain(e.Design.Alpha) + " %"},
	}
	if e.NoiseKnown() {
		p.Figures[3].Value = plain(e.Noise) + " %"
	}
	for _, g := range e.Guards {
		p.Rails = append(p.Rails, rail{g.Name, g.State, g.Text(), "at most " + plain(g.Most) + " % worse"})
	}
	for _, x := range e.Moved {
		p.Moves = append(p.Moves, move{x.Name, digits(x.Without), digits(x.With), fmt.Sprintf("%.3f", x.P)})
	}
	if len(e.Blocks) > 0 {
		p.Opinion = []figure{
			{"exact sign-flip test of no effect", fmt.Sprintf("p = %.3g", e.Second.SignFlip)},
			{"drift from one " + e.Design.Unit() + " to the next", signed(e.Second.Drift) + " %"},
			{"autocorrelation of neighbours", e.Second.Autocorrelation()},
		}
	}
	p.Opinion = append(p.Opinion, []figure{
		{"blocks that count only to a limit", fmt.Sprint(e.Limited)},
		{e.Design.Unit() + "s dropped after each switch", fmt.Sprint(e.Washout)},
		{"placebo blocks", fmt.Sprintf("%d of %d", len(e.Placebo), e.Design.Placebo)},
		{"ended by", string(e.Ending)},
	}...)
	if l := e.Design.Live; l != nil {
		p.Live = fmt.Sprintf("what runs there, in windows of %s; %s after each switch do not count", duration(l.WindowS), duration(l.SettleS))
	}
	for _, c := range e.Design.Caps {
		p.Rails = append(p.Rails, rail{c.Name, "cap", "at any moment", "at most " + amount(c.Most, c.Unit)})
	}
	if c := e.Covariate; c != nil {
		p.Opinion = append(p.Opinion, figure{"covariate " + c.Name, fmt.Sprintf("the metric follows its power %s, which is taken out; its own difference is %s %%, p = %.2g", digits(c.Slope), signed(math.Expm1(c.Difference)), c.P)})
	}
	if b := e.Second.Between; b != nil {
		p.Opinion = append(p.Opinion, figure{"share of variance between runs", fmt.Sprintf("%.0f %%", 100**b)})
	}
	return p, nil
}

// sentences states the verdict in words.
func sentences(e *prove.Evidence) (out []string) {
	m := e.Design.Metric
	if e.Effect == nil {
		return []string{"No block was completed, so nothing can be said about the change."}
	}
	at := math.Abs(*e.Effect)
	way := map[bool]string{false: "less", true: "more"}[m.More == (*e.Effect > 0)]
	sure := "There is no interval yet: it takes more blocks."
	if i := e.Interval; i != nil {
		sure = fmt.Sprintf("With %s %% confidence the true effect lies between %s %% and %s %% (plus is better), at whatever moment one looks.", plain(1-e.Design.Alpha), signed(i[0]), signed(i[1]))
	}
	switch e.Word {
	case prove.Better, prove.Worse:
		out = append(out, fmt.Sprintf("With the change, %s was %s %% %s than without it.", m.Name, plain(at), way), sure)
	case prove.NoEffect:
		out = append(out, fmt.Sprintf("If the change does anything to %s, it is less than the %s %% that were declared to matter before the first run.", m.Name, plain(e.Design.Margin)), sure)
	default:
		out = append(out, fmt.Sprintf("The measurements do not decide whether the change does anything to %s. That is not the same as no effect.", m.Name), sure)
		if e.More > 0 && e.More < 100_000 {
			out = append(out, fmt.Sprintf("About %d more %ss may decide it.", e.More, e.Design.Unit()))
		}
	}
	if e.Ending == prove.EndedGuard && e.Error != "" {
		out = append(out, "The experiment was ended: "+e.Error+".")
	} else if e.Error != "" {
		out = append(out, "The experiment ended early: "+e.Error+".")
	}
	return out
}

// plain formats a ratio in percent without its sign.
func plain(ratio float64) string { return strings.TrimLeft(signed(ratio), "+−") }

func newSamples(e *prove.Evidence) *samples {
	m := e.Design.Metric
	s := &samples{Unit: printable(m.Unit), Name: printable(m.Name)}
	low, high := math.Inf(1), 0.0
	var arms strings.Builder
	for i, v := range e.Visits {
		value := v.Values[m.Name]
		low, high = min(low, value), max(high, value)
		s.Values, s.Dropped = append(s.Values, value), append(s.Dropped, v.Dropped)
		arms.WriteString(string(v.Arm))
		if last := len(s.Blocks) - 1; last < 0 || s.Blocks[last].Phase != string(v.Phase) || e.Visits[i-1].Block != v.Block || e.Visits[i-1].Place > v.Place {
			var order strings.Builder
			for _, arm := range e.Design.Order(v.Phase, v.Block) {
				order.WriteString(string(arm))
			}
			s.Blocks = append(s.Blocks, block{string(v.Phase), order.String(), i, i})
		} else {
			s.Blocks[last].To = i
		}
		if i < mostRows {
			r := row{N: i + 1, Phase: string(v.Phase), Block: v.Block + 1, Side: "A, without", Counts: "yes", Order: s.Blocks[len(s.Blocks)-1].Order,
				Value: amount(value, m.Unit), Took: duration(v.TookS), Started: v.At.UTC().Format("15:04:05")}
			if v.Phase == prove.Placebo {
				r.Side = string(v.Arm) + ", both without"
			} else if v.Arm == prove.With {
				r.Side = "B, with"
			}
			if v.Dropped {
				r.Counts = "no"
			}
			s.Rows = append(s.Rows, r)
		}
	}
	if len(s.Values) == 0 {
		return nil
	}
	s.Arms, s.Left = arms.String(), len(s.Values)-len(s.Rows)
	s.Log = high > 5*low
	return s
}

func duration(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < 10*time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

func newLooks(e *prove.Evidence, seen []prove.Verdict) *looks {
	n := min(len(seen), len(e.Blocks))
	if n < 2 {
		return nil
	}
	m := e.Design.Metric
	l := &looks{Margin: 100 * e.Design.Margin}
	percent := func(ratio float64) *float64 { p := round(100 * within(ratio)); return &p }
	low, high := -l.Margin, l.Margin
	for i, v := range seen[:n] {
		effect := round(100 * within(m.Effect(e.Blocks[i])))
		l.Blocks = append(l.Blocks, effect)
		r := look{N: i + 1, Block: signed(effect/100) + " %", Interval: "none yet", Text: headline(v.Text)}
		var estimate, from, to *float64
		if v.Effect != nil {
			estimate = percent(*v.Effect)
			r.Estimate = signed(*v.Effect) + " %"
			low, high = min(low, *estimate), max(high, *estimate)
		}
		if v.Interval != nil {
			from, to = percent(v.Interval[0]), percent(v.Interval[1])
			r.Interval = signed(v.Interval[0]) + " % to " + signed(v.Interval[1]) + " %"
		}
		l.Estimates, l.Lows, l.Highs = append(l.Estimates, estimate), append(l.Lows, from), append(l.Highs, to)
		l.Rows = append(l.Rows, r)
	}
	// The range contains the last interval and the blocks except the outer tenth on each side.
	low, high = min(low, stats.Quantile(l.Blocks, 0.1)), max(high, stats.Quantile(l.Blocks, 0.9))
	if from, to := l.Lows[n-1], l.Highs[n-1]; from != nil && to != nil {
		low, high = min(low, *from), max(high, *to)
	}
	room := 0.15 * (high - low)
	l.Range = [2]float64{round(low - room), round(high + room)}
	return l
}
