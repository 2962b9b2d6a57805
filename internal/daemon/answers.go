package daemon

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/plugin/service"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
)

var _ Control = (*Daemon)(nil)

// act runs one operation with a freshly opened machine and logs its error.
func (d *Daemon) act(ctx context.Context, do func(m *Machine) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	m, err := d.open(ctx)
	if err == nil {
		err = do(m)
	}
	if err != nil {
		d.log.say(LevelError, "%v", err)
	}
	return err
}

// Start applies the selection. It also returns true if the selection is already in force, and
// false if nothing is selected.
func (d *Daemon) Start(ctx context.Context) bool {
	ok := false
	err := d.act(ctx, func(m *Machine) error {
		d.resumeBalance()
		if d.selection == nil {
			return nil
		}
		ok = true
		if !d.parked {
			return nil
		}
		p, err := m.Engine.LoadAccepted(ctx, d.selection, m.Loader)
		if err != nil {
			return err
		}
		return d.take(ctx, m, d.selection, p, "start")
	})
	return ok && err == nil
}

// Stop reverts the selection's values but keeps it selected.
func (d *Daemon) Stop(ctx context.Context) bool {
	d.pauseBalance()
	return nil == d.act(ctx, func(m *Machine) error {
		if err := d.undoMoves(ctx, m, "stop"); err != nil {
			d.log.say(LevelError, "%v", err)
		}
		if d.selection == nil || d.parked {
			return nil
		}
		// Park before the undo: otherwise readers of the journal take the undo for the end of the
		// selection.
		if err := d.accept(m); err != nil {
			return err
		}
		d.parked = true
		return d.withdraw(ctx, m, "stop")
	})
}

// accept reads the selection's accepted content into memory, before the undo removes it from the
// journal's state.
func (d *Daemon) accept(m *Machine) error {
	_, err := m.Engine.LoadAccepted(context.Background(), d.selection, m.Loader)
	return err
}

// Disable reverts the selection's values and clears the selection.
func (d *Daemon) Disable(ctx context.Context) bool {
	d.pauseBalance()
	return nil == d.act(ctx, func(m *Machine) error {
		if err := d.undoMoves(ctx, m, "off"); err != nil {
			d.log.say(LevelError, "%v", err)
		}
		if d.selection == nil {
			return nil
		}
		parked := d.parked
		d.selection, d.parked, d.overlay = nil, false, overlay{}
		d.keepState(m)
		if parked {
			return nil
		}
		return d.withdraw(ctx, m, "off")
	})
}

// Reload reads the configuration and the profiles again and applies them.
func (d *Daemon) Reload(ctx context.Context) bool {
	ok := false
	err := d.act(ctx, func(m *Machine) error {
		d.restartBalance()
		entry, next, err := d.scheduled(m)
		if err != nil {
			return err
		}
		d.wake(next)
		s, err := m.Engine.State()
		if err != nil {
			return err
		}
		if entry != nil && d.due(entry.names, entry.since, s.Txs, d.selection) {
			ok = true
			return d.switchTo(ctx, m, tune.WithSaved(d.selection, entry.names), tune.ModeManual, entry.reason)
		}
		if d.TuneD {
			names, mode, found, err := d.preset(ctx, m, s.Txs, d.selection)
			if err != nil {
				return err
			}
			if found {
				ok = true
				return d.switchTo(ctx, m, names, mode, "reload")
			}
		}
		if d.selection == nil {
			return nil
		}
		ok = true
		return d.switchTo(ctx, m, d.selection.Profiles, d.selection.Mode, "reload")
	})
	return ok && err == nil
}

// Switch selects profiles. If the daemon is stopped, it only selects them, as in TuneD, whose
// clients then call Start.
func (d *Daemon) Switch(ctx context.Context, names string) (bool, string) {
	return d.choose(ctx, strings.Fields(names), tune.ModeManual)
}

