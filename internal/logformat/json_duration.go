package logformat

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Words in the names of members that are durations of requests: one of soleWords, or time with
// one of timeWords. Any other word excludes the member: upstream_response_time measures
// another program, queue_time only a part.
var (
	durationWords = []string{"duration", "request", "latency", "response", "elapsed", "took", "taken", "runtime", "time"}
	soleWords     = []string{"duration", "latency", "elapsed", "took", "taken", "runtime"}
	timeWords     = []string{"request", "response", "processing", "process", "total", "execution", "handling", "resp"}
	ignoredWords  = []string{"http", "req", "res", "server", "in", "the", "exec"}
)

// namedDuration reports whether a member's name is that of a request duration. unit is the
// unit in the name, in nanoseconds, or 0. rank orders names by how specific they are, the most
// specific first.
func namedDuration(member string) (unit int64, rank int, ok bool) {
	rank = len(durationWords)
	single, time, what := false, false, false
	all := nameWords(member)
	for i, w := range all {
		u, isUnit := unitWords[w]
		switch at := slices.Index(durationWords, w); {
		case isUnit && i > 0 && i == len(all)-1:
			unit = u
		case at >= 0 || slices.Contains(timeWords, w):
			single = single || slices.Contains(soleWords, w)
			time = time || w == "time"
			what = what || slices.Contains(timeWords, w)
			if at >= 0 {
				rank = min(rank, at)
			}
		case !slices.Contains(ignoredWords, w):
			return 0, 0, false
		}
	}
	return unit, rank, single || time && what
}

// isDuration reports whether a value is a non-negative number or has a unit of time.
func isDuration(value string) bool {
	if strings.HasPrefix(value, "-") {
		return true // means absent, such as HAProxy's -1
	}
	_, ok := parseDecimal([]byte(value))
	return ok || hasUnit(value)
}

func hasUnit(value string) bool {
	_, ok := ownUnit([]byte(value))
	return ok
}

// durationMember is a member that is a duration.
type durationMember struct {
	member string
	unit   int64 // 0 if each value has its own unit
	rank   int
}

// durations returns the members that are request durations, the most specific first, and the
// members whose unit is unknown.
func (s *sample) durations(p *jsonProduct) (known, unknown []durationMember) {
	for _, member := range s.list() {
		values := s.members[member]
		own := p != nil && p.duration == member
		unit, rank, ok := namedDuration(member)
		if !own && !ok || share(values, isDuration) < nearlyAll {
			continue
		}
		d := durationMember{member, unit, rank}
		switch {
		case share(values, hasUnit) >= nearlyAll:
			d.unit = 0
			known = append(known, d)
		case own && p.writes(values):
			d.unit, d.rank = p.unit, -1
			known = append(known, d)
		case own || unit == 0:
			unknown = append(unknown, d)
		default:
			known = append(known, d)
		}
	}
	byRank := func(a, b durationMember) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.member, b.member))
	}
	slices.SortStableFunc(known, byRank)
	slices.SortStableFunc(unknown, byRank)
	return known, unknown
}

// duration selects the member for the duration. units has the member that the user specified,
// if any.
func (b *jsonBuilder) duration(units map[string]int64) {
	for member, unit := range units {
		b.add(Field{Name: FieldDuration, Kind: Duration, Unit: unit, Lenient: true}, member)
		return
	}
	known, unknown := b.durations(b.product)
	if len(known) == 0 {
		if len(unknown) > 0 {
			b.f.UnitUnknown = unknown[0].member
		}
		return
	}
	d := known[0]
	b.add(Field{Name: FieldDuration, Kind: Duration, Unit: d.unit, Lenient: true}, d.member)
	if b.product == nil || d.rank >= 0 {
		for _, other := range known[1:] {
			if b.membersDiffer(d.member, other.member) && !(d.unit != other.unit && d.unit != 0 && other.unit != 0) {
				b.guess("%q is the duration, not %q", d.member, other.member)
				return
			}
		}
	}
}

// time selects the member for the time: preferably the start of the request. Otherwise it is
// the time at which the line was written, minus the duration.
func (b *jsonBuilder) time() {
	var begin, end []string
	if b.product != nil {
		begin, end = b.product.begin, b.product.end
	}
	if slices.ContainsFunc(begin, b.tryTime) {
		return
	}
	if slices.ContainsFunc(end, b.tryTime) {
		b.f.TimeIsEnd = true
		return
	}
	for _, name := range beginNames {
		if slices.ContainsFunc(b.byName(name), b.tryTime) {
			return
		}
	}
	var first string
	for _, name := range timeNames {
		for _, member := range b.byName(name) {
			switch {
			case first != "":
				if _, _, ok := layoutOf(b.members[member]); ok && b.membersDiffer(first, member) {
					b.guess("%q is the time, not %q", first, member)
					return
				}
			case b.tryTime(member):
				first = member
				if b.f.Field(FieldDuration) >= 0 {
					b.f.TimeIsEnd = true
					b.guess("%q is when the line was written, after the answer", member)
				}
			}
		}
	}
	if first == "" {
		b.dateAndTime()
	}
}

// Normalized names of members with the time of the request, and with the time at which the
// line was written.
var (
	beginNames = []string{"start_time", "started_at", "start_utc", "start_local", "request_start", "start", "start_timestamp", "time_start", "begin", "received_at", "request_time"}
	timeNames  = []string{"time", "timestamp", "ts", "msec", "time_iso_8601", "time_iso8601", "time_local", "datetime", "date_time", "date", "asctime", "log_time"}
)

// tryTime assigns the time to a member if its values are times. It reports whether it did.
func (b *jsonBuilder) tryTime(member string) bool {
	if b.used[member] {
		return false
	}
	f, noZone, ok := layoutOf(b.members[member])
	if !ok {
		return false
	}
	b.add(f, member)
	b.f.NoZone = noZone
	return true
}

// dateAndTime assigns the time to two members with date and time of day.
func (b *jsonBuilder) dateAndTime() {
	find := func(fits func(string) bool, names ...string) string {
		for _, name := range names {
			for _, member := range b.byName(name) {
				if !b.used[member] && share(b.members[member], fits) >= nearlyAll {
					return member
				}
			}
		}
		return ""
	}
	date, clock := find(isDate, "date", "day", "log_date"), find(isClock, "time", "time_of_day", "log_time")
	if date == "" || clock == "" {
		return
	}
	b.used[date], b.used[clock] = true, true
	b.f.Fields = append(b.f.Fields, Field{Name: FieldTime, Kind: Time, Layout: DateAndTime, Source: date + " and " + clock})
	at := len(b.f.Fields) - 1
	b.k.add(date, at)
	b.k.pair = at
	b.k.add(clock, at)
	for _, v := range b.members[clock] {
		b.f.NoZone = !zoned("2026-01-01T" + v)
	}
	if b.f.Field(FieldDuration) >= 0 {
		b.f.TimeIsEnd = true
		b.guess("%q is when the line was written, after the answer", clock)
	}
}

// guess records an unproven assumption about the format.
func (b *jsonBuilder) guess(format string, args ...any) {
	b.guesses = append(b.guesses, fmt.Sprintf(format, args...))
}
