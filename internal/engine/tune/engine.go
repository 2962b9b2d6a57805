// Package tune turns changes into a plan against what the machine has now,
// applies it through the journal, verifies it and takes it back.
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

// Engine tunes one machine.
type Engine struct {
	Host  *host.Host
	Kinds setting.Kinds
	// Plugins is the table of plug-ins by section type.
	Plugins []plugin.Plugin
	// StateDir holds journal, lock and accepted selections.
	StateDir string
	// Main is tuned-main.conf.
	Main *profile.MainConfig
	// Keep names the settings that are never written.
	Keep Keep
	// Overridden answers which administrator's file claims a setting; nil
	// where nobody is asked.
	Overridden func(setting.Setting) (Override, bool)
	// ProfileDirs are the directories that profiles are read from.
	ProfileDirs []string
	// Holds is true in a process that lives on, so that values can be held by
	// an open descriptor; otherwise they are planned as needs-daemon.
	Holds bool
	// Arrived names devices that have just come, perhaps in the place of others
	// that had their names: what the journal knows of those is not theirs.
	Arrived map[string]bool
	// User and Reason go into the journal: who, and with which command. Caller is
	// who as the kernel knows it, and then overrides User; nil where it is not
	// known. Note is the reason that was given. A context of ByCaller overrides
	// both.
	User, Reason string
	Caller       func() host.Caller
	Note         string
	// Wait is how long a transaction waits for another one to end; 0: it does not,
	// and is refused with ErrBusy.
	Wait time.Duration
	// Tell is called with what programs that a value runs, such as scripts,
	// complained of although it stands, and with what a transaction may disturb;
	// nil where nobody listens.
	Tell func(text string)
	// At is called at each point at which a crash could leave something half
	// done: before and after each write and each journal operation. Tests end
	// the process there.
	At func(point string)
}

// Override is an administrator's claim that beats a profile's.
type Override struct {
	// Setting is what the file names: the one asked for, or its twin, whose
	// write would undo it (dirty_bytes for dirty_ratio).
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

// heard tells what was complained of in a write that stands, and returns every
// other error.
func (e *Engine) heard(s setting.Setting, err error) error {
	c, ok := err.(*setting.ProgramWarning) //nolint:errorlint // one that is joined with a failure is a failure
	if !ok {
		return err
	}
	if e.Tell != nil {
		e.Tell(fmt.Sprintf("%s: %s", s, c.Text))
	}
	return nil
}

// bootID names this boot; where the machine has none (a fake tree) all boots
// are one.
func (e *Engine) bootID() string {
	id, err := e.Host.BootID()
	if err != nil {
		return ""
	}
	return id
}

// State reads the journal without a lock.
func (e *Engine) State() (*journal.State, error) {
	s, err := journal.Read(e.StateDir, e.bootID())
	if err == nil {
		e.oneName(s)
	}
	return s, err
}

// lock takes the lock of the machine's transactions, and waits for it as long as the
// engine is asked to, or until ctx ends. Transactions are short: who asks every few
// milliseconds gets it between those of somebody who makes one after the other.
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
			e.oneName(j.State)
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

// oneName gives places that an older fettle has recorded under a second name
// the one identity that they have now, so that all entries of a place are one
// chain. Switches set the same places again and again: each is looked up once.
func (e *Engine) oneName(s *journal.State) {
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

// plugin finds a plug-in by its section type.
func (e *Engine) plugin(name string) (*plugin.Plugin, bool) {
	for i := range e.Plugins {
		if e.Plugins[i].Name == name {
			return &e.Plugins[i], true
		}
	}
	return nil, false
}

// underneath answers what a setting holds without the selection that is in
// force: the before-image of the lowest entry that the selection's own
// transactions put there, with nothing of anybody else's above it.
type underneath struct {
	engine *Engine
	chains map[setting.Setting][]*journal.Entry
}

func newUnderneath(e *Engine, s *journal.State) underneath {
	return underneath{e, s.Chains()}
}

// selectionEntry is true for entries that came with a selection of profiles.
func selectionEntry(en *journal.Entry) bool {
	return en.Tx.Kind == journal.Tune || en.Tx.Kind == journal.Boot
}

// released is what the place goes back to when the selection lets go of it;
// false where the selection has nothing there, or a later single change stands
// above it.
func (u underneath) released(s setting.Setting) (setting.Value, bool) {
	chain := u.chains[s]
	if len(chain) == 0 || !selectionEntry(chain[len(chain)-1]) {
		return setting.Value{}, false
	}
	i := len(chain) - 1
	for i > 0 && selectionEntry(chain[i-1]) {
		i--
	}
	return chain[i].Before.Before, true
}

// value reads a setting as it would be without the selection in force.
func (u underneath) value(ctx context.Context, s setting.Setting) (setting.Value, error) {
	id, err := u.engine.Kinds.Resolve(s)
	if err != nil {
		return setting.Value{}, err
	}
	if v, ok := u.released(id); ok {
		return v, nil
	}
	return u.engine.Kinds.Read(ctx, id)
}

// Problem is something about a profile that a person should know.
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
