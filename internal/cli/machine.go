package cli

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/quiet"
	"fettle.dev/fettle/internal/ui"
)

// system is the environment of a call. Tests replace parts of it.
type system struct {
	live     func() *host.Host // opens the machine without --root
	stateDir string            // default of --state-dir
	caller   func() host.Caller
	// crashPoint is called at each point at which a crash could leave an operation incomplete.
	crashPoint  func(point string)
	watchdogEnv []string // added to the environment of watchdogs
	// settle is how long prove observes the machine before the first run. shortest is the
	// minimum window of prove --live.
	settle, shortest time.Duration
}

func thisSystem() system {
	return system{live: host.Live, stateDir: journal.DefaultDir, caller: sync.OnceValue(host.Self), settle: 3 * time.Second, shortest: time.Second}
}

// host opens the machine: this machine, or the copy of --root.
func (a *app) host() (*host.Host, error) {
	if a.root == "" {
		return a.live(), nil
	}
	return cliutil.OpenRoot(a.screen, a.root)
}

// machine opens the machine for a change. An error in the configuration is returned before
// anything is changed.
func (a *app) machine(ctx context.Context) (*tune.Machine, error) {
	return a.open(ctx, func(err error) error { return err })
}

// machineAsIs opens the machine for operations that must work despite errors in the
// configuration, such as undo. It prints the errors.
func (a *app) machineAsIs(ctx context.Context) (*tune.Machine, error) {
	return a.open(ctx, func(err error) error {
		for line := range strings.Lines(err.Error()) {
			a.screen.Say("ignored: %s", strings.TrimSuffix(line, "\n"))
		}
		return nil
	})
}

// open opens the machine. It calls bad for each error in a configuration file, and continues
// if bad returns nil.
func (a *app) open(ctx context.Context, bad func(error) error) (*tune.Machine, error) {
	h, err := a.host()
	if err != nil {
		return nil, err
	}
	return a.machineOn(ctx, h, bad)
}

func (a *app) machineOn(ctx context.Context, h *host.Host, bad func(error) error) (*tune.Machine, error) {
	dirs, err := a.profileDirsOf(h)
	if err != nil {
		return nil, err
	}
	builtin, err := a.builtin(bad)
	if err != nil {
		return nil, err
	}
	m, err := tune.Open(ctx, &tune.Engine{
		Host: h, Kinds: audit.Kinds(h), Plugins: table.All, StateDir: a.state(), Caller: a.caller, Reason: withoutSecrets(a.asCommand), Note: a.note, At: a.crashPoint,
		Tell: func(text string) { a.screen.Say("%s", text) },
		Recovered: func(ctx context.Context, s *journal.State, ids []int) {
			quiet.LogMissed(h, quiet.StartMissed(ctx, h, s, ids))
		},
	}, builtin, dirs, bad)
	if err != nil {
		return nil, err
	}
	for _, w := range m.Main.Warnings {
		a.screen.SayOnce("ignored: " + w.String())
	}
	m.NoJournal = a.copied()
	return m, nil
}

// state returns the state directory.
func (a *app) state() string {
	switch {
	case a.stateFlag != "":
		return a.stateFlag
	case a.root != "":
		return "/nonexistent" // a copy has no journal of fettle
	}
	return a.stateDir
}

// warnState prints why the state directory would be refused if this call were not a dry run. Users
// other than root are refused anyway.
func (a *app) warnState() {
	if a.root != "" || a.mustBeRoot() != nil {
		return
	}
	if err := journal.Usable(a.state()); err != nil {
		a.screen.Say("without --dry-run: %v", err)
	}
}

// copied reports whether the machine is a copy without a journal.
func (a *app) copied() bool { return a.root != "" && a.stateFlag == "" }

// watchdog returns the command line and environment for starting this program as a watchdog.
func (a *app) watchdog() tune.Watchdog {
	w := tune.Watchdog{Env: a.watchdogEnv}
	if a.stateFlag != "" {
		w.Args = []string{"--state-dir", a.stateFlag}
	}
	return w
}

// profileDirsOf returns the directories of --profile-dir, which are inside --root if set.
func (a *app) profileDirsOf(h *host.Host) ([]string, error) {
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
			return nil, ui.Hinted(ui.Usage, fmt.Errorf("--profile-dir %s: %s does not contain the directory %s", d, h.Name, dirs[i]), "with --root, --profile-dir is a path inside that tree; copy the profiles into the tree")
		}
	}
	return dirs, nil
}
