package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

// Why is the JSON form of fettle why.
type Why struct {
	Schema  string          `json:"schema"` // fettle/why/v1
	Setting setting.Setting `json:"setting"`
	Now     setting.Value   `json:"now"`
	// Claims are the wishes of others for this setting, in the order in which
	// they take effect: the last one wins.
	Claims []override.Claim `json:"claims"`
	// Coupled are claims on other settings whose writes change this one too.
	Coupled []WhyCoupled `json:"coupled,omitempty"`
	// Explained are reasons of the kernel's own for the value that it has now.
	Explained []string `json:"explained,omitempty"`
	// Tuners are the other tuners that run or are enabled.
	Tuners []WhyTuner `json:"tuners,omitempty"`
	// Changes are fettle's own, oldest first.
	Changes []WhyChange     `json:"changes"`
	Kept    *tune.KeepEntry `json:"kept,omitempty"`
	// KeptThrough is the kept place that a write of this one would change; empty
	// where keep.d names this one.
	KeptThrough *setting.Setting `json:"kept_through,omitempty"`
	// Wanted is what the selection in force wants; null where it wants nothing.
	Wanted *tune.Checked `json:"wanted"`
	// Within are, of a file, the values in it that the selection in force wants.
	Within []tune.Checked `json:"within,omitempty"`
	// Unread says what could not be read, and may have more claims.
	Unread []string `json:"unread,omitempty"`
	// NotRecorded are the files and directories that this copy does not record,
	// and that may have more claims.
	NotRecorded []string `json:"not_recorded,omitempty"`
	WhyWriter

	// tunersUnknown is true where it is not known which tuners run.
	tunersUnknown bool
}

// WhyChange is one change of fettle's that still stands.
type WhyChange struct {
	Tx   int       `json:"transaction"`
	Time time.Time `json:"time"`
	User string    `json:"user"`
	// Within is the setting whose value is in this file, where the change is
	// not of the file as a whole.
	Within *setting.Setting `json:"within,omitempty"`
	Before setting.Value    `json:"before"`
	Wanted setting.Value    `json:"wanted"`
	From   string           `json:"from"`
	// CoupledTo is the setting whose write may change this one too: the
	// transaction kept what was here, and wants nothing of it.
	CoupledTo *setting.Setting `json:"coupled_to,omitempty"`
	// Releases is true where the value went back because the new selection
	// does not set it any more.
	Releases bool `json:"releases,omitempty"`
}

// stamp is how moments are printed.
const stamp = "2006-01-02 15:04:05"

func whyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "why SETTING", Short: "Say why a setting has its value: who claims it, who wins, who wrote last", Args: cobra.ExactArgs(1),
		Example:           "  fettle why vm.dirty_ratio\n  fettle why /sys/block/sda/queue/scheduler",
		ValidArgsFunction: a.completeSettings,
		RunE:              func(c *cobra.Command, args []string) error { return a.why(c.Context(), args[0]) },
	}
}

