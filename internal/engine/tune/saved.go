package tune

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

// SavedProfile is the profile of the settings that tune --save keeps. Once selected it stays, on
// top of every profile that is selected later. linux-system-roles uses the same name, so TuneD and
// fettle read each other's.
const SavedProfile = "kernel_settings"

// savedDir is where the profile is written, unless the machine has it in /etc/tuned.
const savedDir = "/etc/tuned/profiles"

// Saving is a change of the saved settings.
type Saving struct {
	Set, Unset []string
	Replace    []string // plug-ins whose other saved settings are removed; "all" for all
}

// Args returns the arguments of fettle that make the change, and select names unless there are none.
func (c *Saving) Args(names []string) []string {
	args := append(append([]string{"tune"}, names...), "--save")
	for _, s := range c.Set {
		args = append(args, "--set", s)
	}
	for _, s := range c.Unset {
		args = append(args, "--unset", s)
	}
	for _, s := range c.Replace {
		args = append(args, "--replace", s)
	}
	return args
}

// ReadsUnset returns an error for a text that cannot name a saved setting.
func ReadsUnset(text string) error {
	s, err := setting.Parse(strings.TrimSpace(text))
	if err == nil && (!strings.ContainsAny(s.Name, "./") || strings.Contains(text, "=")) {
		err = errors.New("want SETTING, such as vm.swappiness")
	}
	return err
}

// WithSaved returns names with the saved settings on top, if the selection has them.
func WithSaved(sel *Selection, names []string) []string {
	if sel == nil || !slices.Contains(sel.Profiles, SavedProfile) || slices.Contains(names, SavedProfile) {
		return names
	}
	return append(slices.Clone(names), SavedProfile)
}

// withSaved is WithSaved for the selection in force. Without a readable journal it returns names.
func (m *Machine) withSaved(names []string) []string {
	s, err := m.State()
	if err != nil {
		return names
	}
	sel, err := SelectionOf(s.InForce())
	if err != nil {
		return names
	}
	return WithSaved(sel, names)
}

// Save prepares a change of the saved settings: it returns the profiles to select, those of names
// or else those in force, and the file of the settings. The loader reads the changed file before it
// is written.
func (m *Machine) Save(ctx context.Context, s *journal.State, names []string, c Saving) (_ []string, f *SavedFile, err error) {
	sel, err := SelectionOf(s.InForce())
	if err != nil {
		return nil, nil, err
	}
	switch {
	case len(names) > 0:
	case sel != nil:
		names = sel.Profiles
	default:
		names = m.recordedByTuneD(ctx)
	}
	if !slices.Contains(names, SavedProfile) {
		names = append(slices.Clone(names), SavedProfile)
	}
	f = &SavedFile{path: path.Join(savedDir, SavedProfile, "tuned.conf")}
	if p := m.Loader.Find(SavedProfile); path.Dir(path.Dir(p)) == path.Dir(savedDir) {
		f.path = p
	}
	if f.old, err = m.Host.Files.ReadFile(f.path); err != nil && !host.NotFound(err) {
		return nil, nil, err
	}
	if f.old, err = m.acceptedSaved(sel, f); err != nil {
		return nil, nil, err
	}
	set, err := m.assignments(c.Set, true)
	if err != nil {
		return nil, nil, err
	}
	unset, err := m.assignments(c.Unset, false)
	if err != nil {
		return nil, nil, err
	}
	if f.text, err = profile.Edit(f.path, f.old, set, unset, c.Replace); err != nil {
		return nil, nil, err
	}
	m.Loader.Pending = map[string][]byte{f.path: f.text}
	return names, f, nil
}

// acceptedSaved returns the saved settings to change: those in force. Without them it returns the
// text of the file, unless an undo has left it there.
func (m *Machine) acceptedSaved(sel *Selection, f *SavedFile) ([]byte, error) {
	if sel == nil || !slices.Contains(sel.Profiles, SavedProfile) {
		if profile.Edited(f.old) {
			return nil, nil
		}
		return f.old, nil
	}
	if err := sel.load(m.StateDir); err != nil {
		return nil, err
	}
	if file, ok := sel.content.Snapshot.File(f.path); ok {
		return file.Data, nil
	}
	return f.old, nil
}

// recordedByTuneD returns the profiles that TuneD has in force, without the saved settings.
func (m *Machine) recordedByTuneD(ctx context.Context) []string {
	all, _ := override.Tuners(ctx, m.Host)
	tuned := slices.ContainsFunc(all, func(t override.Tuner) bool { return t.Unit == TuneDUnit && t.InForce() })
	s, err := profile.ReadState(m.Host)
	if !tuned || err != nil {
		return nil
	}
	return s.Active
}

