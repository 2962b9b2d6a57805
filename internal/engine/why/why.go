// Package why explains the value of a setting: its claims, the winning one, the last writer, and
// fettle's changes. In: a setting and a machine. Out: Why, a document for people and programs. The
// verbs why, status and verify use it.
package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

// Why is the JSON form of fettle why.
type Why struct {
	Schema   string          `json:"schema"` // fettle/why/v1
	Headline ui.Headline     `json:"headline"`
	Setting  setting.Setting `json:"setting"`
	Now      setting.Value   `json:"now"`
	// Claims lists the values that other sources set, in the order of effect: the last one wins.
	Claims []override.Claim `json:"claims"`
	// Coupled lists claims on other settings whose writes also change this one.
	Coupled []Coupled `json:"coupled,omitempty"`
	// Explained lists the kernel's reasons for the current value.
	Explained []string `json:"explained,omitempty"`
	// Tuners lists the other tuners that run or are enabled.
	Tuners []Tuner `json:"tuners,omitempty"`
	// Changes lists fettle's own changes, oldest first.
	Changes []Change        `json:"changes"`
	Kept    *tune.KeepEntry `json:"kept,omitempty"`
	// KeptThrough is the kept setting that a write of this one would change; null if keep.d names
	// this setting itself.
	KeptThrough *setting.Setting `json:"kept_through,omitempty"`
	// Wanted is the selection's value for the setting, or null.
	Wanted *tune.Checked `json:"wanted"`
	// Within lists, for a file, the values in it that the selection sets.
	Within []tune.Checked `json:"within,omitempty"`
	// Unread lists files and directories that could not be read and may have more claims.
	Unread []string `json:"unread,omitempty"`
	// NotRecorded lists files and directories that this copy lacks and that may have more claims.
	NotRecorded []string `json:"not_recorded,omitempty"`
	Writer

	tunersUnknown bool // the running tuners are unknown
	partial       bool // some files with claims could not be read
}

// Change is a change by fettle that is still live.
type Change struct {
	Tx   int       `json:"transaction"`
	Time time.Time `json:"time"`
	User string    `json:"user"`
	// Within is the setting changed in this file; null if the whole file was changed.
	Within *setting.Setting `json:"within,omitempty"`
	Before setting.Value    `json:"before"`
	Wanted setting.Value    `json:"wanted"`
	From   string           `json:"from"`
	// CoupledTo is the written setting that may also have changed this one. The transaction
	// recorded this setting's value but did not write it.
	CoupledTo *setting.Setting `json:"coupled_to,omitempty"`
	// Releases is true if the value was restored because the new selection no longer sets it.
	Releases bool `json:"releases,omitempty"`
}

// Stamp is the time format of explanations.
const Stamp = "2006-01-02 15:04:05"

