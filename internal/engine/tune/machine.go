package tune

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

// Machine is an engine with the machine's profiles and the files of other programs that set the
// same values. Its methods send warnings to Engine.Tell.
type Machine struct {
	*Engine
	Loader profile.Loader
	// InProgress describes the process whose transaction was in progress at ReadState, or is "".
	InProgress string
	// NoJournal is true if the journal is unknown: a copy has none, or this user may not read it.
	NoJournal bool

	claims *override.Claims
	// sysctls has only the claims of sysctl files, which suffice for tune and verify. Reading all
	// files takes more than twice as long.
	sysctls  *override.Claims
	reported map[override.Problem]bool
}

// Open completes an engine with the machine's configuration. It returns the engine with the
// profiles of builtin, of the machine and of dirs. It calls bad with each error in a configuration
// file, and ignores the error if bad returns nil.
func Open(ctx context.Context, e *Engine, builtin fs.FS, dirs []string, bad func(error) error) (*Machine, error) {
	var err error
	if e.Main, err = profile.ReadMain(e.Host); err != nil {
		if err := bad(err); err != nil {
			return nil, err
		}
		e.Main = profile.DefaultMain()
	}
	if e.Keep, err = ReadKeep(e.Host, e.Kinds); err != nil {
		if err := bad(err); err != nil {
			return nil, err
		}
	}
	e.ProfileDirs = profile.SearchPath(e.Main, dirs...)
	m := &Machine{Engine: e, Loader: profile.Loader{Host: e.Host, Dirs: e.ProfileDirs, Builtin: builtin, Main: e.Main}}
	m.Overridden = m.OverriddenBy(ctx)
	return m, nil
}

func (m *Machine) say(format string, args ...any) {
	if m.Tell != nil {
		m.Tell(fmt.Sprintf(format, args...))
	}
}

// OverriddenBy returns a function for Engine.Overridden. It reads the administrator's sysctl files
// when first needed. With reapply_sysctl off in tuned-main.conf, nothing is overridden.
func (m *Machine) OverriddenBy(ctx context.Context) func(setting.Setting) (Override, bool) {
	return func(s setting.Setting) (Override, bool) {
		if s.Kind != "sysctl" || !m.Main.ReapplySysctl {
			return Override{}, false
		}
		for _, pattern := range m.Main.ReapplySysctlExclude {
			if profile.Fnmatch(pattern, s.Name) {
				return Override{}, false
			}
		}
		if m.sysctls == nil {
			m.sysctls = m.readClaims(ctx, override.Sysctl)
		}
		c, ok := m.sysctls.Administrator(s)
		if !ok {
			return Override{}, false
		}
		return Override{Setting: c.Setting, Value: c.Value, File: c.File, Line: c.Line, Text: c.Text}, true
	}
}

// Claims returns the claims of files and programs other than fettle. It reads them once.
func (m *Machine) Claims(ctx context.Context) *override.Claims {
	if m.claims == nil {
		m.claims = m.readClaims(ctx)
		m.sysctls = m.claims
	}
	return m.claims
}

func (m *Machine) readClaims(ctx context.Context, only ...override.Source) *override.Claims {
	c, problems := override.Read(ctx, m.Host, m.Kinds, only...)
	if ctx.Err() != nil {
		return c // files left out on purpose are not a problem
	}
	for _, p := range problems {
		if m.reported[p] {
			continue
		}
		m.say("%s", p)
		if m.reported == nil {
			m.reported = map[override.Problem]bool{}
		}
		m.reported[p] = true
	}
	return c
}

// InForce loads the accepted content of the selection in force, or returns nil without a
// selection. Afterwards the loader also searches the selection's own directories.
func (m *Machine) InForce(ctx context.Context, s *journal.State) (*profile.Profile, *Selection, error) {
	sel, err := SelectionOf(s.InForce())
	if err != nil || sel == nil {
		return nil, nil, err
	}
	p, err := m.LoadAccepted(ctx, sel, m.Loader)
	m.Loader.Dirs = sel.Dirs(m.Host, m.Loader.Dirs)
	return p, sel, err
}

// Load merges profiles; later ones override earlier ones. execute allows functions of profiles to
// run programs.
func (m *Machine) Load(ctx context.Context, execute bool, names ...string) (*profile.Profile, error) {
	l := m.Loader
	l.Execute = execute
	p, err := l.Load(ctx, names...)
	if host.NotFound(err) || errors.Is(err, profile.ErrNoProfile) || errors.Is(err, profile.ErrName) {
		return nil, ui.Hinted(ui.Usage, err, "fettle list shows the profiles")
	}
	return p, err
}

