package cli

import (
	"errors"
	"slices"
	"testing"
	"time"
	_ "time/tzdata"

	"fettle.dev/fettle/internal/ui"
)

// The window follows the local clock, also where that goes forward over its begin and
// where an hour comes twice.
func TestWindow(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		window, now string
		in          bool
		opens       string // where it is not in
	}{
		{"22:00-04:00", "2026-11-27T22:00:00+01:00", true, ""},
		{"22:00-04:00", "2026-11-27T21:59:59+01:00", false, "2026-11-27T22:00:00+01:00"},
		{"22:00-04:00", "2026-11-28T03:59:59+01:00", true, ""},
		{"22:00-04:00", "2026-11-28T04:00:00+01:00", false, "2026-11-28T22:00:00+01:00"},
		{"09:00-17:00", "2026-11-28T17:00:00+01:00", false, "2026-11-29T09:00:00+01:00"},
		{"0:00-24:00", "2026-11-28T23:59:59+01:00", true, ""},
		{"20:00-24:00", "2026-11-28T00:00:00+01:00", false, "2026-11-28T20:00:00+01:00"},
		// 02:00 to 03:00 does not exist on 2027-03-28.
		{"02:30-03:30", "2027-03-28T01:59:59+01:00", false, "2027-03-28T03:00:00+02:00"},
		{"02:00-03:00", "2027-03-28T01:59:59+01:00", false, "2027-03-29T02:00:00+02:00"},
		// 02:00 to 03:00 comes twice on 2026-10-25.
		{"02:00-03:00", "2026-10-25T02:30:00+02:00", true, ""},
		{"02:00-03:00", "2026-10-25T02:30:00+01:00", true, ""},
		{"02:00-03:00", "2026-10-25T03:00:00+01:00", false, "2026-10-26T02:00:00+01:00"},
	} {
		w, err := parseWindow(c.window)
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		at = at.In(berlin)
		if got := w.contains(at); got != c.in {
			t.Errorf("%s at %s: %v", c.window, c.now, got)
		}
		if got := w.opens(at).Format(time.RFC3339); !c.in && got != c.opens {
			t.Errorf("%s at %s opens %s, want %s", c.window, c.now, got, c.opens)
		}
	}
	for _, bad := range []string{"", "22:00", "22-04", "24:00-04:00", "22:60-04:00", "22:00-24:01", "04:00-04:00", "a22:00-04:00", "22:00-04:00 "} {
		if w, err := parseWindow(bad); err == nil {
			t.Errorf("%q is %v", bad, w)
		}
	}
}

// A trial that would be taken back after the window ends is refused.
func TestTrialEndsInWindow(t *testing.T) {
	for _, c := range []struct {
		window, now string
		try         time.Duration
		refused     string // what the command that works has
	}{
		{"22:00-04:00", "03:58:30", time.Minute, ""},
		{"22:00-04:00", "03:59:00", time.Minute, ""},
		{"22:00-04:00", "03:59:30", time.Minute, "--try=30s"},
		{"22:00-04:00", "22:00:00", 24 * time.Hour, "--try=6h0m0s"},
		{"00:00-24:00", "12:00:00", 24 * time.Hour, ""},
		{"", "12:00:00", time.Hour, ""},
		{"09:00-10:00", "09:30:00", 0, ""},
	} {
		now, err := time.ParseInLocation("2006-01-02 15:04:05", "2026-11-27 "+c.now, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		err = (&app{window: c.window}).endsInWindow(now, c.try)
		var refusal *ui.Error
		if errors.As(err, &refusal) != (c.refused != "") || c.refused != "" && (refusal.Code != ui.Refused || !slices.Contains(refusal.Remedy.Instead, c.refused)) {
			t.Errorf("%s at %s, --try %s: %v, want %q", c.window, c.now, c.try, err, c.refused)
		}
	}
}
