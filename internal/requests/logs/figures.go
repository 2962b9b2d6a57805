package logs

import (
	"slices"
	"time"
)

// span returns the time from the first request to the last, in seconds. It is not a
// time.Duration because a line with a wrong year may exceed its limit of 292 years.
func (r *Result) span() float64 {
	if r.Requests == 0 {
		return 0
	}
	return float64(r.Last-r.First) / 1e6
}

// Nothing reports whether the logs had lines but none could be read.
func (r *Result) Nothing() bool {
	return r.Unread.Lines > 0 && r.Requests+r.Left+r.Others == 0 && r.Unended+r.Unbegun == 0
}

// timeless reports whether no log has times. The requests' times are then 0, that is 1970.
func (r *Result) timeless() bool {
	return len(r.Logs) > 0 && !slices.ContainsFunc(r.Logs, func(l LogRead) bool { return !l.NoTime })
}

// Report returns the report of a result with the top groups of each grouping, sorted by a
// statistic of Sorts. A top of 0 means all groups.
func (r *Result) Report(sort string, top int) *Report {
	out := r.report(sort, top)
	out.Headline = headline(out)
	return out
}

func (r *Result) report(sort string, top int) *Report {
	out := &Report{Schema: "fettle/logs/v1", Logs: r.Logs, NotRead: r.NotRead, Copies: r.Copies, Requests: r.Requests, LeftOut: r.Left, OtherLines: r.Others, Unended: r.Unended, Unbegun: r.Unbegun,
		Unread: r.Unread, By: []Grouping{}, Hours: []Group{}, Slowest: append([]SlowLine{}, r.Slowest...), where: r.Where, merged: r.merged}
	span := r.span()
	timed := !r.timeless()
	if r.Requests > 0 && timed {
		first, last := time.UnixMicro(r.First).UTC(), time.UnixMicro(r.Last).UTC()
		out.First, out.Last, out.SpanS = &first, &last, span
	}
	r.all = r.Hours.Sum()
	out.All = r.group(r.all, 0, []string{}, span)
	for t, table := range r.Tables {
		g := Grouping{By: r.By[t], Groups: table.Len(), Top: []Group{}}
		for _, i := range order(table, sort, top) {
			g.Top = append(g.Top, r.group(table, i, key(table.Text(i)), span))
		}
		if table.Other.Count > 0 {
			folded := r.stats(&table.Other, []string{}, span)
			g.Folded = &folded
		}
		if table.folded() {
			g.Missing = &table.Missing
		}
		out.By = append(out.By, g)
	}
	if len(r.Tables) > 0 && out.All.MeanS != nil {
		first := func(sort string) (int, *Group) {
			i := order(r.Tables[0], sort, 1)[0]
			g := r.group(r.Tables[0], i, key(r.Tables[0].Text(i)), span)
			return i, &g
		}
		most, wentTo := first("total")
		asked, g := first("count")
		if out.WentTo = wentTo; asked != most && 2*g.Count >= r.Requests {
			out.MostAsked = g
		}
	}
	if !timed {
		for i := range out.Slowest {
			out.Slowest[i].Time = time.Time{}
		}
		out.Busy.Minutes = []Minute{}
		return out
	}
	for _, i := range byKey(r.Hours) {
		out.Hours = append(out.Hours, r.group(r.Hours, i, key(r.Hours.Text(i)), 3600))
	}
	out.Busy = r.busy()
	out.slots = r.slots
	return out
}

func (r *Result) busy() Busy {
	b := Busy{Minutes: []Minute{}}
	step, moments := r.Moments(0)
	b.StepS = step.Seconds()
	var most time.Time
	for m := range moments {
		if m.Busy > b.Most {
			b.Most, most = m.Busy, m.Start
		}
	}
	if b.Most > 0 {
		b.MostAt = &most
	}
	if r.Requests > 0 {
		b.Mean = min(b.Most, r.timeline.mean(r.First, r.Last)) // rounding may exceed Most
	}
	step, moments = r.Moments(time.Minute)
	b.MinuteS = step.Seconds()
	end := time.UnixMicro(r.Last)
	for m := range moments {
		if m.Start.After(end) {
			break // later steps have only requests in progress; Mean excludes them too
		}
		b.Minutes = append(b.Minutes, Minute{m.Start, m.Count, m.Errors, m.Busy})
		if last := &b.Minutes[len(b.Minutes)-1]; b.Minute == nil || m.Count > b.Minute.Requests {
			busiest := *last
			b.Minute = &busiest
		}
	}
	return b
}

func (r *Result) group(t *Table, i int, key []string, over float64) Group {
	g := r.stats(t.At(i), key, over)
	if t.Percentiles && t.At(i).Timed() > 0 {
		qs := make([]float64, len(quantiles))
		for k, q := range quantiles {
			qs[k] = q.q
		}
		g.QuantilesS = map[string]float64{}
		for k, v := range t.Quantiles(i, qs) {
			g.QuantilesS[quantiles[k].name] = v / 1e6
		}
	}
	return g
}

// stats returns the figures of a group. over is the length of the period in seconds, for rates.
func (r *Result) stats(s *Stats, key []string, over float64) Group {
	g := Group{Key: key, Count: s.Count, Errors: s.Errors, Untimed: s.Untimed, TotalS: float64(s.Sum) / 1e6}
	number := func(x float64) *float64 { return &x }
	if over > 0 {
		g.RatePerS = number(float64(s.Count) / over)
	}
	if s.Timed() == 0 {
		return g
	}
	if all := r.all.At(0).Sum; all > 0 {
		g.Share = number(float64(s.Sum) / float64(all))
	}
	g.MeanS, g.DeviationS = number(s.Mean()/1e6), number(s.Deviation()/1e6)
	g.MinS, g.MaxS = number(float64(s.Min)/1e6), number(float64(s.Max)/1e6)
	return g
}