// PostLoaded returns the profile that overrides every selection, or "".
func (m *Machine) PostLoaded() string {
	b, err := m.Host.Files.ReadFile(profile.PostLoadedProfileFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Recommended returns the profiles recommended for the machine.
func (m *Machine) Recommended(ctx context.Context) ([]string, error) {
	best, err := m.Loader.Recommend(ctx)
	if err == nil && best.Profile == "" {
		err = ui.Hinted(ui.Failed, errors.New("no profile is recommended for this machine"), "choose a profile from fettle list")
	}
	if err == nil {
		err = m.CheckRecommended(best)
	}
	if err != nil {
		return nil, err
	}
	return []string{best.Profile}, nil
}

// CheckRecommended returns an error if the recommended profile does not exist.
func (m *Machine) CheckRecommended(r profile.Recommendation) error {
	for _, name := range strings.Fields(r.Profile) {
		if !m.Loader.Has(name) {
			return ui.Hinted(ui.Failed, fmt.Errorf("%s recommends the profile %q, which does not exist", r.Pos, name), "fettle list shows the profiles")
		}
	}
	return nil
}

// ReadState reads the journal and warns about its defects.
func (m *Machine) ReadState() (*journal.State, error) {
	s, err := m.State()
	if err != nil {
		return nil, m.Unreadable(err)
	}
	if len(s.Interrupted()) > 0 {
		// If no process is in progress, an open transaction was interrupted, unless it was closed
		// between the two reads.
		if m.InProgress = journal.Holder(m.StateDir); m.InProgress == "" {
			if s, err = m.State(); err != nil {
				return nil, m.Unreadable(err)
			}
		}
	}
	for _, d := range s.Damage {
		m.say("the journal is damaged: %s", d)
	}
	m.WarnTruncated(s)
	for _, t := range s.Interrupted() {
		if m.InProgress != "" {
			m.say("transaction %d (%s) is in progress: %s", t.ID, t.Reason, m.InProgress)
			continue
		}
		m.say("transaction %d (%s) was interrupted; fettle undo or the next tune reverts it", t.ID, t.Reason)
	}
	return s, nil
}

// WarnTruncated warns about an incomplete last record. A crash leaves one; the change was not
// made.
func (m *Machine) WarnTruncated(s *journal.State) {
	if s.Torn {
		m.say("the journal ends in an incomplete record: fettle was killed while writing, or the file was truncated and later records are lost")
	}
}

// Unreadable replaces the error of a state directory that only root may read by an explanation.
func (m *Machine) Unreadable(err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return &ui.Error{Code: ui.Failed, Err: fmt.Errorf("only root can read the journal in %s, so fettle's changes are unknown: %w", m.StateDir, err), Remedy: &ui.Remedy{Root: true}}
}

// ReadStateIfAllowed is like ReadState, but for verbs that work without the journal. If this user
// may not read the journal, it warns and returns an empty state.
func (m *Machine) ReadStateIfAllowed() (*journal.State, error) {
	s, err := m.ReadState()
	if errors.Is(err, fs.ErrPermission) {
		m.say("only root can read the journal, so fettle's changes are unknown; run with sudo")
		m.NoJournal = true
		return &journal.State{}, nil
	}
	return s, err
}

// VerifyNamed verifies the named profiles as if they were in force. Without names it verifies the
// selection in force.
func (m *Machine) VerifyNamed(ctx context.Context, s *journal.State, names []string) (*Verification, error) {
	if len(names) > 0 {
		p, err := m.Load(ctx, m.Host.Live, names...)
		if err != nil {
			return nil, err
		}
		v, err := m.Verify(ctx, p, s)
		if err == nil {
			v.NotInForce, v.Applied = m.appliedBefore(s, names)
		}
		return v, err
	}
	p, _, err := m.InForce(ctx, s)
	if err != nil {
		return nil, err
	}
	v, err := m.VerifyInForce(ctx, p, s)
	if err == nil && p == nil && len(v.Values) == 0 {
		err = ui.Hinted(ui.Failed, errors.New("no profile is active; nothing to verify"), "apply a profile with fettle tune PROFILE, or compare with fettle verify PROFILE")
	}
	return v, err
}

// appliedBefore reports whether these profiles are not in force but an earlier transaction applied
// them.
func (m *Machine) appliedBefore(s *journal.State, names []string) (notInForce bool, applied string) {
	if m.NoJournal {
		return true, AppliedUnknown
	}
	applied = AppliedNever
	inForce := s.InForce()
	for _, t := range s.Txs {
		sel, err := SelectionOf(t)
		switch {
		case err != nil:
			applied = AppliedUnknown
		case sel == nil || !slices.Equal(sel.Profiles, names):
		case t == inForce:
			return false, ""
		default:
			applied = AppliedBefore
		}
	}
	return true, applied
}