// Auto selects the recommended profile.
func (d *Daemon) Auto(ctx context.Context) (bool, string) {
	name := d.Recommend(ctx)
	if name == "" {
		return false, "no profile is recommended for this machine"
	}
	return d.choose(ctx, []string{name}, tune.ModeAuto)
}

func (d *Daemon) choose(ctx context.Context, names []string, mode string) (bool, string) {
	err := d.act(ctx, func(m *Machine) error {
		d.resumeBalance()
		sel, p, err := d.load(ctx, m, names, mode)
		if err != nil {
			d.announce(ProfileChanged{strings.Join(names, " "), false, err.Error()})
			return err
		}
		if d.selection == nil || d.parked {
			if len(sel.Names()) == 0 {
				sel = nil
			}
			d.selection, d.parked = sel, sel != nil
			return nil
		}
		return d.take(ctx, m, sel, p, "switch to "+strings.Join(names, " "))
	})
	if err != nil {
		return false, err.Error()
	}
	return true, "OK"
}

// now returns the selection and reports whether it is in force.
func (d *Daemon) now() (sel *tune.Selection, running bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.selection, d.selection != nil && !d.parked
}

// ActiveProfile returns the selected profiles, the post-loaded profile included.
func (d *Daemon) ActiveProfile() string {
	if sel, _ := d.now(); sel != nil {
		return strings.Join(sel.Names(), " ")
	}
	return ""
}

// PostLoadedProfile returns the profile that is applied after the selected ones.
func (d *Daemon) PostLoadedProfile() string {
	if sel, _ := d.now(); sel != nil {
		return sel.PostLoaded
	}
	return ""
}

// Mode returns how the profiles were chosen: "auto" or "manual", or "unknown" with the reason
// if TuneD's state files cannot be read.
func (d *Daemon) Mode() (mode, failure string) {
	if sel, _ := d.now(); sel != nil {
		return sel.Mode, ""
	}
	m, err := d.Config.Open(context.Background())
	if err != nil {
		return "unknown", err.Error()
	}
	state, err := profile.ReadState(m.Engine.Host)
	if err != nil {
		return "unknown", err.Error()
	}
	return string(state.Mode), ""
}

// Recommend returns the profile that is recommended for this machine.
func (d *Daemon) Recommend(ctx context.Context) string {
	m, err := d.Config.Open(ctx)
	if err != nil {
		d.log.say(LevelError, "%v", err)
		return ""
	}
	r, err := m.Loader.Recommend(ctx)
	if err != nil {
		d.log.say(LevelError, "%v", err)
	}
	return r.Profile
}

// IsRunning reports whether a selection is in force.
func (d *Daemon) IsRunning() bool {
	_, running := d.now()
	return running
}

// Profiles lists the profiles, sorted by name.
func (d *Daemon) Profiles(ctx context.Context) []NamedSummary {
	m, err := d.Config.Open(ctx)
	if err != nil {
		d.log.say(LevelError, "%v", err)
		return nil
	}
	list, err := m.Loader.List()
	if err != nil {
		d.log.say(LevelError, "%v", err)
	}
	out := make([]NamedSummary, len(list))
	for i, s := range list {
		out[i] = NamedSummary{s.Name, s.Summary}
	}
	return out
}

// ProfileInfo describes a profile, the selected one if the name is empty.
func (d *Daemon) ProfileInfo(ctx context.Context, name string) (bool, Info) {
	if name == "" {
		name = d.ActiveProfile()
	}
	m, err := d.Config.Open(ctx)
	if err != nil {
		d.log.say(LevelError, "%v", err)
		return false, Info{}
	}
	list, err := m.Loader.List()
	if err != nil {
		d.log.say(LevelError, "%v", err)
	}
	for _, s := range list {
		if s.Name == name {
			return true, Info{s.Name, s.Summary, s.Description}
		}
	}
	return false, Info{}
}

