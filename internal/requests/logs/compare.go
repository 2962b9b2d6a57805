package logs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/source"
	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// Comparison holds the changes between two sets of logs, in JSON form.
type Comparison struct {
	Schema   string      `json:"schema"` // fettle/logs-compare/v1
	Headline ui.Headline `json:"headline"`
	Before   Side        `json:"before"`
	After    Side        `json:"after"`
	// All is the change of the mean duration of all requests.
	All Change `json:"all"`
	// MixS and LatencyS are the two parts of the change of that mean, in seconds: the effect of
	// the mix of requests over the groups, and the effect of the durations within the groups.
	MixS     *float64 `json:"mix_s,omitempty"`
	LatencyS *float64 `json:"latency_s,omitempty"`
	By       []string `json:"by"`
	Groups   []Change `json:"groups"`
	More     int      `json:"more"` // number of further groups
	// Slices is the number of time slices of each side. Differences between slices give the
	// confidence interval of a mean. A side with fewer than 4 slices has no interval.
	Slices int `json:"slices"`

	where      string // the condition on requests
	requestors bool   // the logs have the dimension requestor
}

// Side describes one of the two sets of logs.
type Side struct {
	Logs     []LogRead        `json:"logs"`
	NotRead  []source.NotRead `json:"not_read,omitempty"` // see Report
	Copies   []source.NotRead `json:"copies,omitempty"`   // see Report
	Requests uint64           `json:"requests"`
	SpanS    float64          `json:"span_s"`
	Unread   UnreadLines      `json:"unread"`
	// LeftOut and OtherLines have the same meaning as in Report.
	LeftOut    uint64 `json:"left_out"`
	OtherLines uint64 `json:"other_lines"`
	// Missing is the maximum that each group may lack, if there were more groups than the limit. A
	// group that is not in the table may have had as much.
	Missing *Missing `json:"missing,omitempty"`
}

// Change is the change of one group.
type Change struct {
	Key     []string `json:"key"`
	Verdict string   `json:"verdict"` // slower, faster, undecided, only before, only after, cannot tell
	Text    string   `json:"text"`
	// Ratio is the mean after divided by the mean before, with a 95 % confidence interval.
	Ratio *float64 `json:"ratio,omitempty"`
	Low   *float64 `json:"low,omitempty"`
	High  *float64 `json:"high,omitempty"`
	// Before and After are the group's figures on each side, or nil if the side lacks it.
	Before *Group `json:"before,omitempty"`
	After  *Group `json:"after,omitempty"`
}

// sliceCount is the number of slices of each side. It is enough for a variance, and a slice is
// long enough to contain a busy minute.
const sliceCount = 24

// leastSlices is the minimum number of slices with requests for an interval.
const leastSlices = 4

// sliced is the result of one side, for the whole period and by time slice.
type sliced struct {
	whole  *Result
	slices *Result // additionally grouped by slice
	// requestors reports whether the logs have the dimension requestor.
	requestors bool
}

// readSliced reads logs twice: the slices depend on the period, which the first pass determines.
// If a log cannot be read to its end, readSliced returns the result so far, and an error.
func readSliced(ctx context.Context, h *host.Host, paths []string, open func(*source.Set) ([]*logformat.Format, error), o Options) (*sliced, error) {
	requestors := true
	read := func(o Options) (*Result, error) {
		found, err := source.Find(h, paths)
		if err != nil {
			return nil, err
		}
		set := source.NewSet(found)
		formats, err := open(set)
		if err != nil {
			return nil, err
		}
		for _, f := range formats {
			_, err := Named(f, "requestor", nil)
			requestors = requestors && err == nil
		}
		return Read(ctx, set, formats, o)
	}
	whole, cut := read(o)
	if whole == nil || ctx.Err() != nil {
		return nil, cut
	}
	slice := Slice(whole.First, whole.Last, sliceCount)
	o.slice, o.Percentiles, o.Slowest = &slice, false, 0
	o.By = [][]string{o.By[0], {}}
	o.Groups *= sliceCount
	whole.all = whole.Hours.Sum()
	parts, err := read(o)
	if parts == nil || ctx.Err() != nil {
		return nil, err
	}
	return &sliced{whole, parts, requestors}, cut
}

