package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/daemon/schedule"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/why"
	"fettle.dev/fettle/internal/host"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// ScheduleList is the JSON form of fettle schedule list and next.
type ScheduleList struct {
	Schema   string          `json:"schema"` // fettle/schedule/v1
	Headline ui.Headline     `json:"headline"`
	File     string          `json:"file"`
	Entries  []ScheduleEntry `json:"entries"`
}

// ScheduleEntry is one entry of the schedule.
type ScheduleEntry struct {
	Line     int      `json:"line"`
	Calendar string   `json:"calendar"`
	Profiles []string `json:"profiles"`
	// Began is when the entry was last due, and Next when it is due next. Each may be absent.
	Began   *time.Time `json:"began,omitempty"`
	Next    *time.Time `json:"next,omitempty"`
	InForce bool       `json:"in_force"`
}

func scheduleCommand(a *app) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: "schedule", Short: "Switch profiles on a calendar",
		Long: `Switches profiles on a calendar, through fettle's daemon. The entry that began last
applies, also after a reboot or a change of the clock. A profile selected by hand
applies until the next entry begins.

Calendars are as in systemd.time(7): [weekdays] [date] [time], such as "Mon-Fri 08:00",
"*-*-01 00:00", "Sat,Sun", "*:0/30", "daily".`,
		Args: cliutil.KnownVerb,
		RunE: func(c *cobra.Command, _ []string) error { return a.scheduleList(file) },
	}
	c.PersistentFlags().StringVar(&file, "file", schedule.File, "schedule file")
	c.AddCommand(
		a.writes(&cobra.Command{
			Use: "add CALENDAR PROFILE...", Short: "Add an entry: a calendar and the profiles to apply", Args: calendarAndProfiles,
			RunE: func(c *cobra.Command, args []string) error {
				return a.scheduleAdd(c.Context(), file, args[0], args[1:])
			},
		}),
		a.writes(&cobra.Command{
			Use: "remove LINE|CALENDAR", Short: "Remove an entry, by its line or its calendar", Args: cobra.ExactArgs(1),
			RunE: func(c *cobra.Command, args []string) error { return a.scheduleRemove(file, args[0]) },
		}),
		&cobra.Command{
			Use: "list", Short: "List the entries, and show which one applies", Args: cobra.NoArgs,
			RunE: func(c *cobra.Command, _ []string) error { return a.scheduleList(file) },
		},
		&cobra.Command{
			Use: "next", Short: "Show which entry begins next, and when", Args: cobra.NoArgs,
			RunE: func(c *cobra.Command, _ []string) error { return a.scheduleNext(file) },
		},
		a.writes(&cobra.Command{
			Use: "import-cron FILE", Short: "Import the lines of a crontab that call tuned-adm profile", Args: cobra.ExactArgs(1),
			RunE: func(c *cobra.Command, args []string) error {
				return a.scheduleImport(c.Context(), file, args[0])
			},
		}),
	)
	return c
}

// calendarAndProfiles requires both arguments of schedule add. If the only one begins with a
// calendar, the error suggests to put the quotes after it: '22:00 powersave'.
func calendarAndProfiles(c *cobra.Command, args []string) error {
	if len(args) == 1 {
		words := strings.Fields(args[0])
		for n := len(words) - 1; n > 0; n-- {
			calendar := strings.Join(words[:n], " ")
			if _, err := schedule.ParseCalendar(calendar); err == nil {
				return ui.Hinted(ui.Usage, fmt.Errorf("%q is a calendar and more: want the calendar as one argument, then names of profiles (not commands)", args[0]),
					"for example: fettle schedule add "+internaltext.Quote(calendar)+" throughput-performance")
			}
		}
		if _, err := schedule.ParseCalendar(args[0]); err != nil {
			return ui.Hinted(ui.Usage, err, "for example: "+cliutil.Example(c))
		}
	}
	return cobra.MinimumNArgs(2)(c, args)
}

// readSchedule returns the file's text and its entries. For a missing file it returns none.
func readSchedule(h *host.Host, file string) (string, []schedule.Entry, error) {
	text, err := h.Files.ReadFile(file)
	if err != nil && !host.NotFound(err) {
		return "", nil, err
	}
	entries, err := schedule.Parse(file, string(text))
	return string(text), entries, err
}

