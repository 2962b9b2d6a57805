package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

// tunerKind is the kind of setting that another tuner is: tuner:tuned.service.
// Its value says whether the tuner's unit is active and enabled and, for TuneD,
// which profile it has. Stopping TuneD lets it give its own values back first;
// starting it again puts its files back first.
const tunerKind = "tuner"

type tuner struct {
	host *host.Host
	unit setting.Kind
}

const tunedUnit = "tuned.service"

func (tuner) Resolve(s setting.Setting) (setting.Setting, error) {
	if !strings.HasSuffix(s.Name, ".service") || strings.Contains(s.Name, "/") {
		return s, fmt.Errorf("%s: want %s:NAME.service", s, tunerKind)
	}
	return s, nil
}

// tunerState is the value in parts.
type tunerState struct {
	active, enabled string
	profiles, mode  string // TuneD's, from its state files
}

func (t tunerState) String() string {
	return fmt.Sprintf("active=%s enabled=%s mode=%s profiles=%s", t.active, t.enabled, t.mode, t.profiles)
}

func parseTuner(text string) (t tunerState, err error) {
	rest, profiles, ok := strings.Cut(text, " profiles=")
	t.profiles = profiles
	for field := range strings.FieldsSeq(rest) {
		k, v, _ := strings.Cut(field, "=")
		switch k {
		case "active":
			t.active = v
		case "enabled":
			t.enabled = v
		case "mode":
			t.mode = v
		}
	}
	if !ok || t.active == "" || t.enabled == "" {
		return t, fmt.Errorf("state of a tuner %q: want active=... enabled=... mode=... profiles=...", text)
	}
	return t, nil
}

func (k tuner) aspect(s setting.Setting, aspect string) setting.Setting {
	return setting.Setting{Kind: "unit", Name: s.Name + "/" + aspect}
}

func (k tuner) Read(ctx context.Context, s setting.Setting) (setting.Value, error) {
	active, err := k.unit.Read(ctx, k.aspect(s, "active"))
	if err != nil || active.Absent {
		return active, err
	}
	enabled, err := k.unit.Read(ctx, k.aspect(s, "enabled"))
	if err != nil || enabled.Absent {
		return enabled, err
	}
	t := tunerState{active: active.Text, enabled: strings.ReplaceAll(enabled.Text, " ", "-")}
	if s.Name == tunedUnit {
		state, err := profile.ReadState(k.host)
		if err != nil {
			return setting.Value{}, err
		}
		t.profiles, t.mode = strings.Join(state.Active, " "), string(state.Mode)
	}
	return setting.Text(t.String()), nil
}

func (k tuner) Write(ctx context.Context, s setting.Setting, v setting.Value) error {
	want, err := parseTuner(v.Text)
	if err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	if want.active != "active" {
		if s.Name == tunedUnit && host.HasProgram(k.host, "tuned-adm") {
			// With rollback=not_on_exit a stop alone would leave its values. A
			// TuneD that does not answer is stopped all the same.
			_, _ = host.Run(ctx, k.host, "tuned-adm", "off")
		}
		return errors.Join(k.set(ctx, s, "active", "inactive"), k.set(ctx, s, "enabled", want.enabled))
	}
	if s.Name == tunedUnit {
		state := profile.State{Active: strings.Fields(want.profiles), Mode: profile.Mode(want.mode)}
		if old, err := profile.ReadState(k.host); err == nil {
			state.PostLoaded = old.PostLoaded
		}
		if err := profile.WriteState(k.host, state); err != nil {
			return err
		}
	}
	// One tuner at a time, and one owner of TuneD's name on the bus.
	ours := setting.Setting{Kind: "unit", Name: "fettle.service/active"}
	if now, err := k.unit.Read(ctx, ours); err == nil && now.Text == "active" {
		if err := k.unit.Write(ctx, ours, setting.Text("inactive")); err != nil {
			return err
		}
	}
	return errors.Join(k.set(ctx, s, "enabled", want.enabled), k.set(ctx, s, "active", want.active))
}

// set changes one aspect of the unit where it differs; words that only systemd
// can make (static, masked) are not ours to write.
func (k tuner) set(ctx context.Context, s setting.Setting, aspect, want string) error {
	switch want {
	case "active", "inactive", "enabled", "disabled":
	default:
		return nil
	}
	a := k.aspect(s, aspect)
	if now, err := k.unit.Read(ctx, a); err == nil && now.Text == want {
		return nil
	}
	return k.unit.Write(ctx, a, setting.Text(want))
}

// Equal compares what the unit does; the files are TuneD's, and whoever stands
// in for it writes them too.
func (tuner) Equal(a, b setting.Value) bool {
	x, err := parseTuner(a.Text)
	y, err2 := parseTuner(b.Text)
	return err == nil && err2 == nil && x.active == y.active && x.enabled == y.enabled
}

func (tuner) Coupled(setting.Setting) []setting.Setting { return nil }
func (tuner) Lifetime() setting.Lifetime                { return setting.File }

// Tuner: what it sets when it is given back is its own.
func (tuner) Tuner() {}