// assignments reads settings as options of a profile.
func (m *Machine) assignments(texts []string, values bool) ([]profile.Assignment, error) {
	var out []profile.Assignment
	for _, text := range texts {
		name, value, found := strings.Cut(text, "=")
		if found != values {
			return nil, ui.Exit(ui.Usage, fmt.Errorf("%q: want SETTING=VALUE in --set, and SETTING in --unset", text))
		}
		s, err := setting.Parse(strings.TrimSpace(name))
		if err != nil {
			return nil, ui.Exit(ui.Usage, err)
		}
		a := profile.Assignment{Section: s.Kind, Name: s.Name, Value: strings.TrimSpace(value)}
		switch s.Kind {
		case "sysctl", "sysfs":
			if _, err := m.Kinds.Resolve(s); setting.IsNameError(err) {
				return nil, ui.Exit(ui.Usage, err)
			}
			if p, err := setting.SysctlPath(s.Name); s.Kind == "sysctl" && err == nil {
				a.Name = setting.SysctlName(p)
			}
		case plugin.OptionKind:
			var ok bool
			if a.Section, a.Name, ok = strings.Cut(s.Name, "/"); !ok || a.Section == "main" || a.Section == "variables" {
				return nil, ui.Exit(ui.Usage, fmt.Errorf("%q: want option:PLUG-IN/OPTION, such as option:vm/transparent_hugepages", text))
			}
		default:
			return nil, ui.Hinted(ui.Usage, fmt.Errorf("%q: a profile cannot set %s directly", text, s), "--save takes sysctls, paths below /sys, and options of plug-ins: option:net/mtu")
		}
		out = append(out, a)
	}
	return out, nil
}

// InForceNow reports whether the profiles, with this content, have been selected and applied in
// this boot.
func (m *Machine) InForceNow(s *journal.State, p *profile.Profile) bool {
	t := s.InForce()
	sel, err := SelectionOf(t)
	if err != nil || sel == nil || t.BootID != m.bootID() || !slices.Equal(sel.Names(), p.Names) || sel.load(m.StateDir) != nil {
		return false
	}
	now, err := p.Snapshot()
	return err == nil && reflect.DeepEqual(now.Files, sel.content.Snapshot.Files)
}

// SavedFile is the file of the saved settings, and how it is to be.
type SavedFile struct {
	path      string
	old, text []byte
}

// change returns the change of the file for the journal, or nil without a change.
func (f *SavedFile) change(h *host.Host) (*journal.SavedFile, error) {
	if f == nil {
		return nil, nil
	}
	c := &journal.SavedFile{Path: f.path, Before: setting.Absent, Text: string(f.text)}
	before, err := h.Files.ReadFile(f.path)
	switch {
	case host.NotFound(err):
		for dir := path.Dir(f.path); ; dir = path.Dir(dir) {
			if _, err := h.Files.Stat(dir); !host.NotFound(err) {
				return c, err
			}
			c.Made = slices.Insert(c.Made, 0, dir)
		}
	case err != nil:
		return nil, err
	case string(before) == c.Text:
		return nil, nil
	}
	c.Before = setting.Text(string(before))
	return c, nil
}

// writeSaved writes the file of the saved settings. The journal has its text before.
func (e *Engine) writeSaved(c *journal.SavedFile) error {
	if c == nil {
		return nil
	}
	e.at("saved:write")
	for _, dir := range c.Made {
		if err := e.Host.Files.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	err := replaceSaved(e.Host, c.Path, []byte(c.Text))
	e.at("saved:written")
	return err
}

// replaceSaved writes the file, and keeps its owner and mode.
func replaceSaved(h *host.Host, file string, text []byte) error {
	attr := host.Attr{Mode: 0o644}
	if st, err := h.Files.Stat(file); err == nil {
		attr = host.AttrOf(st)
	}
	return h.Files.Replace(file, text, attr)
}

// restoreSaved restores the file of the saved settings to its text without the transactions, which
// are ordered by age: the text of the selection that is then in force, or the text from before
// fettle. It keeps a file that another program has written since.
func (e *Engine) restoreSaved(s *journal.State, txs []*journal.Tx) error {
	change, err := e.savedIn(txs)
	if change == nil || err != nil {
		return err
	}
	now, err := e.Host.Files.ReadFile(change.Path)
	if host.NotFound(err) || err == nil && !profile.Edited(now) {
		now = nil
	} else if err != nil {
		return err
	}
	remains, err := SelectionOf(s.InForce(txs...))
	if err != nil {
		return err
	}
	if remains != nil {
		if err := remains.load(e.StateDir); err != nil {
			return err
		}
		if file, ok := remains.content.Snapshot.File(change.Path); ok {
			if now == nil || string(now) == string(file.Data) {
				return nil
			}
			return replaceSaved(e.Host, change.Path, file.Data)
		}
	}
	switch {
	case now == nil:
	case !change.Before.Absent:
		return replaceSaved(e.Host, change.Path, []byte(change.Before.Text))
	default:
		if err := e.Host.Files.Remove(change.Path); err != nil {
			return err
		}
	}
	for _, dir := range slices.Backward(change.Made) {
		_ = e.Host.Files.Remove(dir) // stays if it has other files
	}
	return nil
}

// savedIn returns the oldest change of the file by the transactions, or the file that one of them
// selects, or nil.
func (e *Engine) savedIn(txs []*journal.Tx) (*journal.SavedFile, error) {
	var selected *journal.SavedFile
	for _, t := range txs {
		if t.Saved != nil {
			return t.Saved, nil
		}
		sel, err := SelectionOf(t)
		if err != nil {
			return nil, err
		}
		if selected != nil || sel == nil || !slices.Contains(sel.Profiles, SavedProfile) || sel.load(e.StateDir) != nil {
			continue
		}
		for _, f := range sel.content.Snapshot.Files {
			if path.Base(path.Dir(f.Path)) == SavedProfile {
				selected = &journal.SavedFile{Path: f.Path, Before: setting.Text(string(f.Data))}
			}
		}
	}
	return selected, nil
}
