package tune

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
)

// Selection is a set of profiles with the content that was accepted. A boot applies that content
// even if a package has changed the profiles since.
type Selection struct {
	Profiles   []string `json:"profiles"`
	Mode       string   `json:"mode"` // auto, manual
	PostLoaded string   `json:"post_loaded,omitempty"`
	// Origin identifies the input from which a program made the selection, so a cluster node's
	// agent recognizes its own. It is "" for a user's selection.
	Origin string `json:"origin,omitempty"`
	// Accepted is the SHA-256 of the accepted content, which is stored as a file in the state
	// directory.
	Accepted string `json:"accepted"`

	content *accepted
}

// accepted is the accepted content: every file of the profiles, and the results of functions that
// ran programs.
type accepted struct {
	Snapshot *profile.Snapshot         `json:"snapshot"`
	Answers  map[string]profile.Answer `json:"answers,omitempty"`
}

// The modes of a selection.
const (
	ModeManual = "manual" // the user named the profiles
	ModeAuto   = "auto"   // fettle recommended them
)

// WithPostLoaded returns names, with the post-loaded profile added at the end if it is not among
// them.
func WithPostLoaded(names []string, post string) []string {
	if post == "" || slices.Contains(names, post) {
		return names
	}
	return append(slices.Clone(names), post)
}

// NewSelection makes a selection from loaded profiles. names are the requested profiles. If p has
// one more, that is the post-loaded profile.
func NewSelection(p *profile.Profile, names []string, mode string) (*Selection, error) {
	snapshot, err := p.Snapshot()
	if err != nil {
		return nil, err
	}
	s := &Selection{Profiles: names, Mode: mode, content: &accepted{Snapshot: snapshot, Answers: p.Answers}}
	if n := len(p.Names); n == len(names)+1 {
		s.PostLoaded = p.Names[n-1]
	}
	return s, nil
}

// store writes the content durably. Call it before a transaction refers to the content.
func (s *Selection) store(stateDir string, at func(string)) (json.RawMessage, error) {
	if s.content != nil {
		text, err := json.Marshal(s.content)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(text)
		s.Accepted = hex.EncodeToString(sum[:])
		at("selection:store")
		if err := storeOnce(filepath.Join(stateDir, "accepted"), s.Accepted+".json", text); err != nil {
			return nil, fmt.Errorf("cannot record the selected profiles; nothing changed: %w", err)
		}
		at("selection:stored")
	}
	return json.Marshal(s)
}

// storeOnce writes a file named after its content, unless the file exists.
func storeOnce(dir, name string, text []byte) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if st, err := os.Lstat(dir); err != nil || !st.IsDir() {
		return errors.Join(err, fmt.Errorf("refused: %s is not a directory", dir))
	}
	path := filepath.Join(dir, name)
	if st, err := os.Lstat(path); err == nil && st.Mode().IsRegular() && st.Size() == int64(len(text)) {
		return nil
	}
	return host.WriteFile(path, text, 0o600)
}

// SelectionOf returns the selection of a transaction, or nil.
func SelectionOf(t *journal.Tx) (*Selection, error) {
	if t == nil || t.Selection == nil {
		return nil, nil
	}
	var s Selection
	if err := json.Unmarshal(t.Selection, &s); err != nil {
		return nil, fmt.Errorf("selection of transaction %d: %w", t.ID, err)
	}
	return &s, nil
}

// load reads the accepted content unless it is loaded, and checks its SHA-256.
func (s *Selection) load(stateDir string) error {
	if s.content != nil {
		return nil
	}
	path := filepath.Join(stateDir, "accepted", s.Accepted+".json")
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cannot read the saved content of the selected profiles: %w", err)
	}
	sum := sha256.Sum256(text)
	if hex.EncodeToString(sum[:]) != s.Accepted {
		return fmt.Errorf("%s has changed since its profile was applied; accept the new content with fettle tune --update", path)
	}
	var c accepted
	if err := json.Unmarshal(text, &c); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	s.content = &c
	return nil
}

// Names returns the profiles to load: the selected ones, then the post-loaded one.
func (s *Selection) Names() []string { return WithPostLoaded(s.Profiles, s.PostLoaded) }

// Dirs returns path, followed by the other directories of the accepted selection (--profile-dir)
// that only root can change.
func (s *Selection) Dirs(h *host.Host, path []string) []string {
	if s.content == nil || s.content.Snapshot == nil {
		return path
	}
	all := slices.Clone(path)
	for _, d := range s.content.Snapshot.Dirs {
		if !slices.Contains(all, d) && profile.Trusted(h, d) == nil {
			all = append(all, d)
		}
	}
	return all
}

// LoadAccepted loads a selection's accepted content, with the recorded results of functions. base
// provides host, search path and main configuration. Scripts may be in the directories from the
// time of acceptance, if only root can change those.
func (e *Engine) LoadAccepted(ctx context.Context, s *Selection, base profile.Loader) (*profile.Profile, error) {
	if err := s.load(e.StateDir); err != nil {
		return nil, err
	}
	e.ProfileDirs = s.Dirs(e.Host, e.ProfileDirs)
	base.Snapshot, base.Answers = s.content.Snapshot, s.content.Answers
	base.Execute = false
	return base.Load(ctx, s.Names()...)
}
