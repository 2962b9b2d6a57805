package logs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Merge adds the result of other logs. The sum is exact, as if all logs had been read
// together. Both results must have the same groupings and no reading in common.
func (r *Result) Merge(o *Result) error {
	if fmt.Sprint(r.By) != fmt.Sprint(o.By) {
		return fmt.Errorf("the parts are grouped differently: by %s and by %s", groupings(r.By), groupings(o.By))
	}
	if r.Hours.Percentiles != o.Hours.Percentiles {
		return fmt.Errorf("only one of the parts has percentiles by hour; save both with the same options")
	}
	if r.Where != o.Where {
		return fmt.Errorf("this part contains %s, the earlier parts %s; different selections cannot be added", o.which(), r.which())
	}
	if r.timeless() != o.timeless() {
		return fmt.Errorf("logs with and without timestamps cannot be merged")
	}
	mine := r.readings()
	for _, id := range o.readings() {
		if slices.Contains(mine, id) {
			return fmt.Errorf("this part is already merged: its requests would count twice")
		}
	}
	r.IDs = append(mine, o.readings()...)
	r.Logs = append(r.Logs, o.Logs...)
	r.NotRead = append(r.NotRead, o.NotRead...)
	r.Copies = append(r.Copies, o.Copies...)
	r.Most = max(r.Most, o.Most)
	r.add(o)
	return nil
}

// Join adds the result of the pieces that follow those of r in the same logs. The sum is exact, as
// if one process had read all pieces: it has the logs, and each line, once.
func (r *Result) Join(o *Result) error {
	if len(r.Lines) != len(r.Logs) || len(o.Lines) != len(r.Logs) {
		return fmt.Errorf("results of %d and %d logs; only pieces of the same logs can be joined", len(r.Lines), len(o.Lines))
	}
	for i := range r.Logs {
		mine, its := &r.Logs[i], o.Logs[i]
		its.Cut, its.ZeroBytes = mine.Cut, mine.ZeroBytes
		if *mine != its {
			return fmt.Errorf("%s was read as %s and as %s; it changed while it was read, or the processes are of different versions", mine.Path, mine.Format, its.Format)
		}
	}
	for k := range o.Unread.Examples {
		e := &o.Unread.Examples[k]
		e.Line += r.Lines[slices.IndexFunc(r.Logs, func(l LogRead) bool { return l.Path == e.Path })]
	}
	for i := range r.Logs {
		r.Logs[i].ZeroBytes += o.Logs[i].ZeroBytes
		r.Logs[i].Cut = cmp.Or(r.Logs[i].Cut, o.Logs[i].Cut)
		r.Lines[i] += o.Lines[i]
	}
	r.add(o)
	return nil
}

// Complete marks a result to which all pieces were joined as the result of whole logs.
func (r *Result) Complete() { r.Lines, r.merged = nil, false }

// Folded returns the first grouping that did not keep all of its groups (Options.Groups), or nil.
// Which groups are kept then depends on the order in which the requests were read.
func (r *Result) Folded() []string {
	for i, t := range r.Tables {
		if t.folded() {
			return r.By[i]
		}
	}
	if r.Hours.folded() {
		return []string{"hour"}
	}
	return nil
}

// which describes which requests were selected.
func (r *Result) which() string {
	if r.Where == "" {
		return "all requests"
	}
	return fmt.Sprintf("requests with --where %q", r.Where)
}

// add adds the result of other requests from the same logs.
func (r *Result) add(o *Result) {
	for t := range r.Tables {
		r.Tables[t].Merge(o.Tables[t])
	}
	r.Hours.Merge(o.Hours)
	for _, one := range o.Slowest {
		r.slow(one)
	}
	r.Requests += o.Requests
	r.Left += o.Left
	r.Others += o.Others
	r.Unended += o.Unended
	r.Unbegun += o.Unbegun
	r.Unread.Lines += o.Unread.Lines
	r.Unread.TooLong += o.Unread.TooLong
	r.Unread.Examples = append(r.Unread.Examples, o.Unread.Examples...)
	if r.Unread.LooksLike == "" {
		r.Unread.LooksLike, r.Unread.Format, r.Unread.ReadWith = o.Unread.LooksLike, o.Unread.Format, o.Unread.ReadWith
	}
	r.Unread.first()
	r.timeline.merge(&o.timeline)
	if r.slots != nil && o.slots != nil {
		r.slots.merge(o.slots)
	} else {
		r.slots = nil // slots cover only one part
	}
	r.First, r.Last = min(r.First, o.First), max(r.Last, o.Last)
}

// first keeps the first examples, ordered by path and line.
func (u *UnreadLines) first() {
	slices.SortFunc(u.Examples, func(a, b UnreadLine) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
	})
	u.Examples = u.Examples[:min(len(u.Examples), mostExamples)]
}

// slow adds a request to the slowest requests if it belongs to them.
func (r *Result) slow(one SlowLine) {
	at, _ := slices.BinarySearchFunc(r.Slowest, one, func(a, b SlowLine) int {
		return cmp.Or(cmp.Compare(b.TookS, a.TookS), a.Time.Compare(b.Time), cmp.Compare(a.Line, b.Line))
	})
	r.Slowest = slices.Insert(r.Slowest, at, one)
	r.Slowest = r.Slowest[:min(len(r.Slowest), r.Most)]
}

// groupings writes groupings as --by takes them: "status, method,path".
func groupings(by [][]string) string {
	var all []string
	for _, dims := range by {
		all = append(all, strings.Join(dims, ","))
	}
	return strings.Join(all, ", ")
}
