// Package tune plans profiles and single changes against the machine's current values. It applies
// a plan through the journal, verifies it and undoes it.
package tune

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// Engine applies, verifies and undoes changes on one machine.
type Engine struct {
	Host  *host.Host
	Kinds setting.Kinds
	// Plugins is the table of plug-ins by section type.
	Plugins []plugin.Plugin
	// StateDir contains the journal, the lock and the accepted selections.
	StateDir string
	// Main is the content of tuned-main.conf.
	Main *profile.MainConfig
	// Keep lists the settings that are never written.
	Keep Keep
	// Overridden returns the line of an administrator's file that sets a setting. It is nil if
	// files do not override profiles.
	Overridden func(setting.Setting) (Override, bool)
	// ProfileDirs are the directories with profiles.
	ProfileDirs []string
	// Holds is true in the daemon, which can hold values with an open descriptor. Otherwise such
	// values are planned as needs-daemon.
	Holds bool
	// Arrived names new devices. Journal entries with these names may belong to earlier devices
	// and do not apply.
	Arrived map[string]bool
	// User and Reason are recorded in the journal: the user and the command. Caller, if not nil,
	// returns the caller according to the kernel and overrides User. Note is the user's own
	// reason. A context from ByCaller overrides User and Caller.
	User, Reason string
	Caller       func() host.Caller
	Note         string
	// KeepTuned makes an undo leave TuneD's state files as they are.
	KeepTuned bool
	// Wait is the maximum time that a transaction waits for another one; then it returns
	// journal.ErrBusy.
	Wait time.Duration
	// Tell, if not nil, is called with warnings about programs that a value runs, such as scripts,
	// and about experiments that a transaction may disturb.
	Tell func(text string)
	// Recovered, if not nil, is called after fettle has undone transactions on its own initiative:
	// interrupted ones and expired trials. s is the journal's state afterwards.
	Recovered func(ctx context.Context, s *journal.State, ids []int)
	// At is called at each point where a crash could leave incomplete work: before and after each
	// write and each journal operation. Tests end the process there.
	At func(point string)
}

// Override is a line of an administrator's file that overrides a profile.
type Override struct {
	// Setting is the setting in the file: the setting itself, or its counterpart, whose value
	// would undo the profile's (dirty_bytes for dirty_ratio).
	Setting setting.Setting `json:"setting"`
	Value   setting.Value   `json:"value"`
	File    string          `json:"file"`
	Line    int             `json:"line"`
	Text    string          `json:"text,omitempty"`
}

func (o Override) String() string { return fmt.Sprintf("%s:%d", o.File, o.Line) }

func (e *Engine) at(point string) {
	if e.At != nil {
		e.At(point)
	}
}

// warning passes the warning of a successful write to Tell and returns nil. It returns any other
// error.
func (e *Engine) warning(s setting.Setting, err error) error {
	c, ok := err.(*setting.ProgramWarning) //nolint:errorlint // one that is joined with a failure is a failure
	if !ok {
		return err
	}
	if e.Tell != nil {
		e.Tell(fmt.Sprintf("%s: %s", s, c.Text))
	}
	return nil
}

// bootID returns the id of this boot, or "" if it cannot be read.
func (e *Engine) bootID() string {
	id, err := e.Host.BootID()
	if err != nil {
		return ""
	}
	return id
}

// State reads the journal without locking it.
func (e *Engine) State() (*journal.State, error) {
	s, err := journal.Read(e.StateDir, e.bootID())
	if err == nil {
		e.resolveNames(s)
	}
	return s, err
}

// lock locks the machine's journal. It waits up to Wait, or until ctx ends. It retries every few
// milliseconds, which finds the gaps between short successive transactions of another process.
func (e *Engine) lock(ctx context.Context) (*journal.Journal, error) {
	const pause = 3 * time.Millisecond
	var wait context.CancelFunc
	if e.Wait > 0 {
		ctx, wait = context.WithTimeout(ctx, e.Wait)
		defer wait()
	}
	for {
		j, err := journal.Lock(e.StateDir, journal.Options{BootID: e.bootID(), At: e.At})
		if err == nil {
			e.resolveNames(j.State)
		}
		if wait == nil || !errors.Is(err, journal.ErrBusy) {
			return j, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
		}
	}
}

// resolveNames resolves settings that an older fettle recorded under a second name. All entries of
// a setting are then one chain. Each name is resolved once.
func (e *Engine) resolveNames(s *journal.State) {
	identity := map[setting.Setting]setting.Setting{}
	for _, t := range s.Txs {
		for _, en := range t.Entries {
			if !en.IsLive() || en.Setting.Kind != "sysfs" && en.Setting.Kind != "sysctl" {
				continue
			}
			id, known := identity[en.Setting]
			if !known {
				var err error
				if id, err = e.Kinds.Resolve(en.Setting); err != nil {
					id = en.Setting
				}
				identity[en.Setting] = id
			}
			en.Setting = id
		}
	}
}

// Problem is a warning about a profile.
type Problem struct {
	Pos  profile.Pos `json:"pos"`
	Text string      `json:"text"`
}

func (p Problem) String() string {
	if p.Pos.File == "" {
		return p.Text
	}
	return p.Pos.String() + ": " + p.Text
}