// Compare compares logs before and after a change. Its samples are time slices, not requests:
// requests of a busy minute are slow together, so the interval would be several times too
// narrow. If logs could not be read to their ends, Compare returns a comparison and an error
// that names them.
func Compare(ctx context.Context, h *host.Host, before, after []string, open func(*source.Set) ([]*logformat.Format, error), o Options, sort string, top int) (*Comparison, error) {
	if slices.Contains(slices.Concat(before, after), source.Stdin) {
		return nil, errors.New("a comparison reads its logs twice, and standard input can be read only once")
	}
	o.Percentiles = true
	b, cut := readSliced(ctx, h, before, open, o)
	if b == nil {
		return nil, cut
	}
	a, err := readSliced(ctx, h, after, open, o)
	if a == nil {
		return nil, err
	}
	cut = errors.Join(cut, err)
	c := &Comparison{Schema: "fettle/logs-compare/v1", Before: b.side(), After: a.side(), By: o.By[0], Groups: []Change{}, Slices: sliceCount}
	bAll, aAll := b.sums(1)[""], a.sums(1)[""]
	c.All = change([]string{}, b.all(), a.all(), bAll, aAll)
	bSums, aSums := b.sums(0), a.sums(0)
	for text, g := range pairs(b, a) {
		one := change(key([]byte(text)), g[0], g[1], bSums[text], aSums[text])
		one.doubt("before", one.Before, c.Before.Missing)
		one.doubt("after", one.After, c.After.Missing)
		c.Groups = append(c.Groups, one)
	}
	if c.All.Ratio != nil {
		c.mix(c.Groups)
	}
	slices.SortFunc(c.Groups, func(x, y Change) int {
		return cmp.Or(cmp.Compare(y.weight(sort), x.weight(sort)), slices.Compare(x.Key, y.Key))
	})
	c.Headline = comparedHeadline(c)
	c.where, c.requestors = o.Where, b.requestors && a.requestors
	if top > 0 && len(c.Groups) > top {
		c.More = len(c.Groups) - top
		c.Groups = c.Groups[:top]
	}
	return c, cut
}

// pairs returns the groups of the first grouping before and after, by key. A group is nil if
// the side lacks it.
func pairs(before, after *sliced) map[string][2]*Group {
	all := map[string][2]*Group{}
	for side, s := range []*sliced{before, after} {
		t := s.whole.Tables[0]
		for i := range t.Len() {
			text := string(t.Text(i))
			pair := all[text]
			g := s.whole.group(t, i, key(t.Text(i)), s.whole.span())
			pair[side] = &g
			all[text] = pair
		}
	}
	return all
}

func (s *sliced) side() Side {
	r := s.whole
	return Side{Logs: r.Logs, NotRead: r.NotRead, Copies: r.Copies, Requests: r.Requests, SpanS: r.span(), Unread: r.Unread, LeftOut: r.Left, OtherLines: r.Others, Missing: s.missing()}
}

// missing returns what each group may lack at most, or nil if the groups are complete.
func (s *sliced) missing() *Missing {
	whole, parts := s.whole.Tables[0], s.slices.Tables[0]
	switch {
	case whole.folded():
		return &whole.Missing
	case parts.folded(): // by the length of their keys, or a log that grew; the intervals are of these
		return &Missing{sliceCount * parts.Missing.Requests, sliceCount * parts.Missing.TotalUS}
	}
	return nil
}

// doubt changes the verdict on a group that a side may only seem to lack.
func (c *Change) doubt(side string, g *Group, missing *Missing) {
	if g == nil && missing != nil {
		c.Verdict = "cannot tell"
		c.Text = "cannot tell: " + side + ", it may have had up to " + text.CountPlural(missing.Requests, "request", "requests")
	}
}

func (s *sliced) all() *Group {
	g := s.whole.group(s.whole.all, 0, []string{}, s.whole.span())
	return &g
}

// sums holds, for each slice, a group's timed requests and their total duration in seconds.
type sums struct{ count, total [sliceCount]float64 }

// sums returns the sums of each group of a grouping, by key.
func (s *sliced) sums(grouping int) map[string]*sums {
	out := map[string]*sums{}
	t := s.slices.Tables[grouping]
	for i := range t.Len() {
		text := t.Text(i)
		cut := bytes.LastIndexByte(text, Separator)
		n, err := strconv.Atoi(string(text[cut+1:]))
		if err != nil || n < 0 || n >= sliceCount {
			continue
		}
		name := string(text[:max(cut, 0)])
		one := out[name]
		if one == nil {
			one = &sums{}
			out[name] = one
		}
		one.count[n], one.total[n] = float64(t.At(i).Timed()), float64(t.At(i).Sum)/1e6
	}
	return out
}

