package trend

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// stamp is the format of times for people.
const stamp = "2006-01-02 15:04"

// summarize sets the headline: the series that became worse last, else better; what changed then;
// and how many series have which verdict.
func (r *Report) summarize() {
	h := &r.Headline
	*h = ui.Headline{}
	s := &r.Series[0]
	c := s.decisive()
	switch {
	case c != nil:
		by := s.effectWords(s.Compared.Effect, s.Compared.Interval)
		if s.Relative {
			h.Value("effect_percent", math.Round(1000*math.Abs(s.Compared.Effect))/10, by)
		}
		if first := &s.Changes[s.Compared.First]; len(s.Changes) == s.Compared.First+1 {
			h.Line("%s: %s by %s since %s%s", s.Verdict, s.Name, by, c.when(), s.ofWords(r))
			h.Line("changed then: %s", then(c.Meanwhile))
		} else {
			h.Line("%s: %s by %s compared with before %s%s", s.Verdict, s.Name, by, first.when(), s.ofWords(r))
			h.Line("latest change for the %s: %s; changed then: %s", s.Verdict, c.when(), then(c.Meanwhile))
		}
	case s.Verdict == NoChange:
		seen := "seen"
		if slices.ContainsFunc(r.Series, func(s Series) bool { return s.Compared != nil }) {
			seen = "left"
		}
		if !r.Since.IsZero() {
			seen += " since " + r.Since.Local().Format(stamp)
		}
		h.Line("no change %s in %d series%s", seen, r.Count(NoChange), visibleWords(s))
	default:
		h.Line("cannot tell yet: %s needs at least %s", s.Name, h.Count("points_needed", s.Needed, "more measurement"))
	}
	var parts []string
	for _, v := range byHarm {
		if n := r.Count(v); n > 0 {
			name := strings.ReplaceAll(string(v), "-", "_")
			parts = append(parts, h.Count(name, n, "")+" "+strings.ReplaceAll(name, "_", " "))
		}
	}
	h.Line("%s series: %s", h.Count("series", len(r.Series), ""), strings.Join(parts, ", "))
}

// ofWords names what was measured, if the report has the series of several measurements.
func (s *Series) ofWords(r *Report) string {
	if s.Of == "" || !s.shares(r) {
		return ""
	}
	return " (" + s.Of + ")"
}

// shares reports whether another series has the same name and is of something else.
func (s *Series) shares(r *Report) bool {
	return slices.ContainsFunc(r.Series, func(o Series) bool { return o.Of != s.Of && o.Name == s.Name })
}

// when returns the time of a change, or its label if that is unknown.
func (c *Change) when() string {
	if c.Time.IsZero() {
		return c.Label
	}
	return c.Time.Local().Format(stamp)
}

// then summarizes events in one line: the events that are not packages or settings first.
func then(all []Event) string {
	if len(all) == 0 {
		return "nothing that was recorded"
	}
	var first, rest []string
	for _, e := range all {
		switch e.Kind {
		case Booted, Differs:
			first = append(first, e.Text)
		case Transaction:
			first = append(first, "transaction "+e.Text)
		default:
			rest = append(rest, e.Text)
		}
	}
	const most = 3
	first = append(first, rest...)
	if left := len(first) - most; left > 0 {
		first = append(first[:most], fmt.Sprintf("and %d more", left))
	}
	return strings.Join(first, "; ")
}

// amount formats an effect without its sign.
func (s *Series) amount(effect float64) string {
	if s.Relative {
		return unit.Percent(math.Abs(effect)) + " %"
	}
	return strings.TrimSpace(unit.Digits(math.Abs(effect)) + " " + s.Unit)
}

// effectWords formats an effect and its interval.
func (s *Series) effectWords(effect float64, interval [2]float64) string {
	if s.Relative {
		return fmt.Sprintf("%s [%s, %s]", s.amount(effect), unit.SignedPercent(interval[0]), unit.SignedPercent(interval[1]))
	}
	return fmt.Sprintf("%s [%s, %s]", s.amount(effect), unit.Digits(interval[0]), unit.Digits(interval[1]))
}

// visibleWords states which change would have been seen.
func visibleWords(s *Series) string {
	v := s.visible(5)
	if v == nil {
		return ""
	}
	return fmt.Sprintf("; one of %s in %s shows after %s", s.amount(v.Effect), s.Name, text.Count(v.After, "measurement"))
}

// visible returns what shows after at least some points, or nil.
func (s *Series) visible(after int) *Visible {
	for i := range s.Visible {
		if s.Visible[i].After >= after {
			return &s.Visible[i]
		}
	}
	return nil
}

// Print prints a report, the answer first.
func (r *Report) Print(s *ui.Screen) {
	ui.PrintHeadline(s, &r.Headline)
	fmt.Fprintln(s.Out)
	r.grid().Write(s)
	for i := range r.Series {
		r.Series[i].printChanges(s, r.Since)
	}
	fmt.Fprintln(s.Out)
	ui.PrintLine(s, "%s.", strings.ToUpper(r.Caution[:1])+r.Caution[1:])
}

