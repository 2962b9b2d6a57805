package profile

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
)

// DefaultDirs is the default search path for profiles; later directories win. TuneD 2.20 reads the
// first and the third directory; 2.21 and later read the other two.
var DefaultDirs = []string{"/usr/lib/tuned", "/usr/lib/tuned/profiles", "/etc/tuned", "/etc/tuned/profiles"}

// SearchPath returns DefaultDirs, the profile_dirs of tuned-main.conf, and extra directories. A
// duplicate keeps its last position.
func SearchPath(main *MainConfig, extra ...string) []string {
	all := append(append(append([]string{}, DefaultDirs...), main.ProfileDirs...), extra...)
	last := map[string]int{}
	for i, d := range all {
		all[i] = path.Clean("/" + d)
		last[all[i]] = i
	}
	var dirs []string
	for i, d := range all {
		if last[d] == i {
			dirs = append(dirs, d)
		}
	}
	return dirs
}

// BuiltinDir stands for the directory of fettle's own profiles in paths; no machine has such a
// path.
const BuiltinDir = "builtin:"

const profileFile = "tuned.conf"

// IsBuiltin reports whether p is the path of one of fettle's own files.
func IsBuiltin(p string) bool { return strings.HasPrefix(p, BuiltinDir+"/") }

// ValidName reports whether TuneD accepts a profile name: letters, digits, "_",
// "." and "-" (profiles/loader.py, safe_name).
func ValidName(name string) bool {
	for i := 0; i < len(name); i++ {
		c := name[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '.' || c == '-') {
			return false
		}
	}
	return name != ""
}

func (l *Loader) dirs() []string {
	switch {
	case l.Snapshot != nil:
		return l.Snapshot.Dirs
	case l.Dirs != nil:
		return l.Dirs
	}
	return SearchPath(l.main())
}

// searchDirs returns all directories, lowest precedence first.
func (l *Loader) searchDirs() []string {
	return append([]string{BuiltinDir}, l.dirs()...)
}

// isFile reports whether p is a regular file or a link to one, as os.path.isfile does.
func (l *Loader) isFile(p string) bool {
	if l.Snapshot != nil {
		return l.Snapshot.file(p) != nil
	}
	if l.Pending[p] != nil {
		return true
	}
	st, err := l.stat(p)
	return err == nil && st.Mode().IsRegular()
}

func (l *Loader) stat(p string) (fs.FileInfo, error) {
	if name, ok := builtinName(p); ok {
		if l.Builtin == nil {
			return nil, fs.ErrNotExist
		}
		return fs.Stat(l.Builtin, name)
	}
	return l.Host.Files.Stat(p)
}

func (l *Loader) readFile(p string) ([]byte, error) {
	if l.Snapshot != nil {
		if f := l.Snapshot.file(p); f != nil {
			return f.Data, nil
		}
		return nil, &fs.PathError{Op: "read", Path: p, Err: fs.ErrNotExist}
	}
	if b := l.Pending[p]; b != nil {
		return b, nil
	}
	if name, ok := builtinName(p); ok {
		if l.Builtin == nil {
			return nil, fs.ErrNotExist
		}
		return fs.ReadFile(l.Builtin, name)
	}
	return l.Host.Files.ReadFile(p)
}

func (l *Loader) readDir(p string) ([]fs.DirEntry, error) {
	if name, ok := builtinName(p); ok {
		if l.Builtin == nil {
			return nil, fs.ErrNotExist
		}
		return fs.ReadDir(l.Builtin, name)
	}
	return l.Host.Files.ReadDir(p)
}

func builtinName(p string) (string, bool) {
	if p == BuiltinDir {
		return ".", true
	}
	return strings.CutPrefix(p, BuiltinDir+"/")
}

// Find returns the path of the tuned.conf that Load reads for a profile, or "".
func (l *Loader) Find(name string) string {
	file, _ := l.find(name, nil)
	return file
}

