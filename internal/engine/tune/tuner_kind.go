package tune

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// TunerKind is the setting kind of other tuners: tuner:tuned.service. Its value has the state of
// the tuner's unit (active, enabled) and TuneD's profile. Before TuneD is stopped, it restores its
// own values. Before it is started again, its state files are restored.
const TunerKind = "tuner"

// NewTunerKind returns the kind of other tuners. unit is the kind of systemd units.
func NewTunerKind(h *host.Host, unit setting.Kind) setting.Kind { return tuner{h, unit} }

type tuner struct {
	host *host.Host
	unit setting.Kind
}

// TuneDUnit is TuneD's unit.
const TuneDUnit = "tuned.service"

func (tuner) Resolve(s setting.Setting) (setting.Setting, error) {
	if !strings.HasSuffix(s.Name, ".service") || strings.Contains(s.Name, "/") {
		return s, fmt.Errorf("%s: want %s:NAME.service", s, TunerKind)
	}
	return s, nil
}

// tunerState is the parsed value.
type tunerState struct {
	active, enabled string
	profiles, mode  string // from TuneD's state files
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
	if s.Name == TuneDUnit {
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
		if s.Name == TuneDUnit && host.HasProgram(k.host, "tuned-adm") {
			// With rollback=not_on_exit a stop alone would leave TuneD's values. An unresponsive
			// TuneD is stopped anyway.
			_, _ = host.Run(ctx, k.host, "tuned-adm", "off")
		}
		return errors.Join(k.set(ctx, s, "active", "inactive"), k.set(ctx, s, "enabled", want.enabled))
	}
	if s.Name == TuneDUnit {
		state := profile.State{Active: strings.Fields(want.profiles), Mode: profile.Mode(want.mode)}
		if old, err := profile.ReadState(k.host); err == nil {
			state.PostLoaded = old.PostLoaded
		}
		if err := profile.WriteState(k.host, state); err != nil {
			return err
		}
	}
	// Only one tuner may run and own TuneD's bus name.
	ours := setting.Setting{Kind: "unit", Name: "fettle.service/active"}
	if now, err := k.unit.Read(ctx, ours); err == nil && now.Text == "active" {
		if err := k.unit.Write(ctx, ours, setting.Text("inactive")); err != nil {
			return err
		}
	}
	return errors.Join(k.set(ctx, s, "enabled", want.enabled), k.set(ctx, s, "active", want.active))
}

// set changes one aspect of the unit if it differs. It skips states that only systemd sets
// (static).
func (k tuner) set(ctx context.Context, s setting.Setting, aspect, want string) error {
	switch want {
	case "active", "inactive", "enabled", "disabled", "masked":
	default:
		return nil
	}
	a := k.aspect(s, aspect)
	if now, err := k.unit.Read(ctx, a); err == nil && now.Text == want {
		return nil
	}
	return k.unit.Write(ctx, a, setting.Text(want))
}

// Equal compares the state of the unit. It ignores TuneD's files, which fettle's daemon writes too
// while it replaces TuneD.
func (tuner) Equal(a, b setting.Value) bool {
	x, err := parseTuner(a.Text)
	y, err2 := parseTuner(b.Text)
	return err == nil && err2 == nil && x.active == y.active && x.enabled == y.enabled
}

func (tuner) Coupled(setting.Setting) []setting.Setting { return nil }
func (tuner) Lifetime() setting.Lifetime                { return setting.File }

// Tuner marks the kind as setting.Tuner: a restored tuner sets its own values.
func (tuner) Tuner() {}