func (a *app) why(ctx context.Context, name string) error {
	s, err := setting.Parse(name)
	if err != nil {
		return ui.Exit(ui.Usage, err)
	}
	m, err := a.machineAsIs(ctx)
	if err != nil {
		return err
	}
	id, err := m.kinds.Resolve(s)
	if err != nil {
		return ui.Exit(ui.Usage, err)
	}
	w := Why{Schema: "fettle/why/v1", Setting: id, Claims: []override.Claim{}, Changes: []WhyChange{}}
	state, err := m.state()
	if errors.Is(err, fs.ErrPermission) {
		w.Unread = append(w.Unread, "fettle's journal, which belongs to root: run it with sudo")
		state = &journal.State{}
	} else if err != nil {
		return err
	}
	chains := state.Chains()
	changes := m.within(chains, id)
	if len(changes) == 0 && isFile(id) {
		// A file's content is shown where it is a setting, not whatever it is.
		if err := m.kinds.CheckRequest(id, setting.Absent, m.loader.Dirs); err != nil {
			return err
		}
	}
	if w.Now, err = m.kinds.Read(ctx, id); err != nil {
		return fmt.Errorf("%s cannot be read: %w", id, err)
	}
	claims := m.claimsOf(ctx)
	tuners, tuned, err := m.tuners(ctx, claims)
	if unknown := m.tunersUnknown(err); unknown != "" {
		w.Unread, w.tunersUnknown = append(w.Unread, unknown), true
	}
	w.NotRecorded = claims.UnknownFor(id.Kind)
	w.Claims = append(w.Claims, claims.For(id)...)
	w.Coupled = m.coupledClaims(id, claims, w.Claims)
	w.Explained = m.kernelReasons(ctx, w)
	w.Tuners = m.whyTuners(id, tuners, tuned, w.Claims, w.Coupled)
	for _, en := range changes {
		c := WhyChange{Tx: en.Tx.ID, Time: en.Tx.Time, User: en.Tx.User, Before: en.Orig, Wanted: en.Want, From: en.Reason.String(), Releases: en.Releases}
		if n := en.CoupledTo; n > 0 && n <= len(en.Tx.Entries) {
			c.CoupledTo = &en.Tx.Entries[n-1].Setting
		}
		if en.Setting != id {
			c.Within = &en.Setting
		}
		w.Changes = append(w.Changes, c)
	}
	var none error // the machine has no such place
	if w.Now.Absent {
		none = m.missing(ctx, id)
	}
	if k, through, ok := m.engine.Kept(id, s); ok {
		w.Kept = &k
		if through != id {
			w.KeptThrough = &through
		}
	}
	if v, err := m.wanted(ctx, state); err != nil {
		w.Unread = append(w.Unread, fmt.Sprintf("what the selection in force wants: %v", err))
	} else if v != nil {
		for i, c := range v.Values {
			switch {
			case c.Setting == id:
				w.Wanted = &v.Values[i]
			case m.keptIn(c.Setting, id):
				w.Within = append(w.Within, c)
			}
		}
	}
	for _, what := range w.Unread {
		a.screen.Say("not read: %s", what)
	}
	unread := claims.Unread()
	for _, p := range unread { // each was said when it was not read
		w.Unread = append(w.Unread, p.String())
	}
	w.WhyWriter = m.lastWriter(ctx, id, w.Now, state)
	if a.data() {
		return a.result(w, none)
	}
	if none == nil || len(w.Claims)+len(w.Coupled)+len(w.Changes) > 0 || len(w.Within) > 0 || w.Wanted != nil || w.Kept != nil {
		a.printWhy(w, len(unread)+len(w.NotRecorded) > 0)
	}
	return none
}

// wanted is what the selection in force wants; nil where there is none.
func (m *machine) wanted(ctx context.Context, s *journal.State) (*tune.Verification, error) {
	p, _, err := m.inForce(ctx, s)
	if err != nil || p == nil {
		return nil, err
	}
	return m.engine.Verify(ctx, p, s)
}

// keptIn is true for a setting whose value is in the file.
func (m *machine) keptIn(s, file setting.Setting) bool {
	if file.Kind != "file" {
		return false
	}
	if s.Kind == "bootfile" || s.Kind == "initrd" { // the same place by another name
		return s.Name == file.Name
	}
	f, ok := m.kinds[s.Kind].(setting.FileLister)
	return ok && slices.Contains(f.Files(s), file.Name)
}

// within are the standing changes of a setting, oldest first; of a file also
// those of the values in it.
func (m *machine) within(chains map[setting.Setting][]*journal.Entry, id setting.Setting) []*journal.Entry {
	out := slices.Clone(chains[id])
	for s, chain := range chains {
		if m.keptIn(s, id) {
			out = append(out, chain...)
		}
	}
	slices.SortStableFunc(out, func(a, b *journal.Entry) int {
		return cmp.Or(cmp.Compare(a.Tx.ID, b.Tx.ID), cmp.Compare(a.Setting.String(), b.Setting.String()))
	})
	return out
}

// isFile is true for settings that are whole files.
func isFile(s setting.Setting) bool { return s.Kind == "file" || s.Kind == "bootfile" }
