// Package quiet brings a machine into a state in which measurements repeat. In: a machine and the
// CPUs to measure on. Out: a plan of values for tune.Engine, the reasons why the machine is noisy,
// and how evenly its CPUs work. Used by fettle quiet; package experiment applies the plan while a
// command runs.
package quiet

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
)

// files has the profile with the values of the quiet state.
//
//go:embed quiet/tuned.conf
var files embed.FS

// file is the path of the profile in the journal.
const file = profile.BuiltinDir + "/quiet/tuned.conf"

// Standing returns the transaction of a quiet state that is in force until fettle undo, or 0.
func Standing(h *host.Host, state *journal.State) int {
	boot, _ := h.BootID()
	for _, t := range slices.Backward(state.Live()) {
		if t.Commit != nil && t.Try == nil && t.BootID == boot && slices.ContainsFunc(t.Entries, func(en *journal.Entry) bool {
			return en.Reason.File == file || en.Reason.Text == stopped || en.Reason.Text == paused || strings.HasPrefix(en.Reason.Text, starts)
		}) {
			return t.ID
		}
	}
	return 0
}

// Options select the state.
type Options struct {
	// CPUs is the list of the CPUs to measure on; "" for all but the first core.
	CPUs string
	// Clock also stops the adjustment of the clock, which must not stop for long.
	Clock bool
}

// State is the quiet state of one machine.
type State struct {
	CPUs
	// Limits are the sources of noise that this machine does not let fettle control.
	Limits []string

	profile *profile.Profile
	clock   bool
	jobs    []job // systemd timers, which are stopped
}

// Prepare reads the machine and determines its quiet state. It changes nothing.
func Prepare(ctx context.Context, h *host.Host, o Options) (*State, error) {
	s := &State{clock: o.Clock}
	smt, why := switchable(h)
	if why != "" {
		s.Limits = append(s.Limits, why)
	}
	var err error
	if s.CPUs, err = divide(h, o.CPUs, smt); err != nil {
		return nil, err
	}
	loader := profile.Loader{Host: h, Dirs: []string{}, Builtin: files}
	if s.profile, err = loader.Load(ctx, "quiet"); err != nil {
		return nil, err
	}
	s.adapt(h, smt)
	_, limits := s.units(ctx, h)
	s.Limits = append(s.Limits, limits...)
	if why := crowded(h, s.Housekeeping.Len()); why != "" {
		s.Limits = append(s.Limits, why)
	}
	if outside(h) && !s.Housekeeping.IsEmpty() {
		s.Limits = append(s.Limits, "tasks outside of this container cannot be moved, and may use the measured CPUs even more")
	}
	if plugin.IsGuest(h) {
		s.Limits = append(s.Limits, "this machine is a guest: its host decides on frequency, boost and SMT, and on the CPU time that it takes (steal)")
	}
	return s, nil
}

// crowded returns a warning if the present load needs more than the CPUs for housekeeping, or "".
func crowded(h *host.Host, cpus int) string {
	word, _, _ := strings.Cut(h.File("/proc/loadavg").Text, " ")
	load, err := strconv.ParseFloat(word, 64)
	if err != nil || cpus == 0 || load <= float64(cpus) {
		return ""
	}
	return fmt.Sprintf("other programs are slow meanwhile: the load is %s, and they get %s", word, text.Count(cpus, "CPU"))
}

// outside reports whether the machine has tasks that fettle does not see, because it runs in a
// process namespace of its own: kthreadd is process 2 of the machine's (kernel/kthread.c).
func outside(h *host.Host) bool {
	two, err := h.Sched.Task(2)
	return !host.Unknown(err) && (err != nil || two.Comm != "kthreadd")
}

// adapt fills in what depends on the machine.
func (s *State) adapt(h *host.Host, smt bool) {
	if !smt {
		s.disable("smt")
	}
	if !s.Second.IsEmpty() {
		var names []string
		for _, n := range s.Measured.Union(s.Housekeeping).Numbers() {
			names = append(names, fmt.Sprint("cpu", n))
		}
		s.profile.Unit("cpu").Devices = strings.Join(names, ",")
	}
	// If each policy has its own attribute, those are written and not the switch for all, which
	// would hide their own values.
	if own, _ := host.Glob(h.Files, "/sys/devices/system/cpu/cpufreq/policy[0-9]*/boost"); len(own) > 0 || !plugin.Exists(h, "/sys/devices/system/cpu/cpufreq/boost") {
		s.disable("boost")
	} else {
		u := s.profile.Unit("cpu")
		u.Options = slices.DeleteFunc(u.Options, func(o profile.Option) bool { return o.Name == "boost" })
	}
	if s.Housekeeping.IsEmpty() {
		s.disable("workqueue")
		s.disable("scheduler")
		s.Limits = append(s.Limits, "no CPU is left for interrupts, kernel threads and other processes: they stay on the measured CPUs")
		return
	}
	work := s.profile.Unit("workqueue")
	for i := range work.Options {
		work.Options[i].Value = s.Housekeeping.Mask()
	}
	s.profile.Unit("scheduler").Option("isolated_cores").Value = s.Measured.Union(s.Second).String()
}

func (s *State) disable(unit string) { s.profile.Unit(unit).Enabled = false }

// Planner returns the planner of the state.
func (s *State) Planner(e *tune.Engine) tune.Planner {
	return func(ctx context.Context, j *journal.State) (*tune.Plan, error) {
		units, _ := s.units(ctx, e.Host) // again: timers may have elapsed since
		return e.PlanOnTop(ctx, units, s.profile, j)
	}
}

// action is done once, before the measurement, and cannot be undone.
type action struct{ text, file, value string }

// actions lists the actions that a machine offers.
func actions(h *host.Host) (out []action) {
	for _, a := range []action{
		{"write dirty pages to disk and drop the page cache", "/proc/sys/vm/drop_caches", "3"},
		{"compact free memory", "/proc/sys/vm/compact_memory", "1"},
	} {
		if plugin.Exists(h, a.file) {
			out = append(out, a)
		}
	}
	return out
}

// Act does what the quiet state does once: it drops the page cache and compacts free memory.
func Act(h *host.Host) error {
	var errs []error
	for i, a := range actions(h) {
		if i == 0 {
			unix.Sync() // dirty pages would stay in the cache
		}
		if err := h.Files.Store(a.file, []byte(a.value)); err != nil {
			errs = append(errs, fmt.Errorf("cannot %s: %w", a.text, err))
		}
	}
	return errors.Join(errs...)
}