// oneTuner refuses where another tuner is in force, or takes over from it.
// It returns the transactions of the take-over. writes lists what is to be written;
// it is asked only where that decides.
func (m *machine) oneTuner(ctx context.Context, takeOver bool, writes func() []setting.Setting) (taken []int, err error) {
	tuners, err := m.otherTuners(ctx, writes)
	if err != nil {
		return nil, err
	}
	for _, t := range tuners {
		if !takeOver {
			return taken, inForce(t, m.command+" --take-over")
		}
		tx, err := m.takeOver(ctx, t)
		if err != nil {
			return taken, err
		}
		taken = append(taken, tx)
	}
	return taken, nil
}

// otherTuners are those in force that conflict with what is to be written. One that sets
// only a few settings, none of which is written (numad), is only named.
func (m *machine) otherTuners(ctx context.Context, writes func() []setting.Setting) ([]override.Tuner, error) {
	all, err := override.Tuners(ctx, m.host)
	var files []string
	var out []override.Tuner
	for _, t := range all {
		if !t.Exclusive || !t.InForce() {
			continue
		}
		if files == nil && !t.Conflicts(nil) {
			files = []string{}
			for _, s := range writes() {
				files = append(files, m.kinds.KernelFiles(s)...)
			}
		}
		if t.Conflicts(files) {
			out = append(out, t)
		} else {
			m.screen.Say("%s %s; it sets %s, and none of that is written here", t.Name, t.Phase(err == nil), t.Sets)
		}
	}
	return out, err
}

// writesOf lists what a planner would write now; nothing where it cannot plan, which
// is reported when the plan is applied.
func (m *machine) writesOf(ctx context.Context, planner tune.Planner) func() []setting.Setting {
	return func() []setting.Setting {
		s, err := m.engine.State()
		if err != nil {
			return nil
		}
		p, err := planner(ctx, s)
		if err != nil {
			return nil
		}
		return settingsOf(p)
	}
}

// settingsOf lists what a plan writes or owns.
func settingsOf(p *tune.Plan) []setting.Setting {
	var out []setting.Setting
	for _, st := range p.Steps {
		if st.Action != tune.None {
			out = append(out, st.Setting)
		}
	}
	return out
}

// writesOfSelection lists what the selection in force sets.
func (m *machine) writesOfSelection(ctx context.Context) func() []setting.Setting {
	return m.writesOf(ctx, func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
		p, _, err := m.inForce(ctx, s)
		if err != nil || p == nil {
			return &tune.Plan{}, err
		}
		return m.engine.PlanProfile(ctx, p, s)
	})
}

// inForce is the refusal to write where another tuner is in force; command is the one
// that makes it work.
func inForce(t override.Tuner, command string) error {
	what := "is in force here (it runs)"
	if !t.Running {
		what = "is in force here from the next boot on (it is enabled, not running)"
		if !t.Stays {
			what = "is in force here (it is enabled)"
		}
	}
	return ui.Hinted(ui.Refused, fmt.Errorf("%s %s and sets %s: two tuners would overwrite each other", t.Name, what, t.Sets),
		"hand over: "+command+" (fettle undo restores it), or by hand: "+t.HandOver)
}

// handBack gives the machine back to the tuners that were taken over, because
// the tuning that was to follow did not come about.
func (m *machine) handBack(ctx context.Context, taken []int, err error) error {
	if len(taken) == 0 || err == nil || ui.Code(err) == ui.Partial {
		return err
	}
	if _, uerr := m.engine.Undo(context.WithoutCancel(ctx), taken...); uerr != nil {
		return errors.Join(err, uerr)
	}
	m.screen.Say("what was taken over has been given back")
	return err
}

// takeOver stops another tuner as a transaction, so that undo gives it back, and
// returns its number.
func (m *machine) takeOver(ctx context.Context, t override.Tuner) (int, error) {
	s := setting.Setting{Kind: tunerKind, Name: t.Unit}
	now, err := m.kinds.Read(ctx, s)
	if err != nil {
		return 0, fmt.Errorf("%s cannot be taken over: %w", t.Name, err)
	}
	state, err := parseTuner(now.Text)
	if now.Absent || err != nil || t.Running && state.active != "active" {
		return 0, ui.Hinted(ui.Refused, fmt.Errorf("%s runs here, but not as %s, so undo could not start it again", t.Name, t.Unit), fmt.Sprintf("stop it yourself: sudo kill %d", t.PID))
	}
	want := state
	want.active = "inactive"
	if want.enabled == "enabled" {
		want.enabled = "disabled"
	}
	e := *m.engine
	e.Reason += " (take over from " + t.Name + ")"
	res, err := e.Apply(ctx, func(ctx context.Context, js *journal.State) (*tune.Plan, error) {
		return e.PlanChanges(ctx, []setting.Change{{Setting: s, Want: setting.Text(want.String()), Reason: setting.Reason{Text: "--take-over"}}}, js)
	}, tune.ApplyOptions{Kind: journal.Apply, Atomic: true})
	if err != nil {
		return 0, err
	}
	if err := m.verdict(res, nil); err != nil {
		return 0, err
	}
	had := ""
	if state.profiles != "" {
		had = " (" + state.profiles + ")"
	}
	m.screen.Say("%s%s is stopped: transaction %d, which fettle undo takes back", t.Name, had, res.Tx)
	return res.Tx, nil
}
