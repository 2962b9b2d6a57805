package cli

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// window is a daily range of local time in minutes since midnight: from <= t < to. It spans
// midnight if to is not after from.
type window struct{ from, to int }

var windowForm = internaltext.LazyRegexp(`^([01]?[0-9]|2[0-4]):([0-5][0-9])-([01]?[0-9]|2[0-4]):([0-5][0-9])$`)

// parseWindow parses HH:MM-HH:MM.
func parseWindow(text string) (window, error) {
	m := windowForm().FindStringSubmatch(text)
	if m == nil {
		return window{}, fmt.Errorf("%q: want HH:MM-HH:MM, such as 22:00-04:00", text)
	}
	var n [4]int
	for i := range n {
		n[i], _ = strconv.Atoi(m[i+1]) // digits only
	}
	w := window{60*n[0] + n[1], 60*n[2] + n[3]}
	if w.from >= 24*60 || w.to > 24*60 {
		return window{}, fmt.Errorf("%q: want times from 00:00 to 24:00", text)
	}
	if w.from == w.to {
		return window{}, fmt.Errorf("%q: begin and end are equal", text)
	}
	return w, nil
}

// contains reports whether a local time is in the window. When clocks are set back, the
// repeated hour counts both times.
func (w window) contains(local time.Time) bool {
	m := 60*local.Hour() + local.Minute()
	if w.from < w.to {
		return w.from <= m && m < w.to
	}
	return w.from <= m || m < w.to
}

// opens returns the next minute in the window. Clocks may be set forward over the window's start.
func (w window) opens(local time.Time) time.Time {
	at := local.Truncate(time.Minute)
	for range 50 * 60 {
		if at = at.Add(time.Minute); w.contains(at) {
			return at
		}
	}
	return at // unreachable: a day has at most 25 hours
}

// inWindow returns an error if the current time is outside --window.
func (a *app) inWindow() error {
	if a.window == "" {
		return nil
	}
	w, err := parseWindow(a.window)
	if err != nil { // prove also accepts other forms
		return ui.Instead(ui.Usage, fmt.Errorf("--window %w", err), "", "--window=22:00-04:00")
	}
	now := a.live().Clock.Now().Local()
	if w.contains(now) {
		return nil
	}
	at := w.opens(now)
	const form = "2006-01-02 15:04 MST (UTC-07:00)"
	text := fmt.Sprintf("it is %s, outside --window %s; the window opens at %s", now.Format(form), a.window, at.Format(form))
	if _, before := now.Zone(); before != offset(at) {
		text += "; the clocks change before that"
	}
	return ui.Hinted(ui.Refused, errors.New(text+"; nothing changed"),
		fmt.Sprintf("systemd-run --same-dir --on-calendar='%s' -- %s", at.UTC().Format("2006-01-02 15:04:05 UTC"), a.command))
}

// closes returns the next minute outside the window, or the zero time if it never closes.
func (w window) closes(local time.Time) time.Time {
	at := local.Truncate(time.Minute)
	for range 25 * 60 {
		if at = at.Add(time.Minute); !w.contains(at) {
			return at
		}
	}
	return time.Time{}
}

// endsInWindow returns an error if a trial would end outside --window. The end of a trial
// changes the machine too.
func (a *app) endsInWindow(now time.Time, try time.Duration) error {
	w, err := parseWindow(a.window)
	if a.window == "" || err != nil || try == 0 {
		return nil // inWindow has reported it
	}
	end := w.closes(now)
	if end.IsZero() || !now.Add(try).After(end) {
		return nil
	}
	err = fmt.Errorf("--try %s would restore the machine at %s, after --window %s has ended; nothing changed", try, now.Add(try).Format("15:04:05"), a.window)
	if left := end.Sub(now).Truncate(time.Second); left >= time.Second {
		return ui.Instead(ui.Refused, err, "", "--try="+left.String())
	}
	return ui.Hinted(ui.Refused, err, fmt.Sprintf("systemd-run --same-dir --on-calendar='%s' -- %s", w.opens(end).UTC().Format("2006-01-02 15:04:05 UTC"), a.command))
}

func offset(t time.Time) int {
	_, seconds := t.Zone()
	return seconds
}

// bothWindows is the value of prove --window. A duration is the length of a window of --live.
// HH:MM-HH:MM are the hours in which the machine may be changed, as with other verbs.
type bothWindows struct {
	app *app
	o   *proveOptions
}

func (b *bothWindows) String() string {
	if b.o == nil {
		return ""
	}
	return b.o.Window.String()
}

func (b *bothWindows) Type() string { return "duration" }

// Set implements pflag.Value.
func (b *bothWindows) Set(text string) (err error) {
	if windowForm().MatchString(text) {
		b.app.window = text
		return nil
	}
	b.o.windowed = true
	b.o.Window, err = time.ParseDuration(text)
	return err
}
