package quiet

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
)

// forgets is the time after which a frozen cron no longer starts the jobs that it missed (cron.c of
// Vixie cron and cronie: a clock that jumped). After a shorter time it makes up for every run of a
// job with a fixed minute and hour, and runs other jobs once.
const forgets = 3 * time.Hour

// cronJob is a line of a crontab.
type cronJob struct {
	from, user, command            string
	minute, hour, day, month, week field
	anyDay, anyWeek                bool
}

// field has the values of a time field, one bit each.
type field uint64

func (f field) has(n int) bool { return f&(1<<n) != 0 }

// missedByCron returns the jobs of all crontabs that were due between two times. cron starts them
// itself once it runs again.
func missedByCron(h *host.Host, from, to time.Time) (out []Missed) {
	why := "cron starts it"
	if to.Sub(from) > forgets {
		why = "not started: cron forgets what was due more than 3 hours ago"
	}
	for _, j := range cronJobs(h) {
		if at, due := j.next(from.Local(), to.Local()); due {
			out = append(out, Missed{Job: j.user + ": " + j.command, From: j.from, Due: at.UTC(), Why: why})
		}
	}
	return out
}

// cronJobs reads the crontabs of a machine. It skips lines that it cannot parse, as cron does.
func cronJobs(h *host.Host) (all []cronJob) {
	add := func(file, user string) {
		n := 0
		for line := range strings.Lines(h.File(file).Text) {
			n++
			if j, ok := parseCronLine(line, user); ok {
				j.from = fmt.Sprintf("%s:%d", file, n)
				all = append(all, j)
			}
		}
	}
	add("/etc/crontab", "")
	for dir, user := range map[string]bool{"/etc/cron.d": false, "/var/spool/cron": true, "/var/spool/cron/crontabs": true} {
		entries, _ := h.Files.ReadDir(dir)
		for _, e := range entries {
			owner := ""
			if user {
				owner = e.Name()
			}
			if e.Type().IsRegular() {
				add(path.Join(dir, e.Name()), owner)
			}
		}
	}
	slices.SortFunc(all, func(a, b cronJob) int { return strings.Compare(a.from, b.from) })
	return all
}

// cronWords are the shorthands of crontab(5). @reboot has no time.
var cronWords = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
	"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}

var (
	months = strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")
	days   = strings.Fields("sun mon tue wed thu fri sat")
)

// parseCronLine parses a line of a crontab. user is its owner; if it is "", the line names the user.
func parseCronLine(line, user string) (j cronJob, ok bool) {
	f := strings.Fields(line)
	if len(f) > 0 && cronWords[f[0]] != "" {
		f = append(strings.Fields(cronWords[f[0]]), f[1:]...)
	}
	if user == "" {
		if len(f) < 7 {
			return j, false
		}
		user = f[5]
		f = slices.Delete(f, 5, 6)
	}
	if len(f) < 6 {
		return j, false
	}
	j = cronJob{user: user, command: strings.Join(f[5:], " "), anyDay: f[2][0] == '*', anyWeek: f[4][0] == '*'}
	for i, x := range []struct {
		to          *field
		least, most int
		names       []string
	}{{&j.minute, 0, 59, nil}, {&j.hour, 0, 23, nil}, {&j.day, 1, 31, nil}, {&j.month, 1, 12, months}, {&j.week, 0, 7, days}} {
		if *x.to, ok = parseField(f[i], x.least, x.most, x.names); !ok {
			return j, false
		}
	}
	if j.week.has(7) {
		j.week |= 1 // Sunday is 0 and 7
	}
	return j, true
}

// parseField parses a time field: a list of N, N-M or *, each with an optional step.
func parseField(text string, least, most int, names []string) (f field, ok bool) {
	number := func(word string) (int, bool) {
		if i := slices.Index(names, strings.ToLower(word)); i >= 0 {
			return least + i, true
		}
		n, err := strconv.Atoi(word)
		return n, err == nil && n >= least && n <= most
	}
	for part := range strings.SplitSeq(text, ",") {
		span, by, stepped := strings.Cut(part, "/")
		step := 1
		if stepped {
			var err error
			if step, err = strconv.Atoi(by); err != nil || step < 1 {
				return 0, false
			}
			step = min(step, most+1) // a user may write any number
		}
		from, to := least, most
		if span != "*" {
			a, b, is := strings.Cut(span, "-")
			var okA, okB bool
			from, okA = number(a)
			if to, okB = from, okA; is {
				to, okB = number(b)
			}
			if !okA || !okB || to < from {
				return 0, false
			}
		}
		for n := from; n <= to; n += step {
			f |= 1 << n
		}
	}
	return f, true
}

// next returns the first time after from, and not after to, at which the job is due.
func (j *cronJob) next(from, to time.Time) (time.Time, bool) {
	for at := from.Truncate(time.Minute).Add(time.Minute); !at.After(to); at = at.Add(time.Minute) {
		if j.minute.has(at.Minute()) && j.hour.has(at.Hour()) && j.month.has(int(at.Month())) && j.onDay(at) {
			return at, true
		}
	}
	return time.Time{}, false
}

// onDay reports whether the job is due on a day: if both day fields are restricted, on the days of
// either (crontab(5)).
func (j *cronJob) onDay(at time.Time) bool {
	day, week := j.day.has(at.Day()), j.week.has(int(at.Weekday()))
	if j.anyDay || j.anyWeek {
		return day && week
	}
	return day || week
}