func (a *app) scheduleList(file string) error {
	h, err := a.host()
	if err != nil {
		return err
	}
	doc, err := scheduleOf(h, file)
	if err != nil {
		return err
	}
	if a.data() {
		return ui.Data(a.screen, doc, ui.Done)
	}
	ui.PrintHeadline(a.screen, &doc.Headline)
	if len(doc.Entries) == 0 {
		return nil
	}
	g := ui.Grid{Columns: []ui.Column{{Head: "line", Right: true}, {}, {Head: "calendar"}, {Head: "next"}, {Head: "began", Optional: true}, {Head: "profiles"}}}
	for _, e := range doc.Entries {
		holds := ""
		if e.InForce {
			holds = "holds"
		}
		g.Rows = append(g.Rows, []string{strconv.Itoa(e.Line), holds, e.Calendar, shortTime(e.Next), shortTime(e.Began), strings.Join(e.Profiles, " ")})
	}
	fmt.Fprintln(a.screen.Out)
	g.Write(a.screen)
	return nil
}

func shortTime(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Format("Mon 2006-01-02 15:04:05")
}

func scheduleOf(h *host.Host, file string) (*ScheduleList, error) {
	_, entries, err := readSchedule(h, file)
	if err != nil {
		return nil, ui.Exit(ui.Failed, err)
	}
	now := h.Clock.Now().Local()
	holds, _, some := schedule.InForce(entries, now)
	doc := &ScheduleList{Schema: "fettle/schedule/v1", File: file, Entries: []ScheduleEntry{}}
	for _, e := range entries {
		s := ScheduleEntry{Line: e.Line, Calendar: e.Calendar.String(), Profiles: e.Profiles, InForce: some && e.Line == holds.Line}
		if at, ok := e.Calendar.Last(now); ok {
			s.Began = &at
		}
		if at, ok := e.Calendar.Next(now); ok {
			s.Next = &at
		}
		doc.Entries = append(doc.Entries, s)
	}
	if len(doc.Entries) == 0 {
		doc.Headline.Line("%s has no entries", file)
		return doc, nil
	}
	holding := "none applies now"
	if some {
		holding = strings.Join(holds.Profiles, " ") + " applies now"
	}
	line := doc.Headline.Value("entries", float64(len(doc.Entries)), internaltext.CountPlural(uint64(len(doc.Entries)), "entry", "entries")) + ": " + holding
	if next, at, ok := schedule.Next(entries, now); ok {
		line += ", " + strings.Join(next.Profiles, " ") + " from " + shortTime(&at)
	}
	doc.Headline.Line("%s", line)
	return doc, nil
}

func (a *app) scheduleNext(file string) error {
	h, err := a.host()
	if err != nil {
		return err
	}
	doc, err := scheduleOf(h, file)
	if err != nil {
		return err
	}
	_, entries, err := readSchedule(h, file)
	if err != nil {
		return err
	}
	next, at, ok := schedule.Next(entries, h.Clock.Now().Local())
	if a.data() {
		all := doc.Entries
		doc.Entries = []ScheduleEntry{}
		for _, e := range all {
			if ok && e.Line == next.Line {
				doc.Entries = append(doc.Entries, e)
			}
		}
		return ui.Data(a.screen, doc, ui.Done)
	}
	ui.PrintHeadline(a.screen, &doc.Headline)
	if !ok {
		return nil
	}
	fmt.Fprintf(a.screen.Out, "%s  %s (%s:%d)\n", shortTime(&at), strings.Join(next.Profiles, " "), file, next.Line)
	return nil
}

