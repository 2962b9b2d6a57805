package schedule

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/profile"
)

// File is the path of a machine's schedule.
const File = "/etc/fettle/schedule"

// Entry is one line of the schedule file. Its profiles are in force from each time of its calendar
// until another entry begins.
type Entry struct {
	Calendar Calendar
	Profiles []string
	Line     int // line number in the file, from 1
}

func (e Entry) String() string { return e.Calendar.String() + " = " + strings.Join(e.Profiles, " ") }

// NewEntry makes an entry from a calendar expression and profiles. It returns an error if either
// is invalid.
func NewEntry(calendar string, profiles []string) (Entry, error) {
	c, err := ParseCalendar(calendar)
	if err != nil {
		return Entry{}, err
	}
	if len(profiles) == 0 {
		return Entry{}, fmt.Errorf("no profile given for %q", c)
	}
	for _, p := range profiles {
		if !profile.ValidName(p) {
			return Entry{}, fmt.Errorf("profile name %q: want only letters, digits, \"_\", \".\" and \"-\"", p)
		}
	}
	return Entry{Calendar: c, Profiles: profiles}, nil
}

// Parse parses a schedule: one CALENDAR = PROFILE... per line; comments begin with #.
func Parse(file, text string) ([]Entry, error) {
	var out []Entry
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		calendar, names, found := strings.Cut(line, "=")
		if !found {
			return nil, fmt.Errorf("%s:%d: want CALENDAR = PROFILE..., such as \"Mon-Fri 08:00 = throughput-performance\"", file, n)
		}
		e, err := NewEntry(calendar, strings.Fields(names))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
		e.Line = n
		out = append(out, e)
	}
	return out, nil
}

// Header is the top of a file that fettle creates.
const Header = `# Profiles by time: CALENDAR = PROFILE..., with calendars as in systemd.time(7).
# The last entry before now applies. fettle schedule edits this file.
`

// Comment appends a comment line to the text of a file.
func Comment(text, comment string) string {
	if text == "" {
		text = Header
	} else if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + "# " + strings.Join(strings.Fields(comment), " ") + "\n"
}

// Add appends an entry to the text of a file.
func Add(text string, e Entry) string {
	switch {
	case text == "":
		text = Header
	case !strings.HasSuffix(text, "\n"):
		text += "\n"
	}
	return text + e.String() + "\n"
}

// Remove removes the given lines from the text of a file; all else stays unchanged.
func Remove(text string, lines ...int) string {
	var out strings.Builder
	n := 0
	for line := range strings.Lines(text) {
		n++
		if !slices.Contains(lines, n) {
			out.WriteString(line)
		}
	}
	return out.String()
}

// InForce returns the entry in force at a time, and since when. That is the entry with the latest
// calendar time; among entries with the same time, the last line. ok is false if no entry has
// begun.
func InForce(entries []Entry, now time.Time) (e Entry, since time.Time, ok bool) {
	for _, c := range entries {
		if at, has := c.Calendar.Last(now); has && (!ok || !at.Before(since)) {
			e, since, ok = c, at, true
		}
	}
	return e, since, ok
}

// Next returns the entry that begins next, and when.
func Next(entries []Entry, now time.Time) (e Entry, at time.Time, ok bool) {
	for _, c := range entries {
		if t, has := c.Calendar.Next(now); has && (!ok || !t.After(at)) {
			e, at, ok = c, t, true
		}
	}
	return e, at, ok
}
