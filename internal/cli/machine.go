package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	components "fettle.dev/fettle/internal/product/table"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/profiles"
)

// crashPoint is called at each point at which a crash could leave something half
// done; only the tests set it, to end the process there.
var crashPoint func(point string)

// machine is one machine with everything that acts on it, wired by hand.
type machine struct {
	*app
	host   *host.Host
	kinds  setting.Kinds
	main   *profile.MainConfig
	loader profile.Loader
	engine *tune.Engine
	claims *override.Claims
	// sysctls are the claims of the sysctl files alone: what tune and verify
	// ask, and less than half of their time would go into reading the others.
	sysctls *override.Claims
	said    map[override.Problem]bool
	// atWork is the process whose transaction is under way; empty for none.
	atWork string
}

// live is the machine that is tuned where no --root is given, and stateDir where
// its journal is; only the tests put another in their place.
var (
	live            = host.Live
	defaultStateDir = journal.DefaultDir
)

// host opens the machine without what acts on it.
func (a *app) host() (*host.Host, error) {
	if a.root == "" {
		return live(), nil
	}
	h, err := host.OpenRoot(a.root)
	if err != nil {
		return nil, ui.Hinted(ui.Usage, err, "--root takes a directory or an archive made by fettle facts --archive")
	}
	if h.Incomplete != "" {
		a.screen.Say("%s", h.Incomplete)
	}
	return h, nil
}

// machine opens the machine that the command line names. What is not to be
// understood in its configuration is refused before anything is changed.
func (a *app) machine(ctx context.Context) (*machine, error) {
	return a.open(ctx, func(err error) error { return err })
}

// machineAsIs opens the machine for what has to work whatever its configuration
// looks like: to give values back, and to look. What is not to be understood
// there is said and left out.
func (a *app) machineAsIs(ctx context.Context) (*machine, error) {
	return a.open(ctx, func(err error) error {
		for line := range strings.Lines(err.Error()) {
			a.screen.Say("%s: left out", strings.TrimSuffix(line, "\n"))
		}
		return nil
	})
}

// open opens the machine that the command line names; it goes on where bad, given what is wrong with a
// configuration file, returns nil.
func (a *app) open(ctx context.Context, bad func(error) error) (*machine, error) {
	h, err := a.host()
	if err != nil {
		return nil, err
	}
	return a.machineOn(ctx, h, bad)
}

func (a *app) machineOn(ctx context.Context, h *host.Host, bad func(error) error) (m *machine, err error) {
	m = &machine{app: a, host: h, kinds: table.Kinds(h)}
	maps.Copy(m.kinds, components.Kinds(h))
	m.kinds[tunerKind] = tuner{h, m.kinds["unit"]}
	if m.main, err = profile.ReadMain(h); err != nil {
		if err := bad(err); err != nil {
			return nil, err
		}
		m.main = profile.DefaultMain()
	}
	for _, w := range m.main.Warnings {
		a.sayOnce(w.String() + ": left out")
	}
	dirs, err := a.searchedToo(h)
	if err != nil {
		return nil, err
	}
	m.loader = profile.Loader{Host: h, Dirs: profile.SearchPath(m.main, dirs...), Builtin: profiles.FS, Main: m.main}
	keep, err := tune.ReadKeep(h, m.kinds)
	if err != nil {
		if err := bad(err); err != nil {
			return nil, err
		}
	}
	stateDir := a.stateDir
	if stateDir == "" {
		stateDir = defaultStateDir
		if a.root != "" {
			stateDir = "/nonexistent" // a copy has no journal of ours
		}
	}
	m.engine = &tune.Engine{
		Host: h, Kinds: m.kinds, Plugins: table.All, StateDir: stateDir, Keep: keep, Main: m.main,
		ProfileDirs: m.loader.Dirs, Caller: runBy, Reason: a.asCommand, Note: a.note, At: crashPoint,
		Tell:       func(text string) { a.screen.Say("%s", text) },
		Overridden: func(s setting.Setting) (tune.Override, bool) { return m.overridden(ctx, s) },
	}
	return m, nil
}

// searchedToo are the directories of --profile-dir: this process's, or with --root
// those of the tree.
func (a *app) searchedToo(h *host.Host) ([]string, error) {
	dirs := slices.Clone(a.profileDirs)
	for i, d := range dirs {
		var err error
		if a.root != "" {
			dirs[i] = path.Clean("/" + d)
		} else if dirs[i], err = filepath.Abs(d); err != nil {
			return nil, err
		}
		if a.root == "" {
			continue
		}
		if _, err := h.Files.Stat(dirs[i]); err != nil {
			return nil, ui.Hinted(ui.Usage, fmt.Errorf("--profile-dir %s: %s has no %s", d, h.Name, dirs[i]), "with --root it is a path inside that tree: copy the profiles there")
		}
	}
	return dirs, nil
}

// sayOnce says what would be said again each time that the daemon opens the
// machine.
func (a *app) sayOnce(text string) {
	if _, said := a.once.LoadOrStore(text, true); !said {
		a.screen.Say("%s", text)
	}
}

