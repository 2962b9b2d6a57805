package tune

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// Request describes what to apply. Exactly one of its first six fields is set, except that
// profiles can be selected together with a change of the saved settings.
type Request struct {
	Profiles []string
	Save     *Saving  // a change of the saved settings
	Plan     string   // file with a saved plan, or - for standard input
	Set      []string // single settings, SETTING=VALUE
	Auto     bool     // the recommended profile
	Update   bool     // the current definition of the profiles in force
	Atomic   bool     // all or nothing
}

// Planner returns the planner of a request, and the options for Apply.
func (m *Machine) Planner(ctx context.Context, r Request) (Planner, ApplyOptions, error) {
	o := ApplyOptions{Kind: journal.Tune, Atomic: r.Atomic, OrNothing: true}
	names, mode := r.Profiles, ModeManual
	switch {
	case r.Plan != "":
		return m.savedPlanner(ctx, r.Plan, o)
	case len(r.Set) > 0:
		var changes []setting.Change
		for _, text := range r.Set {
			c, err := m.ParseChange(text)
			if err != nil {
				return nil, o, ui.Exit(ui.Usage, err)
			}
			changes = append(changes, c)
		}
		o.Kind = journal.Apply
		return func(ctx context.Context, s *journal.State) (*Plan, error) {
			return m.PlanAsked(ctx, changes, s)
		}, o, nil
	case r.Auto:
		var err error
		if names, err = m.Recommended(ctx); err != nil {
			return nil, o, err
		}
		mode = ModeAuto
	case r.Update:
		s, err := m.ReadState()
		if err != nil {
			return nil, o, err
		}
		_, sel, err := m.InForce(ctx, s)
		if err != nil {
			return nil, o, err
		}
		if sel == nil {
			return nil, o, ui.Exit(ui.Failed, errors.New("no profile is active; nothing to update"))
		}
		names = sel.Profiles
	case r.Save != nil:
		s, err := m.ReadState()
		if err != nil {
			return nil, o, err
		}
		if names, o.Saved, err = m.Save(ctx, s, names, *r.Save); err != nil {
			return nil, o, err
		}
	}
	if names = m.withSaved(names); len(names) > 1 && mode == ModeAuto {
		mode = ModeManual // the daemon would select the recommended profile alone
	}
	p, err := m.Load(ctx, true, WithPostLoaded(names, m.PostLoaded())...)
	if err != nil {
		return nil, o, err
	}
	if o.Selection, err = NewSelection(p, names, mode); err != nil {
		return nil, o, err
	}
	return func(ctx context.Context, s *journal.State) (*Plan, error) {
		return m.PlanProfile(ctx, p, s)
	}, o, nil
}

// savedPlanner is like Planner, but for a saved plan.
func (m *Machine) savedPlanner(ctx context.Context, file string, o ApplyOptions) (Planner, ApplyOptions, error) {
	p, err := readPlanFile(file)
	if err != nil {
		return nil, o, err
	}
	o.Kind, o.Planned = journal.Apply, p.Planned()
	if len(p.Profiles) > 0 { // a selection like any other
		loaded, err := m.Load(ctx, false, p.Profiles...)
		if err != nil {
			return nil, o, err
		}
		if !slices.EqualFunc(loaded.Sources, p.Sources, func(a, b profile.Source) bool { return a.Path == b.Path && a.SHA256 == b.SHA256 }) {
			return nil, o, stale(p, file, fmt.Errorf("%w: its profiles have changed", ErrStale))
		}
		o.Kind = journal.Tune
		names := p.Profiles
		if n := len(names); n > 1 && names[n-1] == m.PostLoaded() {
			names = names[:n-1]
		}
		if o.Selection, err = NewSelection(loaded, names, ModeManual); err != nil {
			return nil, o, err
		}
	}
	saved := m.ApplySaved(p)
	return func(ctx context.Context, s *journal.State) (*Plan, error) {
		p2, err := saved(ctx, s)
		return p2, stale(p, file, err)
	}, o, nil
}

// stale adds to ErrStale the command that makes a new plan.
func stale(p *Plan, file string, err error) error {
	if !errors.Is(err, ErrStale) || len(p.Profiles) == 0 {
		return err
	}
	if file == "-" {
		file = "plan.json"
	}
	return ui.Hinted(ui.Refused, err, "make a new plan: "+text.CommandLine(slices.Concat([]string{"sudo", "fettle", "diff"}, p.Profiles, []string{"--output", "json"}))+" > "+text.Quote(file))
}

// maxPlan is the maximum size of a plan file, in bytes.
const maxPlan = 64 << 20

func readPlanFile(path string) (*Plan, error) {
	var in io.Reader = os.Stdin
	if path != "-" {
		f, err := host.OpenRegular(path)
		if err != nil {
			return nil, ui.Exit(ui.Usage, err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxPlan))
	if err != nil {
		return nil, err
	}
	p, err := ReadPlan(text)
	if err != nil {
		return nil, ui.Hinted(ui.Usage, fmt.Errorf("%s: %w", path, err), "to write a plan: fettle diff throughput-performance --output json > plan.json")
	}
	return p, nil
}

// ParseChange parses SETTING=VALUE. It returns an error if this machine lacks the setting's kind,
// or if the kind does not allow the name.
func (m *Machine) ParseChange(text string) (setting.Change, error) {
	c, err := ParseChange(text)
	if err != nil {
		return c, err
	}
	if m.Kinds[c.Setting.Kind] == nil {
		return c, UnknownKind(text, c.Setting.Kind, m.Kinds)
	}
	if _, err := m.Kinds.Resolve(c.Setting); setting.IsNameError(err) {
		return c, err
	}
	return c, nil
}

// ParseChange parses SETTING=VALUE without checking that the machine has the setting.
func ParseChange(text string) (setting.Change, error) {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return setting.Change{}, fmt.Errorf("%q: want SETTING=VALUE, such as sysctl:vm.swappiness=10", text)
	}
	s, err := setting.Parse(strings.TrimSpace(name))
	if err != nil {
		return setting.Change{}, err
	}
	return setting.Change{Setting: s, Want: setting.Text(value), Reason: setting.Reason{Text: text}}, nil
}

// UnknownKind returns the error for a setting of unknown kind. where is the text that names the
// setting.
func UnknownKind(where, kind string, kinds setting.Kinds) error {
	known := slices.Sorted(maps.Keys(kinds))
	return fmt.Errorf("%q: %w %q%s; kinds are %s", where, setting.ErrUnknownKind, kind, text.Suggest(kind, known), strings.Join(known, ", "))
}