// mean returns the mean duration, the variance of its logarithm, and the number of slices with
// requests. The variance is the ratio estimator's, from the differences between slices (W. G.
// Cochran, Sampling Techniques, 3rd edition, 6.3).
func (s *sums) mean() (mean, variance float64, used int) {
	var count, total float64
	for i := range s.count {
		count, total = count+s.count[i], total+s.total[i]
		if s.count[i] > 0 {
			used++
		}
	}
	if count == 0 || total == 0 {
		return 0, math.NaN(), used
	}
	mean = total / count
	for i := range s.count {
		d := s.total[i] - mean*s.count[i]
		variance += d * d
	}
	n := float64(used)
	return mean, variance * n / (n - 1) / (total * total), used
}

// change returns the change of a group. before or after is nil if the side lacks the group.
func change(key []string, before, after *Group, b, a *sums) Change {
	c := Change{Key: key, Before: before, After: after}
	switch {
	case before == nil:
		c.Verdict, c.Text = "only after", "only after"
		return c
	case after == nil:
		c.Verdict, c.Text = "only before", "only before"
		return c
	case b == nil || a == nil || before.MeanS == nil || after.MeanS == nil:
		c.Verdict, c.Text = "cannot tell", "cannot tell: the requests have no durations"
		return c
	}
	bm, bv, bn := b.mean()
	am, av, an := a.mean()
	if bm == 0 || am == 0 {
		c.Verdict, c.Text = "cannot tell", "cannot tell: all durations are 0"
		return c
	}
	ratio := am / bm
	c.Ratio = &ratio
	if bn < leastSlices || an < leastSlices {
		c.Verdict, c.Text = "cannot tell", fmt.Sprintf("cannot tell: %+.1f %%, but the logs cover too short a time", 100*(ratio-1))
		return c
	}
	// Welch's degrees of freedom.
	df := (bv + av) * (bv + av) / (bv*bv/float64(bn-1) + av*av/float64(an-1))
	half := 0.0
	if bv+av > 0 {
		half = stats.StudentQuantile(0.975, df) * math.Sqrt(bv+av)
	}
	low, high := ratio*math.Exp(-half), ratio*math.Exp(half)
	c.Low, c.High = &low, &high
	interval := fmt.Sprintf("[%+.1f, %+.1f]", 100*(low-1), 100*(high-1))
	switch {
	case low > 1:
		c.Verdict, c.Text = "slower", fmt.Sprintf("slower: %+.1f %% %s", 100*(ratio-1), interval)
	case high < 1:
		c.Verdict, c.Text = "faster", fmt.Sprintf("faster: %+.1f %% %s", 100*(ratio-1), interval)
	default:
		c.Verdict, c.Text = "undecided", fmt.Sprintf("undecided: %+.1f %% %s", 100*(ratio-1), interval)
	}
	return c
}

// weight returns the sort key of a change: the larger value of both sides.
func (c *Change) weight(sort string) float64 {
	most := math.Inf(-1)
	for _, g := range []*Group{c.Before, c.After} {
		if g == nil {
			continue
		}
		v := 0.0
		switch sort {
		case "count":
			v = float64(g.Count)
		case "errors":
			v = float64(g.Errors)
		case "mean":
			v = value(g.MeanS)
		case "max":
			v = value(g.MaxS)
		case "total":
			v = g.TotalS
		default:
			v = g.QuantilesS[sort]
		}
		most = max(most, v)
	}
	return most
}

func value(v *float64) float64 {
	if v == nil {
		return -1
	}
	return *v
}

// mix sets MixS and LatencyS. MixS is the change of the mean that remains if every group keeps
// its mean; new groups have their own mean. LatencyS is the rest.
func (c *Comparison) mix(groups []Change) {
	timed := func(g *Group) float64 {
		if g == nil {
			return 0
		}
		return float64(g.Count - uint64(g.Untimed))
	}
	var before, after, was, now float64
	for i := range groups {
		before += timed(groups[i].Before)
		after += timed(groups[i].After)
	}
	if before == 0 || after == 0 {
		return
	}
	for i := range groups {
		b, a := timed(groups[i].Before), timed(groups[i].After)
		mean := 0.0
		switch {
		case b > 0:
			mean = *groups[i].Before.MeanS
		case a > 0:
			mean = *groups[i].After.MeanS
		}
		was += b / before * mean
		now += a / after * mean
	}
	mix := now - was
	latency := *c.All.After.MeanS - *c.All.Before.MeanS - mix
	c.MixS, c.LatencyS = &mix, &latency
}
