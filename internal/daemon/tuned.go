package daemon

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
)

// Differences lists the intended differences from TuneD's daemon; docs/daemon-tuned.md prints
// them.
var Differences = []profile.Difference{
	{
		ID: "rollback-on-exit", Versions: "all",
		TuneD:  "rollback=auto (the default) undoes the tuning when the daemon ends and the machine is not shutting down; not_on_exit keeps it",
		Fettle: "values stay when the daemon ends, regardless of this key, and the journal can undo them without it; values that need an open file descriptor end with the process. The methods stop and disable undo the tuning",
		Why:    "a restart for an upgrade must not be a moment without tuning (outages: OCPBUGS-13065)",
		Source: "daemon/daemon.py, _thread_code; tuned-main.conf",
	},
	{
		ID: "accepted-content", Versions: "all",
		TuneD:  "a start reads the current files of the profile",
		Fettle: "a start applies the profile as it was when it was selected; reload and switch_profile read the current files",
		Why:    "the upgrade of a package must not change values without the administrator",
		Source: "daemon/daemon.py, _init_profile",
	},
	{
		ID: "start-is-done", Versions: "all",
		TuneD:  "start and switch_profile reply before the values are written",
		Fettle: "they reply when the values are written, and send profile_changed at the same time",
		Why:    "writing the values takes only milliseconds",
		Source: "daemon/daemon.py, start",
	},
	{
		ID: "failed-switch", Versions: "all",
		TuneD:  "a switch to a profile that cannot be loaded undoes the old profile and applies it again",
		Fettle: "the old profile stays in force unchanged",
		Why:    "bad input is refused before anything is changed",
		Source: "daemon/controller.py, _switch_profile",
	},
}

// preset returns the profile of TuneD's state files if they are newer than fettle's last decision:
// TuneD or the user has written them since. In auto mode it evaluates the recommendation at each
// start, as TuneD does.
func (d *Daemon) preset(ctx context.Context, m *Machine, txs []*journal.Tx, sel *tune.Selection) (names []string, mode string, ok bool, err error) {
	h := m.Engine.Host
	state, err := profile.ReadState(h)
	if err != nil {
		return nil, "", false, err
	}
	at, by := decided(txs)
	var written time.Time
	for _, f := range []string{profile.ActiveProfileFile, profile.ProfileModeFile} {
		st, err := h.Files.Stat(f)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, "", false, err
		}
		if st.ModTime().After(written) {
			written = st.ModTime()
		}
	}
	if by != nil && !written.After(at) {
		// fettle's decision is newer; only the recommendation may change.
		if sel == nil || sel.Mode != tune.ModeAuto {
			return nil, "", false, nil
		}
		state = profile.State{Mode: profile.Auto}
	}
	if state.Mode == profile.Auto {
		r, err := m.Loader.Recommend(ctx)
		if err != nil {
			return nil, "", false, err
		}
		d.log.say(LevelInfo, "automatic mode: %s is recommended for this machine", r.Profile)
		state.Active = []string{r.Profile}
	}
	if len(state.Active) == 0 && state.PostLoaded == "" {
		return nil, "", false, nil
	}
	if sel != nil && slices.Equal(sel.Profiles, state.Active) && sel.Mode == string(state.Mode) && (by == nil || !written.After(at) || sel.PostLoaded == state.PostLoaded) {
		return nil, "", false, nil // already selected: keep the accepted content
	}
	return state.Active, string(state.Mode), true, nil
}

// keepState writes the selection into TuneD's state files.
func (d *Daemon) keepState(m *Machine) {
	if !d.TuneD {
		return
	}
	state := profile.State{Mode: profile.Manual}
	if old, err := profile.ReadState(m.Engine.Host); err == nil {
		state.PostLoaded = old.PostLoaded
	}
	if sel := d.selection; sel != nil {
		state.Active, state.Mode = sel.Profiles, profile.Mode(sel.Mode)
		if sel.PostLoaded != "" {
			state.PostLoaded = sel.PostLoaded
		}
	}
	if err := profile.WriteState(m.Engine.Host, state); err != nil {
		d.log.say(LevelError, "cannot write TuneD's state files: %v", err)
	}
}

// restoreState repairs TuneD's state files after an undo by another process, which has restored
// them: keepState may have written them meanwhile.
func (d *Daemon) restoreState(m *Machine, s *journal.State) {
	if !d.TuneD {
		return
	}
	ok, err := m.Engine.RestoreTuned(s)
	if err != nil {
		d.log.say(LevelError, "cannot restore TuneD's state files: %v", err)
	}
	if !ok { // of an older version of fettle
		d.keepState(m)
	}
}
