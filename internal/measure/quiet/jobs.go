package quiet

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// job is a systemd timer with the unit that it starts.
type job struct {
	Timer, Unit string
	// Due is when the timer elapses next; zero if unknown.
	Due time.Time
	// Last is when it elapsed last; zero if never.
	Last time.Time
}

// Services that start jobs, adjust the clock or move interrupts.
var (
	cronUnits  = []string{"cron.service", "crond.service"}
	clockUnits = []string{"chronyd.service", "chrony.service", "systemd-timesyncd.service", "ntpd.service", "ntp.service", "ntpsec.service", "openntpd.service"}
	otherUnits = []string{"irqbalance.service", "atd.service"}
)

// The reasons of the changes to units. The reason for a timer continues with the unit that the
// timer starts and the time when it is due.
const (
	stopped = "stopped for a measurement"
	starts  = stopped + "; starts "
	due     = ", due "
	// paused is the reason for cron. cron is frozen, not stopped: a stopped cron never starts
	// the jobs that were due meanwhile, a frozen cron starts them afterwards.
	paused = "frozen for a measurement"
)

func (j *job) reason() string {
	text := starts + j.Unit
	if !j.Due.IsZero() {
		text += due + j.Due.Format(time.RFC3339)
	}
	return text
}

// units returns the changes to units that must not run during a measurement, and what runs on. It
// sets the jobs.
func (s *State) units(ctx context.Context, h *host.Host) (changes []setting.Change, limits []string) {
	if !host.HasSystemd(h) {
		return nil, withoutSystemd(h)
	}
	active, err := activeServices(ctx, h)
	if err == nil {
		s.jobs, err = timers(ctx, h)
	}
	if err != nil {
		return nil, []string{"timers and services run on: " + err.Error()}
	}
	change := func(unit, aspect, value, why string) {
		changes = append(changes, setting.Change{Setting: setting.Setting{Kind: "unit", Name: unit + "/" + aspect}, Want: setting.Text(value), Reason: setting.Reason{Text: why}})
	}
	s.jobs = slices.DeleteFunc(s.jobs, func(j job) bool {
		// systemd forgets such a unit once it is stopped, so undo could not start it again.
		transient := plugin.Exists(h, "/run/systemd/transient/"+j.Timer)
		if transient {
			limits = append(limits, j.Timer+" of systemd-run runs on, because it would be gone once stopped")
		}
		return transient
	})
	for i := range s.jobs {
		change(s.jobs[i].Timer, "active", "inactive", s.jobs[i].reason())
	}
	for _, unit := range active {
		switch {
		case slices.Contains(cronUnits, unit):
			change(unit, "frozen", "frozen", paused)
		case slices.Contains(otherUnits, unit), s.clock && slices.Contains(clockUnits, unit):
			change(unit, "active", "inactive", stopped)
		case slices.Contains(clockUnits, unit):
			limits = append(limits, unit+" goes on adjusting the clock; it is stopped only while a command runs (fettle quiet -- COMMAND)")
		}
	}
	return changes, limits
}

// withoutSystemd returns the limits of a machine without systemd: what starts jobs there runs on.
func withoutSystemd(h *host.Host) (limits []string) {
	pids, _ := h.PIDs()
	for _, pid := range pids {
		switch name := strings.TrimSpace(h.File(fmt.Sprintf("/proc/%d/comm", pid)).Text); name {
		case "cron", "crond", "atd", "anacron", "chronyd", "ntpd", "irqbalance":
			limits = append(limits, fmt.Sprintf("%s (process %d) runs on: without systemd, fettle does not stop services", name, pid))
		}
	}
	return limits
}

// activeServices lists the running services.
func activeServices(ctx context.Context, h *host.Host) (names []string, err error) {
	out, err := host.Run(ctx, h, "systemctl", "list-units", "--type=service", "--state=active", "--plain", "--no-legend", "--full")
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 0 {
			names = append(names, f[0])
		}
	}
	return names, err
}