// Explain explains a setting. missing is true if this machine lacks it; w then still has the
// claims on it.
func Explain(ctx context.Context, m *tune.Machine, s setting.Setting) (w Why, missing, err error) {
	id, err := m.Kinds.Resolve(s)
	if err != nil {
		return w, nil, ui.Exit(ui.Usage, err)
	}
	w = Why{Schema: "fettle/why/v1", Setting: id, Claims: []override.Claim{}, Changes: []Change{}}
	state, err := m.ReadState()
	if errors.Is(err, fs.ErrPermission) {
		w.Unread = append(w.Unread, "fettle's journal, which only root can read; run with sudo")
		state = &journal.State{}
	} else if err != nil {
		return w, nil, err
	}
	chains := state.Chains()
	changes := within(m, chains, id)
	if len(changes) == 0 && isFile(id) {
		// Show only files that are settings.
		if err := m.Kinds.CheckRequest(id, setting.Absent, m.Loader.Dirs); err != nil {
			return w, nil, err
		}
	}
	if w.Now, err = m.Kinds.Read(ctx, id); err != nil {
		return w, nil, fmt.Errorf("%s cannot be read: %w", id, err)
	}
	claims := m.Claims(ctx)
	tuners, tuned, err := tuners(ctx, m, claims)
	if unknown := tunersUnknown(m, err); unknown != "" {
		w.Unread, w.tunersUnknown = append(w.Unread, unknown), true
	}
	w.NotRecorded = claims.UnknownFor(id.Kind)
	w.Claims = append(w.Claims, claims.For(id)...)
	w.Coupled = coupledClaims(m, id, claims, w.Claims)
	w.Explained = kernelReasons(ctx, m, &w)
	w.Tuners = whyTuners(m, id, tuners, tuned, w.Claims, w.Coupled)
	for _, en := range changes {
		c := Change{Tx: en.Tx.ID, Time: en.Tx.Time, User: en.Tx.User, Before: en.Orig, Wanted: en.Want, From: en.Reason.String(), Releases: en.Releases}
		if n := en.CoupledTo; n > 0 && n <= len(en.Tx.Entries) {
			c.CoupledTo = &en.Tx.Entries[n-1].Setting
		}
		if en.Setting != id {
			c.Within = &en.Setting
		}
		w.Changes = append(w.Changes, c)
	}
	if w.Now.Absent {
		missing = m.Missing(ctx, id)
	}
	if k, through, ok := m.Engine.Kept(id, s); ok {
		w.Kept = &k
		if through != id {
			w.KeptThrough = &through
		}
	}
	if v, err := wanted(ctx, m, state); err != nil {
		w.Unread = append(w.Unread, fmt.Sprintf("cannot determine the active profile's values: %v", err))
	} else if v != nil {
		for i, c := range v.Values {
			switch {
			case c.Setting == id:
				w.Wanted = &v.Values[i]
			case keptIn(m, c.Setting, id):
				w.Within = append(w.Within, c)
			}
		}
	}
	if m.Tell != nil {
		for _, what := range w.Unread {
			m.Tell("not read: " + what)
		}
	}
	unread := claims.Unread()
	for _, p := range unread { // reported while reading
		w.Unread = append(w.Unread, p.String())
	}
	w.Writer = lastWriter(ctx, m, id, w.Now, state)
	w.partial = len(unread)+len(w.NotRecorded) > 0
	w.Headline = w.summarize()
	return w, missing, nil
}

// Winners returns a function that returns the claim that sets a setting: of a file, of the kernel
// command line, or of TuneD's profile. For many settings of one machine it is faster than Explain,
// and it ignores fettle's own changes. It returns the resolved setting as well.
func Winners(ctx context.Context, m *tune.Machine) func(setting.Setting) (setting.Setting, override.Claim, bool) {
	claims := m.Claims(ctx)
	_, _, _ = tuners(ctx, m, claims) // adds the claims of TuneD's profile; without them the files remain
	return func(s setting.Setting) (setting.Setting, override.Claim, bool) {
		id, err := m.Kinds.Resolve(s)
		if err != nil {
			return s, override.Claim{}, false
		}
		c, ok := claims.Winner(id)
		return id, c, ok
	}
}

// Empty reports whether nothing is known about a setting.
func (w *Why) Empty() bool {
	return len(w.Claims)+len(w.Coupled)+len(w.Changes)+len(w.Within) == 0 && w.Wanted == nil && w.Kept == nil
}

// wanted verifies the selection in force and returns the result, or nil without a selection.
func wanted(ctx context.Context, m *tune.Machine, s *journal.State) (*tune.Verification, error) {
	p, _, err := m.InForce(ctx, s)
	if err != nil || p == nil {
		return nil, err
	}
	return m.Engine.Verify(ctx, p, s)
}

// keptIn reports whether a file stores the value of a setting.
func keptIn(m *tune.Machine, s, file setting.Setting) bool {
	if file.Kind != "file" {
		return false
	}
	if s.Kind == "initrd" { // another name of the same file
		return s.Name == file.Name
	}
	f, ok := m.Kinds[s.Kind].(setting.FileLister)
	return ok && slices.Contains(f.Files(s), file.Name)
}

// within returns the live changes of a setting, oldest first. For a file it includes changes of
// the values in it.
func within(m *tune.Machine, chains map[setting.Setting][]*journal.Entry, id setting.Setting) []*journal.Entry {
	out := slices.Clone(chains[id])
	for s, chain := range chains {
		if keptIn(m, s, id) {
			out = append(out, chain...)
		}
	}
	slices.SortStableFunc(out, func(a, b *journal.Entry) int {
		return cmp.Or(cmp.Compare(a.Tx.ID, b.Tx.ID), cmp.Compare(a.Setting.String(), b.Setting.String()))
	})
	return out
}

// isFile reports whether a setting is a whole file.
func isFile(s setting.Setting) bool { return s.Kind == "file" }
