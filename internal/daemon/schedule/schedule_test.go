package schedule

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

const layout = "2006-01-02 15:04:05 -0700"

func moment(t *testing.T, zone, text string) time.Time {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.ParseInLocation("2006-01-02 15:04:05", text, loc)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestLastAndNext(t *testing.T) {
	for _, tc := range []struct{ zone, calendar, now, last, next string }{
		// 2026-11-20 is a Friday.
		{"UTC", "Mon-Fri 08:00", "2026-11-20 09:00:00", "2026-11-20 08:00:00 +0000", "2026-11-23 08:00:00 +0000"},
		{"UTC", "Mon..Fri 08:00", "2026-11-20 08:00:00", "2026-11-20 08:00:00 +0000", "2026-11-23 08:00:00 +0000"},
		{"UTC", "Mon-Fri 08:00", "2026-11-20 07:59:59", "2026-11-19 08:00:00 +0000", "2026-11-20 08:00:00 +0000"},
		{"UTC", "Sat..Mon 22:30", "2026-11-20 09:00:00", "2026-11-16 22:30:00 +0000", "2026-11-21 22:30:00 +0000"},
		{"UTC", "*-*-01 00:00", "2026-11-20 09:00:00", "2026-11-01 00:00:00 +0000", "2026-12-01 00:00:00 +0000"},
		{"UTC", "02-29 12:00", "2026-11-20 09:00:00", "2024-02-29 12:00:00 +0000", "2028-02-29 12:00:00 +0000"},
		{"UTC", "Mon *-02-29", "2026-11-20 09:00:00", "2016-02-29 00:00:00 +0000", "2044-02-29 00:00:00 +0000"},
		{"UTC", "*:0/15", "2026-11-20 09:20:00", "2026-11-20 09:15:00 +0000", "2026-11-20 09:30:00 +0000"},
		{"UTC", "9,17:00", "2026-11-20 09:20:00", "2026-11-20 09:00:00 +0000", "2026-11-20 17:00:00 +0000"},
		{"UTC", "*:*:10..20/5", "2026-11-20 09:20:17", "2026-11-20 09:20:15 +0000", "2026-11-20 09:20:20 +0000"},
		{"UTC", "2030-01-01", "2026-11-20 09:20:17", "", "2030-01-01 00:00:00 +0000"},
		{"UTC", "2020..2022-01-01", "2026-11-20 09:20:17", "2022-01-01 00:00:00 +0000", ""},
		{"UTC", "weekly", "2026-11-20 09:00:00", "2026-11-16 00:00:00 +0000", "2026-11-23 00:00:00 +0000"},
		{"UTC", "quarterly", "2026-11-20 09:00:00", "2026-10-01 00:00:00 +0000", "2027-01-01 00:00:00 +0000"},
		{"Europe/Berlin", "08:00 UTC", "2026-11-20 08:59:00", "2026-11-19 09:00:00 +0100", "2026-11-20 09:00:00 +0100"},
		// In Berlin the clock skipped from 02:00 to 03:00 on 2026-03-29 ...
		{"Europe/Berlin", "02:30", "2026-03-29 01:59:00", "2026-03-28 02:30:00 +0100", "2026-03-29 03:00:00 +0200"},
		{"Europe/Berlin", "02:30", "2026-03-29 03:00:00", "2026-03-29 03:00:00 +0200", "2026-03-30 02:30:00 +0200"},
		{"Europe/Berlin", "08:00", "2026-03-29 12:00:00", "2026-03-29 08:00:00 +0200", "2026-03-30 08:00:00 +0200"},
		// ... and went from 03:00 back to 02:00 on 2026-10-25.
		{"Europe/Berlin", "02:30", "2026-10-25 01:00:00", "2026-10-24 02:30:00 +0200", "2026-10-25 02:30:00 +0200"},
		{"Europe/Berlin", "02:30", "2026-10-25 04:00:00", "2026-10-25 02:30:00 +0200", "2026-10-26 02:30:00 +0100"},
		{"Europe/Berlin", "*:30", "2026-10-25 03:10:00", "2026-10-25 02:30:00 +0200", "2026-10-25 03:30:00 +0100"},
		// Samoa had no 2011-12-30.
		{"Pacific/Apia", "12:00", "2011-12-31 10:00:00", "2011-12-31 00:00:00 +1400", "2011-12-31 12:00:00 +1400"},
	} {
		c, err := ParseCalendar(tc.calendar)
		if err != nil {
			t.Errorf("%s: %v", tc.calendar, err)
			continue
		}
		now := moment(t, tc.zone, tc.now)
		show := func(at time.Time, ok bool) string {
			if !ok {
				return ""
			}
			return at.Format(layout)
		}
		if got := show(c.Last(now)); got != tc.last {
			t.Errorf("%s at %s %s: last %s, want %s", tc.calendar, tc.now, tc.zone, got, tc.last)
		}
		if got := show(c.Next(now)); got != tc.next {
			t.Errorf("%s at %s %s: next %s, want %s", tc.calendar, tc.now, tc.zone, got, tc.next)
		}
	}
}

func TestRefusedCalendars(t *testing.T) {
	for text, want := range map[string]string{
		"":                "empty",
		"Mon-Fry 08:00":   `"Fry" is not a weekday`,
		"25:00":           `hour "25": want a number from 0 to 23`,
		"08:00:00:00":     "want hour:minute",
		"*-13-01":         `month "13"`,
		"*-02-30 00:00":   "no such day",
		"08:00 Mon":       `unknown expression "Mon"`,
		"8":               `unknown expression "8"`,
		"5..1:00":         "ends before it begins",
		"*:0/0":           "want a number from 1 to 59",
		"1-1-1-1":         "want year-month-day",
		"Mon 08:00 09:00": `unknown expression "09:00"`,
		"0x8:00":          "want a number",
	} {
		if _, err := ParseCalendar(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

func TestLastEntryBeforeNowHolds(t *testing.T) {
	entries, err := Parse("schedule", `# office hours
Mon-Fri 08:00 = throughput-performance
Mon-Fri 18:00 = powersave
Sat 10:00 = balanced network-latency
`)
	if err != nil {
		t.Fatal(err)
	}
	for now, want := range map[string]string{
		"2026-11-20 12:00:00": "throughput-performance", // Friday
		"2026-11-20 19:00:00": "powersave",
		"2026-11-21 09:59:59": "powersave",
		"2026-11-22 23:00:00": "balanced network-latency", // Sunday: Saturday's still
		"2026-11-23 07:00:00": "balanced network-latency",
		"2026-11-23 08:00:00": "throughput-performance",
	} {
		e, _, ok := InForce(entries, moment(t, "Europe/Berlin", now))
		if got := strings.Join(e.Profiles, " "); !ok || got != want {
			t.Errorf("at %s: %s, want %s", now, got, want)
		}
	}
	e, at, ok := Next(entries, moment(t, "UTC", "2026-11-20 12:00:00"))
	if !ok || e.Line != 3 || at.Format(layout) != "2026-11-20 18:00:00 +0000" {
		t.Errorf("next: line %d at %v", e.Line, at)
	}
}

func TestFileErrorsNameTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"# x\n08:00 balanced\n": "f:2: want CALENDAR = PROFILE",
		"08:00 = ../evil\n":     "f:1: profile name",
		"08:00 =\n":             "f:1: no profile given",
		"\n\n99:00 = x\n":       "f:3: calendar expression",
	} {
		if _, err := Parse("f", text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestAddAndRemoveKeepTheRest(t *testing.T) {
	e, err := NewEntry("Mon-Fri  08:00", []string{"balanced"})
	if err != nil {
		t.Fatal(err)
	}
	text := Add("# mine\n22:00 = powersave", e)
	if want := "# mine\n22:00 = powersave\nMon-Fri 08:00 = balanced\n"; text != want {
		t.Errorf("add: %q, want %q", text, want)
	}
	if got, want := Remove(text, 2), "# mine\nMon-Fri 08:00 = balanced\n"; got != want {
		t.Errorf("remove: %q, want %q", got, want)
	}
	if entries, err := Parse("f", Add("", e)); err != nil || len(entries) != 1 {
		t.Errorf("a fresh file: %v %v", entries, err)
	}
}

func TestFromCron(t *testing.T) {
	entries, problems := FromCron("crontab", `SHELL=/bin/sh
0 8 * * 1-5 /usr/bin/tuned-adm profile throughput-performance
0 18 * * 1-5 root /usr/sbin/tuned-adm profile powersave >/dev/null 2>&1
*/30 22-23 1,15 jan-mar * tuned-adm profile balanced network-latency
0 0 1 * sun tuned-adm profile balanced
@daily tuned-adm profile balanced
@reboot tuned-adm profile balanced
0 9 * * 6,0 tuned-adm off
5 4 * * * /usr/bin/backup
61 4 * * * tuned-adm profile x
`)
	want := []string{
		"Mon-Fri 08:00 = throughput-performance",
		"Mon-Fri 18:00 = powersave",
		"*-1..3-1,15 22,23:0,30 = balanced network-latency",
		"*-*-01 00:00 = balanced",
		"Sun *-*-* 00:00 = balanced",
		"daily = balanced",
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.String())
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(problems) != 3 || problems[0].Line != 7 || problems[1].Line != 8 || problems[2].Line != 10 {
		t.Errorf("problems %v", problems)
	}
}

func FuzzParseCalendar(f *testing.F) {
	for _, s := range []string{"Mon-Fri 08:00", "*-*-01 00:00", "*:0/15", "weekly", "Sat..Mon 2026-02-29 *:*:* UTC", "02-29"} {
		f.Add(s)
	}
	now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCalendar(text)
		if err != nil {
			return
		}
		again, err := ParseCalendar(c.String())
		if err != nil {
			t.Fatalf("%q reads as %q, which does not read: %v", text, c, err)
		}
		last, ok := c.Last(now)
		if ok && last.After(now) {
			t.Fatalf("%q: last %v is after %v", text, last, now)
		}
		next, has := c.Next(now)
		if has && !next.After(now) {
			t.Fatalf("%q: next %v is not after %v", text, next, now)
		}
		// The next moment is the last one as soon as it has come, and nothing
		// lies between.
		if has {
			if at, ok := again.Last(next); !ok || !at.Equal(next) {
				t.Fatalf("%q: at %v the last moment is %v", text, next, at)
			}
			before, had := c.Last(next.Add(-time.Second))
			if had != ok || had && !before.Equal(last) {
				t.Fatalf("%q: between %v and %v lies %v", text, last, next, before)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("# c\nMon-Fri 08:00 = balanced\n")
	f.Add("=\n08:00=a b")
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := Parse("f", text)
		if err != nil {
			return
		}
		lines := make([]int, len(entries))
		for i, e := range entries {
			lines[i] = e.Line
			if _, err := Parse("f", Add("", e)); err != nil {
				t.Fatalf("entry %q does not read: %v", e, err)
			}
		}
		if left, err := Parse("f", Remove(text, lines...)); err != nil || len(left) != 0 {
			t.Fatalf("after all were removed: %v %v", left, err)
		}
	})
}

func FuzzFromCron(f *testing.F) {
	f.Add("0 8 * * 1-5 /usr/bin/tuned-adm profile x\n")
	f.Add("*/5 1-3,7 1 jan,dec mon-5 root tuned-adm profile a b > /dev/null\n@daily tuned-adm profile z")
	f.Fuzz(func(t *testing.T, text string) {
		entries, _ := FromCron("crontab", text)
		for _, e := range entries {
			if _, err := Parse("f", Add("", e)); err != nil {
				t.Fatalf("%q does not read: %v", e, err)
			}
		}
	})
}