// timers lists the active timers of a live machine, the next one first.
func timers(ctx context.Context, h *host.Host) ([]job, error) {
	out, err := host.Run(ctx, h, "systemctl", "list-timers", "--output=json")
	if err != nil {
		return nil, err
	}
	return parseTimers([]byte(out))
}

// parseTimers parses the output of systemctl list-timers. Times are in microseconds; 0 or null is
// unknown or never.
func parseTimers(text []byte) (jobs []job, err error) {
	var rows []struct {
		Next, Last      *uint64
		Unit, Activates string
	}
	if err := json.Unmarshal(text, &rows); err != nil {
		return nil, fmt.Errorf("systemctl list-timers: %w", err)
	}
	at := func(us *uint64) time.Time {
		if us == nil || *us == 0 || *us > 1<<60 {
			return time.Time{}
		}
		return time.UnixMicro(int64(*us)).UTC()
	}
	for _, r := range rows {
		if strings.HasSuffix(r.Unit, ".timer") {
			jobs = append(jobs, job{Timer: r.Unit, Unit: r.Activates, Due: at(r.Next), Last: at(r.Last)})
		}
	}
	return jobs, nil
}

// Missed is a job that was due while its timer was stopped or cron was frozen.
type Missed struct {
	// Job is a unit, or a user and a command. From is its timer, or the line of a crontab.
	Job  string    `json:"job"`
	From string    `json:"from"`
	Due  time.Time `json:"due"`
	// Started reports whether fettle started the job. If not, Why has the reason.
	Started bool   `json:"started"`
	Why     string `json:"why,omitempty"`
}

// StartMissed starts the jobs that were due while the given transactions, which are undone now, had
// stopped their timers, unless the timers have started them. It does not wait for the jobs. It
// returns them together with the jobs that were due while cron was frozen: cron starts those
// itself. After a reboot it does nothing, because timers and cron were started anew.
func StartMissed(ctx context.Context, h *host.Host, state *journal.State, ids []int) (out []Missed) {
	now := h.Clock.Now()
	boot, _ := h.BootID()
	for _, id := range ids {
		t := state.Tx(id)
		if t == nil || t.BootID != boot {
			continue
		}
		for _, en := range t.Entries {
			switch {
			case en.Setting.Kind != "unit":
			case en.Reason.Text == paused:
				out = append(out, missedByCron(h, t.Time, now)...)
			default:
				if j, ok := jobOf(en); ok && !j.Due.IsZero() && !j.Due.After(now) {
					out = append(out, start(ctx, h, j))
				}
			}
		}
	}
	return out
}

// jobOf returns the job whose timer an entry of the journal has stopped.
func jobOf(en *journal.Entry) (j job, ok bool) {
	text, ok := strings.CutPrefix(en.Reason.Text, starts)
	if !ok {
		return j, false
	}
	var when string
	j.Unit, when, _ = strings.Cut(text, due)
	j.Due, _ = time.Parse(time.RFC3339, when)
	j.Timer, ok = strings.CutSuffix(en.Setting.Name, "/active")
	return j, ok
}

// start starts a job that was due, unless its timer has done so.
func start(ctx context.Context, h *host.Host, j job) Missed {
	m := Missed{Job: j.Unit, From: j.Timer, Due: j.Due}
	active, err := timers(ctx, h)
	at := slices.IndexFunc(active, func(a job) bool { return a.Timer == j.Timer })
	switch {
	case err != nil:
		m.Why = err.Error()
	case at < 0:
		m.Why = "not started: its timer was stopped meanwhile"
	case !active[at].Last.Before(j.Due): // with Persistent=, or OnBootSec= in the past
		m.Why = "its timer has started it"
	default:
		if _, err := host.Run(ctx, h, "systemctl", "start", "--no-block", "--", j.Unit); err != nil {
			m.Why = err.Error()
		}
		m.Started = m.Why == ""
	}
	return m
}