// Verify applies TuneD's strict rule: it reports whether every value of the selection reads as
// wanted. Like TuneD it ignores sysctls that this kernel lacks. ignoreMissing ignores everything
// that the machine does not have, and is passed to scripts.
func (d *Daemon) Verify(ctx context.Context, ignoreMissing bool) bool {
	met := false
	_ = d.act(ctx, func(m *Machine) error {
		if d.selection == nil || d.parked {
			d.log.say(LevelError, "verify: no profile is active")
			return nil
		}
		s, err := m.Engine.State()
		if err != nil {
			return err
		}
		p, err := d.overlaid(ctx, m, d.selection)
		if err != nil {
			return err
		}
		e := *m.Engine
		e.Holds = true
		asked := ctx
		if ignoreMissing {
			asked = service.IgnoreMissing(ctx)
		}
		v, err := e.Verify(asked, p, s)
		if err != nil {
			return err
		}
		met = true
		for _, c := range v.Values {
			switch {
			case c.Setting.Kind == plugin.OptionKind:
				continue // no value to compare: TuneD skips it with a message
			case c.Verdict == plugin.OK, c.Verdict == plugin.Dynamic, c.Verdict == plugin.Kept, c.Verdict == plugin.Refused:
				continue
			case c.Verdict == plugin.Unsupported && (ignoreMissing || c.Setting.Kind == "sysctl"):
				continue
			case c.Verdict == plugin.Overridden && m.Engine.Main.ReapplySysctl && c.Setting.Kind == "sysctl":
				// TuneD compares with the profile anyway.
			}
			met = false
			d.log.say(LevelError, "verify: failed: '%s' = '%s', expected '%s' (%s: %s)", c.Setting, c.Now, c.Want, c.Verdict, c.Why)
		}
		return nil
	})
	return met
}

// Plugins returns the options of each plug-in with their defaults.
func (d *Daemon) Plugins() map[string]map[string]string {
	out := make(map[string]map[string]string, len(table.All))
	for _, p := range table.All {
		options := make(map[string]string, len(p.Options))
		for _, o := range p.Options {
			options[o.Name] = o.Default
			if o.Default == "" {
				options[o.Name] = "None" // Python's text for no default
			}
		}
		out[p.Name] = options
	}
	return out
}

// PluginDocumentation returns the description of a plug-in, or "".
func (d *Daemon) PluginDocumentation(name string) string {
	if p, ok := plugin.Find(table.All, name); ok {
		return p.Doc
	}
	return ""
}

// PluginHints returns the description of each option of a plug-in.
func (d *Daemon) PluginHints(name string) map[string]string {
	out := map[string]string{}
	if p, ok := plugin.Find(table.All, name); ok {
		for _, o := range p.Options {
			out[o.Name] = o.Doc
		}
	}
	return out
}

// Capture collects messages until CaptureEnd or the limit, and returns the token for CaptureEnd.
func (d *Daemon) Capture(level int, limit time.Duration) string {
	return d.log.begin(Level(level), limit)
}

// CaptureEnd returns the messages that were collected under a token.
func (d *Daemon) CaptureEnd(token string) string { return d.log.end(token) }

// subscribers are the channels that receive finished switches.
type subscribers struct {
	mu   sync.Mutex
	list []chan ProfileChanged
}

// Changed returns a channel that receives every finished switch until ctx ends. Up to 16 switches
// wait for a slow subscriber; it misses further ones.
func (d *Daemon) Changed(ctx context.Context) <-chan ProfileChanged {
	c := make(chan ProfileChanged, 16)
	s := &d.subscribers
	s.mu.Lock()
	s.list = append(s.list, c)
	s.mu.Unlock()
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.list = slices.DeleteFunc(s.list, func(o chan ProfileChanged) bool { return o == c })
		close(c)
	})
	return c
}

func (d *Daemon) announce(e ProfileChanged) {
	s := &d.subscribers
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.list {
		select {
		case c <- e:
		default:
		}
	}
}