// editSchedule changes the schedule file atomically.
func (a *app) editSchedule(file string, edit func(h *host.Host, text string, entries []schedule.Entry) (string, error)) error {
	if err := a.mustBeLive(); err != nil {
		return err
	}
	h, err := a.host()
	if err != nil {
		return err
	}
	text, entries, err := readSchedule(h, file)
	if err != nil {
		return ui.Exit(ui.Failed, err)
	}
	next, err := edit(h, text, entries)
	if err != nil || next == text {
		return err
	}
	attr := host.Attr{Mode: 0o644, UID: os.Geteuid(), GID: os.Getegid()}
	if st, serr := h.Files.Stat(file); serr == nil {
		attr = host.AttrOf(st)
	} else if err = h.Files.Mkdir(path.Dir(file), 0o755); errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err == nil {
		err = h.Files.Replace(file, []byte(next), attr)
	}
	if err == nil {
		a.logFile(h, "schedule", file)
	}
	if errors.Is(err, fs.ErrPermission) {
		return ui.AsRoot(fmt.Errorf("cannot change the schedule: %w", err), "")
	}
	return err
}

func (a *app) scheduleAdd(ctx context.Context, file, calendar string, profiles []string) error {
	e, err := schedule.NewEntry(calendar, profiles)
	if err != nil {
		return ui.OtherWord(err, calendar, "Mon..Fri 08:00")
	}
	if err := a.knownProfiles(ctx, profiles); err != nil {
		return err
	}
	if err := a.editSchedule(file, func(h *host.Host, text string, entries []schedule.Entry) (string, error) {
		for _, has := range entries {
			if has.Calendar.String() == e.Calendar.String() { // two entries would start at the same time
				return "", ui.Hinted(ui.Usage, fmt.Errorf("%s:%d: an entry for this calendar exists: %s", file, has.Line, has), fmt.Sprintf("fettle schedule remove %d removes it", has.Line))
			}
		}
		if a.note != "" {
			text = schedule.Comment(text, fmt.Sprintf("%s (%s, %s)", a.note, a.caller(), h.Clock.Now().Local().Format(why.Stamp)))
		}
		return schedule.Add(text, e), nil
	}); err != nil {
		return err
	}
	return a.announce(file, []schedule.Entry{e}, nil)
}

// announce prints the entries that were added. It returns some, the error about the others.
func (a *app) announce(file string, added []schedule.Entry, some error) error {
	h, err := a.host()
	if err != nil {
		return err
	}
	if a.data() {
		doc, err := scheduleOf(h, file)
		if err != nil {
			return err
		}
		return a.result(doc, some)
	}
	for _, e := range added {
		next := "does not begin again"
		if at, ok := e.Calendar.Next(h.Clock.Now().Local()); ok {
			next = "next " + shortTime(&at)
		}
		fmt.Fprintf(a.screen.Out, "✓ %s: %s\n", e, next)
	}
	return some
}

// knownProfiles returns an error if a profile cannot be loaded. Otherwise the error would
// occur unseen when the calendar selects the profile.
func (a *app) knownProfiles(ctx context.Context, profiles []string) error {
	m, err := a.machine(ctx)
	if err != nil {
		return err
	}
	if _, err = m.Load(ctx, false, profiles...); err != nil || len(a.profileDirs) == 0 {
		return err
	}
	// The daemon has no --profile-dir.
	m.Loader.Dirs = profile.SearchPath(m.Main)
	if _, err = m.Load(ctx, false, profiles...); err != nil {
		return ui.Hinted(ui.Usage, fmt.Errorf("found only in --profile-dir, which fettle's daemon does not search: %w", err), "put the profile below /etc/tuned/profiles")
	}
	return nil
}

func (a *app) scheduleRemove(file, which string) error {
	var removed []schedule.Entry
	err := a.editSchedule(file, func(_ *host.Host, text string, entries []schedule.Entry) (string, error) {
		var lines []int
		for _, e := range entries {
			if strconv.Itoa(e.Line) == which || e.Calendar.String() == strings.Join(strings.Fields(which), " ") {
				lines = append(lines, e.Line)
				removed = append(removed, e)
			}
		}
		if len(lines) == 0 {
			return "", ui.Hinted(ui.Usage, fmt.Errorf("%s: no schedule entry %q", file, which), "fettle schedule list shows the entries")
		}
		return schedule.Remove(text, lines...), nil
	})
	if err != nil {
		return err
	}
	if a.data() {
		return a.announce(file, nil, nil)
	}
	for _, e := range removed {
		fmt.Fprintf(a.screen.Out, "✓ removed: %s\n", e)
	}
	return nil
}
