package profile

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// TuneD's state files (consts.py). While fettle replaces TuneD it keeps them up to date, so that
// either can follow the other.
const (
	ActiveProfileFile     = "/etc/tuned/active_profile"
	ProfileModeFile       = "/etc/tuned/profile_mode"
	PostLoadedProfileFile = "/etc/tuned/post_loaded_profile"
)

// TunedStateFiles are the paths of TuneD's state files.
var TunedStateFiles = []string{ActiveProfileFile, ProfileModeFile, PostLoadedProfileFile}

// Mode is how the active profile was chosen.
type Mode string

const (
	// Auto means the recommended profile, evaluated again at each start.
	Auto Mode = "auto"
	// Manual means the user's choice.
	Manual Mode = "manual"
)

// State is the content of TuneD's state files: the preset for the next start.
type State struct {
	Active []string
	// Mode is never empty: if the file is empty, it is Manual with an active profile, else Auto.
	Mode       Mode
	PostLoaded string // "" if none
}

// ReadState reads TuneD's state files; missing ones are empty.
func ReadState(h *host.Host) (State, error) {
	var s State
	active, err := stateFile(h, ActiveProfileFile)
	if err != nil {
		return s, err
	}
	mode, err := stateFile(h, ProfileModeFile)
	if err != nil {
		return s, err
	}
	post, err := stateFile(h, PostLoadedProfileFile)
	if err != nil {
		return s, err
	}
	s.Active = strings.FieldsFunc(active, isSpace)
	switch Mode(mode) {
	case Auto, Manual:
		s.Mode = Mode(mode)
	case "":
		s.Mode = Auto
		if len(s.Active) > 0 {
			s.Mode = Manual
		}
	default:
		return s, fmt.Errorf("%s:1: %q: expected %q or %q", ProfileModeFile, clip(mode), Auto, Manual)
	}
	if len(strings.FieldsFunc(post, isSpace)) > 1 {
		return s, fmt.Errorf("%s:1: %q: only one profile can be post-loaded", PostLoadedProfileFile, clip(post))
	}
	s.PostLoaded = post
	return s, nil
}

func stateFile(h *host.Host, p string) (string, error) {
	b, err := h.Files.ReadFile(p)
	switch {
	case host.NotFound(err):
		return "", nil
	case err != nil:
		return "", err
	}
	return strip(string(b)), nil
}

// StateFiles returns the content of each state file for s, by path, in TuneD's format: at most one
// line each.
func (s State) StateFiles() map[string][]byte {
	line := func(text string) []byte {
		if text == "" {
			return []byte{}
		}
		return []byte(text + "\n")
	}
	return map[string][]byte{
		ActiveProfileFile:     line(strings.Join(s.Active, " ")),
		ProfileModeFile:       line(string(s.Mode)),
		PostLoadedProfileFile: line(s.PostLoaded),
	}
}

// WriteState writes the TuneD state files that differ from s, and creates their directory if
// needed. An existing file keeps its owner and mode.
func WriteState(h *host.Host, s State) error {
	for _, name := range append(append([]string{}, s.Active...), s.PostLoaded) {
		if name != "" && !ValidName(name) {
			return fmt.Errorf("profile name %q: want only letters, digits, \"_\", \".\" and \"-\"", name)
		}
	}
	if s.Mode != Auto && s.Mode != Manual {
		return fmt.Errorf("profile mode %q: expected %q or %q", s.Mode, Auto, Manual)
	}
	files := s.StateFiles()
	for _, p := range TunedStateFiles {
		old, err := h.Files.ReadFile(p)
		if err == nil && string(old) == string(files[p]) {
			continue
		}
		attr := host.Attr{Mode: 0o644}
		switch st, serr := h.Files.Stat(p); {
		case serr == nil:
			attr = host.AttrOf(st)
		case errors.Is(serr, fs.ErrNotExist):
			if len(files[p]) == 0 {
				continue
			}
			if merr := h.Files.Mkdir(path.Dir(p), 0o755); merr != nil && !errors.Is(merr, fs.ErrExist) {
				return merr
			}
		default:
			return serr
		}
		if err := h.Files.Replace(p, files[p], attr); err != nil {
			return err
		}
	}
	return nil
}
