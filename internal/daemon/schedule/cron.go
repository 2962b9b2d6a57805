package schedule

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/text"
)

// Problem is a line of a crontab that names tuned-adm and cannot be converted.
type Problem struct {
	File string
	Line int
	Text string
}

func (p Problem) String() string { return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text) }

// FromCron converts the lines of a crontab that switch a profile with tuned-adm, and ignores other
// lines. It reads a user's and the system's crontab, which has a user name in each line
// (crontab(5)).
func FromCron(file, text string) ([]Entry, []Problem) {
	var entries []Entry
	var problems []Problem
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || !strings.Contains(line, "tuned-adm") {
			continue
		}
		found, err := cronLine(line)
		if err != nil {
			problems = append(problems, Problem{file, n, err.Error()})
			continue
		}
		for _, e := range found {
			e.Line = n
			entries = append(entries, e)
		}
	}
	return entries, problems
}

// cronWords maps the shorthands of crontab(5) to calendars.
var cronWords = map[string]string{
	"@hourly": "hourly", "@daily": "daily", "@midnight": "daily", "@weekly": "Sun 00:00",
	"@monthly": "monthly", "@yearly": "yearly", "@annually": "yearly",
}

func cronLine(line string) ([]Entry, error) {
	f := strings.Fields(line)
	var calendars []string
	var command []string
	if f[0][0] == '@' {
		c, ok := cronWords[f[0]]
		if !ok {
			return nil, fmt.Errorf("%s has no calendar equivalent; fettle's unit applies the active profile at boot", f[0])
		}
		calendars, command = []string{c}, f[1:]
	} else {
		if len(f) < 6 {
			return nil, fmt.Errorf("want five time fields and a command")
		}
		var err error
		if calendars, err = cronTimes(f[:5]); err != nil {
			return nil, err
		}
		command = f[5:]
	}
	if len(command) > 1 && path.Base(command[0]) != "tuned-adm" {
		command = command[1:] // the user of a system crontab
	}
	names, err := cronProfiles(command)
	if err != nil {
		return nil, err
	}
	var out []Entry
	for _, c := range calendars {
		e, err := NewEntry(c, names)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// cronProfiles returns the profiles in a command such as "tuned-adm profile A B >/dev/null 2>&1".
func cronProfiles(command []string) ([]string, error) {
	if len(command) < 3 || path.Base(command[0]) != "tuned-adm" || command[1] != "profile" {
		return nil, fmt.Errorf("%q: only \"tuned-adm profile NAME...\" can be imported", text.Truncate(strings.Join(command, " "), 60))
	}
	var names []string
	for _, w := range command[2:] {
		if strings.ContainsAny(w, "<>") {
			break // the rest redirects the output
		}
		names = append(names, w)
	}
	return names, nil
}

var (
	cronMonths = []string{"", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
	cronDays   = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
)

// cronTimes converts minute, hour, day of month, month and day of week to calendars. It returns
// two if both kinds of day are restricted, because cron then runs on either.
func cronTimes(f []string) ([]string, error) {
	fields := make([]string, 5)
	limits := []struct {
		name      string
		low, high int
		words     []string
	}{
		{"minute", 0, 59, nil}, {"hour", 0, 23, nil}, {"day of month", 1, 31, nil}, {"month", 1, 12, cronMonths}, {"day of week", 0, 7, cronDays},
	}
	for i, l := range limits {
		set, err := cronSet(f[i], l.low, l.high, l.words)
		if err != nil {
			return nil, fmt.Errorf("%s %w", l.name, err)
		}
		if i == 4 {
			fields[i] = cronWeekdays(set)
			continue
		}
		fields[i] = list(set, l.low, l.high)
	}
	clock := pad(fields[1]) + ":" + pad(fields[0])
	date := "*-" + pad(fields[3]) + "-" + pad(fields[2])
	anyDate, anyWeekday := strings.HasPrefix(f[2], "*"), strings.HasPrefix(f[4], "*")
	if !anyDate && !anyWeekday {
		return []string{
			date + " " + clock,
			strings.TrimSpace(fields[4] + " *-" + pad(fields[3]) + "-* " + clock),
		}, nil
	}
	if date == "*-*-*" {
		return []string{strings.TrimSpace(fields[4] + " " + clock)}, nil
	}
	return []string{strings.TrimSpace(fields[4] + " " + date + " " + clock)}, nil
}

// cronSet parses "*", "5", "1-5", "*/15", "mon-fri" and lists of them.
func cronSet(text string, low, high int, words []string) (uint64, error) {
	value := func(s string) (int, error) {
		for i, w := range words {
			if w != "" && strings.EqualFold(s, w) {
				return i, nil
			}
		}
		return number(s, low, high)
	}
	var set uint64
	for item := range strings.SplitSeq(text, ",") {
		body, stepText, stepped := strings.Cut(item, "/")
		from, to, step := low, high, 1
		var err error
		if stepped {
			if step, err = number(stepText, 1, high); err != nil {
				return 0, err
			}
		}
		if body != "*" {
			a, b, ranged := strings.Cut(body, "-")
			if from, err = value(a); err != nil {
				return 0, err
			}
			switch {
			case ranged:
				if to, err = value(b); err != nil {
					return 0, err
				}
			case !stepped:
				to = from
			}
		}
		if to < from {
			return 0, fmt.Errorf("%q ends before it begins", body)
		}
		for n := from; n <= to; n += step {
			set |= 1 << n
		}
	}
	return set, nil
}

// list formats a set as a calendar field.
func list(set uint64, low, high int) string {
	if set == ones(low, high) {
		return "*"
	}
	var items []string
	for n := low; n <= high; n++ {
		if set&(1<<n) == 0 {
			continue
		}
		end := n
		for end < high && set&(1<<(end+1)) != 0 {
			end++
		}
		if end > n+1 {
			items = append(items, strconv.Itoa(n)+".."+strconv.Itoa(end))
		} else {
			items = append(items, strconv.Itoa(n))
			end = n
		}
		n = end
	}
	return strings.Join(items, ",")
}

func cronWeekdays(set uint64) string {
	set = (set | set>>7) & ones(0, 6) // 7 is Sunday too
	if set == ones(0, 6) {
		return ""
	}
	var items []string
	for i := 1; i <= 7; i++ { // a week starting on Monday
		d := i % 7
		if set&(1<<d) == 0 {
			continue
		}
		end := i
		for end < 7 && set&(1<<((end+1)%7)) != 0 {
			end++
		}
		name := title(weekdayNames[d][:3])
		if end > i {
			name += "-" + title(weekdayNames[end%7][:3])
		}
		items = append(items, name)
		i = end
	}
	return strings.Join(items, ",")
}

func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// pad formats a single number with two digits, as clocks do.
func pad(s string) string {
	if n, err := strconv.Atoi(s); err == nil {
		return fmt.Sprintf("%02d", n)
	}
	return s
}
