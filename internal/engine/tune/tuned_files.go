package tune

import (
	"errors"
	"path"
	"slices"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
)

// tunedFiles returns TuneD's state files as they are, for the journal. A daemon that replaces TuneD
// writes them after the transaction. It returns nil if one of them cannot be read: then an undo
// leaves all of them.
func (e *Engine) tunedFiles() *journal.TunedFiles {
	f := &journal.TunedFiles{}
	for _, name := range profile.TunedStateFiles {
		text, err := e.Host.Files.ReadFile(name)
		switch {
		case host.NotFound(err):
		case err != nil:
			return nil
		default:
			if f.Texts == nil {
				f.Texts = map[string]string{}
			}
			f.Texts[name] = string(text)
		}
	}
	_, err := e.Host.Files.Stat(path.Dir(profile.ActiveProfileFile))
	f.NoDir = host.NotFound(err)
	return f
}

// restoreTuned restores the texts that TuneD's state files had before the transactions, which are
// ordered by age. It keeps a file whose text is not the one that the daemon wrote for one of the
// transactions, because TuneD or a user has written it since. It keeps all files if another
// selection is in force. ok is false if the journal lacks the texts.
func (e *Engine) restoreTuned(s *journal.State, txs []*journal.Tx) (ok bool, err error) {
	var before *journal.TunedFiles
	remains := s.InForce(txs...)
	written := map[string][]string{}
	for _, t := range txs {
		sel, err := SelectionOf(t)
		if err != nil || sel == nil || t.TuneD == nil || remains != nil && t.ID < remains.ID {
			continue
		}
		if before == nil {
			before = t.TuneD
		}
		for name, text := range (profile.State{Active: sel.Profiles, Mode: profile.Mode(sel.Mode), PostLoaded: sel.PostLoaded}).StateFiles() {
			if name != profile.PostLoadedProfileFile || sel.PostLoaded != "" { // otherwise the daemon leaves it
				written[name] = append(written[name], string(text))
			}
		}
	}
	if before == nil {
		return false, nil
	}
	var failed []error
	for _, name := range profile.TunedStateFiles {
		now, err := e.Host.Files.ReadFile(name)
		text, existed := before.Texts[name]
		switch {
		case err != nil && !host.NotFound(err):
			failed = append(failed, err)
		case err != nil || !slices.Contains(written[name], string(now)) || existed && text == string(now):
		case existed:
			failed = append(failed, replaceSaved(e.Host, name, []byte(text)))
		default:
			failed = append(failed, e.Host.Files.Remove(name))
		}
		e.at("tuned:" + path.Base(name))
	}
	if before.NoDir {
		_ = e.Host.Files.Remove(path.Dir(profile.ActiveProfileFile)) // stays if it has other files
	}
	return true, errors.Join(failed...)
}

// RestoreTuned restores TuneD's state files if a transaction was undone before a daemon had written
// the files for it. ok is false if the last transaction is not an undo, or if the journal lacks the
// files' texts.
func (e *Engine) RestoreTuned(s *journal.State) (ok bool, err error) {
	if len(s.Txs) == 0 {
		return false, nil
	}
	var txs []*journal.Tx
	for _, id := range s.Txs[len(s.Txs)-1].Undoes {
		if t := s.Tx(id); t != nil {
			txs = append(txs, t)
		}
	}
	return e.restoreTuned(s, txs)
}