// find returns the tuned.conf of a profile in the last directory that has one, without files in
// read. So an /etc/tuned/x that includes x extends the vendor's x. seen is true if all existing
// files were in read.
func (l *Loader) find(name string, read map[string]bool) (file string, seen bool) {
	dirs := l.searchDirs()
	for i := len(dirs) - 1; i >= 0; i-- {
		file := path.Join(dirs[i], path.Base("/"+name), profileFile)
		if read[file] {
			seen = true
			continue
		}
		if l.isFile(file) {
			return file, false
		}
	}
	return "", seen
}

// ErrNoProfile is returned if a requested profile is not on the search path.
var ErrNoProfile = errors.New("no profile")

// ErrName is returned for an invalid profile name.
var ErrName = errors.New("want only letters, digits, \"_\", \".\" and \"-\"")

func (s *loading) notFound(name string, from Pos) error {
	where := strings.Join(s.dirs(), ", ")
	hint := ""
	if strings.Contains(name, "${") {
		hint = " (include= can use functions but not variables)"
	} else {
		hint = s.nearest(name)
	}
	if from.File == "" {
		return fmt.Errorf("%w %q in %s%s", ErrNoProfile, name, where, hint)
	}
	return errAt(from, "include: no profile %q in %s%s", name, where, hint)
}

// nearest returns a known profile with a similar name, for an error message.
func (s *loading) nearest(name string) string {
	list, err := s.List()
	if err != nil {
		return ""
	}
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = p.Name
	}
	if near := text.Suggest(name, names); near != "" {
		return near
	}
	for _, n := range names { // the beginning of a name: "virtual guest" has a blank too many
		if strings.HasPrefix(n, name+"-") {
			return fmt.Sprintf(" (did you mean %q?)", n)
		}
	}
	return ""
}

// Summary describes one profile in a list.
type Summary struct {
	Name        string `json:"name"`
	Summary     string `json:"summary,omitempty"`
	Description string `json:"description,omitempty"`
	Path        string `json:"path"` // path of its tuned.conf
	Builtin     bool   `json:"builtin"`
	// Err is the reason why the profile cannot be read. Errors of its includes are not detected.
	Err error `json:"-"`
}

// List returns every profile on the search path, sorted by name. Among profiles with the same name
// it returns the one that Load uses. An unreadable profile is listed with its error.
func (l *Loader) List() ([]Summary, error) {
	byName := map[string]Summary{}
	for _, dir := range l.searchDirs() {
		names, err := l.profileNames(dir)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			file := path.Join(dir, name, profileFile)
			if l.isFile(file) {
				byName[name] = Summary{Name: name, Path: file, Builtin: dir == BuiltinDir}
			}
		}
	}
	list := make([]Summary, 0, len(byName))
	for _, s := range byName {
		l.describe(&s)
		list = append(list, s)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list, nil
}

func (l *Loader) profileNames(dir string) ([]string, error) {
	if l.Snapshot != nil {
		return l.Snapshot.profileNames(dir), nil
	}
	entries, err := l.readDir(dir)
	if err != nil {
		if host.NotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("list profiles: %w", err)
	}
	var names []string
	for _, e := range entries {
		if ValidName(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// describe fills in s from the attributes of [main].
func (l *Loader) describe(s *Summary) {
	data, err := l.readFile(s.Path)
	if err != nil {
		s.Err = err
		return
	}
	conf, err := parseConfig(s.Path, data, parseSyntax{})
	if err != nil {
		s.Err = err
		// As in TuneD, the list shows the summary of a profile with a line without "=", although
		// the profile cannot be loaded.
		if conf, err = parseConfig(s.Path, data, parseSyntax{noValue: true}); err != nil {
			return
		}
	}
	main := conf.section(mainSection)
	if main == nil {
		return
	}
	for _, e := range conf.options(main) {
		switch e.key {
		case "summary":
			s.Summary = e.value
		case "description":
			s.Description = e.value
		}
	}
}