// overridden asks the administrator's files, read once and only if somebody
// asks.
func (m *machine) overridden(ctx context.Context, s setting.Setting) (tune.Override, bool) {
	if s.Kind != "sysctl" || !m.main.ReapplySysctl {
		return tune.Override{}, false
	}
	for _, pattern := range m.main.ReapplySysctlExclude {
		if profile.Fnmatch(pattern, s.Name) {
			return tune.Override{}, false
		}
	}
	c, ok := m.sysctlClaims(ctx).Administrator(s)
	if !ok {
		return tune.Override{}, false
	}
	return tune.Override{Setting: c.Setting, Value: c.Value, File: c.File, Line: c.Line, Text: c.Text}, true
}

func (m *machine) claimsOf(ctx context.Context) *override.Claims {
	if m.claims == nil {
		m.claims = m.readClaims(ctx)
		m.sysctls = m.claims
	}
	return m.claims
}

func (m *machine) sysctlClaims(ctx context.Context) *override.Claims {
	if m.sysctls == nil {
		m.sysctls = m.readClaims(ctx, override.Sysctl)
	}
	return m.sysctls
}

func (m *machine) readClaims(ctx context.Context, only ...override.Source) *override.Claims {
	c, problems := override.Read(ctx, m.host, m.kinds, only...)
	if ctx.Err() != nil {
		return c // what was not read any more is no problem of the machine's
	}
	for _, p := range problems {
		if !m.said[p] {
			m.screen.Say("%s", p)
			if m.said == nil {
				m.said = map[override.Problem]bool{}
			}
			m.said[p] = true
		}
	}
	return c
}

// inForce loads the selection in force as it was accepted; nil where there is
// none.
func (m *machine) inForce(ctx context.Context, s *journal.State) (*profile.Profile, *tune.Selection, error) {
	sel, err := tune.SelectionOf(s.InForce())
	if err != nil || sel == nil {
		return nil, nil, err
	}
	p, err := m.engine.LoadAccepted(ctx, sel, m.loader)
	m.loader.Dirs = sel.Dirs(m.host, m.loader.Dirs) // where a newer definition is looked for
	return p, sel, err
}

// load loads profiles, with the post-loaded one, if there is one, last.
func (m *machine) load(ctx context.Context, execute bool, names ...string) (*profile.Profile, error) {
	l := m.loader
	l.Execute = execute
	p, err := l.Load(ctx, names...)
	if err != nil {
		return nil, m.explain(err, names)
	}
	return p, nil
}

func (m *machine) explain(err error, names []string) error {
	if host.NotFound(err) || errors.Is(err, profile.ErrNoProfile) || errors.Is(err, profile.ErrName) {
		return ui.Hinted(ui.Usage, err, "fettle list shows the profiles there are")
	}
	return err
}

// state reads the journal, and says what is wrong with it.
func (m *machine) state() (*journal.State, error) {
	s, err := m.engine.State()
	if err != nil {
		return nil, m.unread(err)
	}
	if len(s.Interrupted()) > 0 {
		// Without anybody at work what the journal has not closed was cut off,
		// unless it has been closed in between.
		if m.atWork = journal.Holder(m.engine.StateDir); m.atWork == "" {
			if s, err = m.engine.State(); err != nil {
				return nil, m.unread(err)
			}
		}
	}
	for _, d := range s.Damage {
		m.screen.Say("the journal is damaged: %s", d)
	}
	m.sayTorn(s)
	for _, t := range s.Interrupted() {
		if m.atWork != "" {
			m.screen.Say("transaction %d (%s) is under way: %s", t.ID, t.Reason, m.atWork)
			continue
		}
		m.screen.Say("transaction %d (%s) was cut off; fettle undo or the next tune takes it back", t.ID, t.Reason)
	}
	return s, nil
}

// sayTorn tells of a last record that is not whole. It is no damage: a crash leaves
// that, and nothing was done on such a record.
func (m *machine) sayTorn(s *journal.State) {
	if s.Torn {
		m.screen.Say("the journal ends in the middle of a record: fettle was stopped as it wrote that, or the file has been cut off, and then what followed is not known")
	}
}

// unread turns the error of a journal that only root may read into one that says
// so.
func (m *machine) unread(err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return &ui.Error{Code: ui.Failed, Err: fmt.Errorf("the journal in %s belongs to root: what fettle has changed is not known here: %w", m.engine.StateDir, err), Remedy: &ui.Remedy{Root: true}}
}

// stateIfReadable is state for verbs that have something to say without the
// journal too: where it is not for this user to read, that is said, and nothing
// of fettle's is known.
func (m *machine) stateIfReadable() (*journal.State, error) {
	s, err := m.state()
	if errors.Is(err, fs.ErrPermission) {
		m.screen.Say("the journal belongs to root: what fettle has changed is not known here; run it with sudo")
		return &journal.State{}, nil
	}
	return s, err
}