// grid returns a table of all series. It shows what a series is of if names are not enough.
func (r *Report) grid() *ui.Grid {
	of := ui.Column{Head: "of", Wide: true}
	if slices.ContainsFunc(r.Series, func(s Series) bool { return s.shares(r) }) {
		of = ui.Column{Head: "of", Below: true}
	}
	g := &ui.Grid{Columns: []ui.Column{{Head: "series"}, {Head: "points", Right: true}, {Head: "level", Right: true}, {Head: "verdict"}, {Head: "since", Optional: true}, of, {Head: "smallest change", Below: true}}}
	for i := range r.Series {
		s := &r.Series[i]
		row := []string{s.Name, strconv.Itoa(len(s.Points)), withUnit(s.last(), s.Unit), strings.ReplaceAll(string(s.Verdict), "-", " "), "", s.Of, s.shows()}
		if s.Verdict == NoChange && !r.Since.IsZero() {
			row[3] = "no change since " + r.Since.Local().Format(time.DateOnly)
		}
		if c := s.Compared; c != nil {
			row[3] = "no change left"
			if s.Verdict != NoChange {
				row[3] = string(s.Verdict) + " by " + s.effectWords(c.Effect, c.Interval)
			}
			row[4] = s.Changes[c.First].when()
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// shows states from which size on a change shows.
func (s *Series) shows() string {
	if s.Needed > 0 {
		return "a change shows after " + text.Count(s.Needed, "more measurement") + " at the earliest"
	}
	if s.Noise == 0 {
		return "any change shows, as the values were always the same"
	}
	var parts []string
	for _, v := range s.Visible {
		if v.After <= 10 {
			parts = append(parts, fmt.Sprintf("%s after %d", s.amount(v.Effect), v.After))
		}
	}
	return "visible next: " + strings.Join(parts, ", ") + " measurements"
}

// last returns the present level, the mean since the last change, in the unit of the series.
func (s *Series) last() float64 {
	if n := len(s.Changes); n > 0 {
		return s.Changes[n-1].After
	}
	sum := 0.0
	for _, p := range s.Points {
		if s.Relative {
			sum += math.Log(p.Value)
		} else {
			sum += p.Value
		}
	}
	return s.level(sum / float64(len(s.Points)))
}

func withUnit(v float64, of string) string {
	if of == "bytes" && v >= 0 && v < 1<<62 {
		return unit.Size(v).Human()
	}
	return strings.TrimSpace(unit.Digits(v) + " " + of)
}

// printChanges prints the changes of a series, the latest first, with what else changed then.
func (s *Series) printChanges(screen *ui.Screen, since time.Time) {
	for i := len(s.Changes) - 1; i >= 0; i-- {
		c := &s.Changes[i]
		fmt.Fprintln(screen.Out)
		from, to := s.span(c)
		why := ""
		switch {
		case c.Counts:
		case s.since(*c, since):
			why = "; below the margin, so it does not count"
		default:
			why = "; before --since, so it does not count"
		}
		ui.PrintLine(screen, "%s: %s by %s, %s to %s, between %s and %s%s:", s.Name, c.Verdict, s.effectWords(c.Effect, c.Interval), withUnit(c.Before, s.Unit), withUnit(c.After, s.Unit), from, to, why)
		events(c.Meanwhile).Write(screen)
	}
	if len(s.Changes) > 0 && s.Lag1 >= dependent {
		ui.PrintLine(screen, "Neighboring measurements of %s resemble each other (autocorrelation %s): a change may be a few unusual days; wait for more measurements.", s.Name, unit.Digits(s.Lag1))
	}
}

// dependent is the autocorrelation from which on false changes are clearly more frequent
// (docs/runs-trend.md).
const dependent = 0.3

// span returns the last point surely before a change, and the first one surely after it.
func (s *Series) span(c *Change) (from, to string) {
	name := func(p Point) string {
		if p.Time.IsZero() {
			return p.Label
		}
		return p.Time.Local().Format(stamp)
	}
	return name(s.Points[max(1, c.Earliest)-1]), name(s.Points[c.Latest])
}

// events returns a table of events.
func events(all []Event) *ui.Grid {
	g := &ui.Grid{Columns: []ui.Column{{}, {}, {Below: true}}}
	for _, e := range all {
		at := ""
		if !e.Time.IsZero() {
			at = e.Time.Local().Format(stamp)
		}
		g.Rows = append(g.Rows, []string{"  " + string(e.Kind), at, e.Text})
	}
	if len(g.Rows) == 0 {
		g.Rows = [][]string{{"  nothing else that was recorded changed", "", ""}}
	}
	return g
}

// Next returns the arguments of the next call of fettle: the comparison of the runs before and after
// the changes that the verdict is about. It returns nil without a change, or if the points are not
// runs.
func (r *Report) Next() []string {
	s := &r.Series[0]
	if s.decisive() == nil || s.Points[0].run == nil {
		return nil
	}
	before, after := s.Changes[s.Compared.First].At-1, s.Changes[len(s.Changes)-1].At
	return []string{"runs", "compare", s.Points[before].Label, s.Points[after].Label}
}

// times reports whether the time of every point is known.
func (s *Series) times() bool {
	return !slices.ContainsFunc(s.Points, func(p Point) bool { return p.Time == time.Time{} })
}
