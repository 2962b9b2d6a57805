package postgresql

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strings"

	"fettle.dev/fettle/internal/component/conf"
	"fettle.dev/fettle/internal/host"
)

// maxDepth is how deep files may include each other (CONF_FILE_MAX_DEPTH).
const maxDepth = 10

// autoConf is what ALTER SYSTEM writes; the server reads it last.
const autoConf = "postgresql.auto.conf"

// settings is what the files of one cluster say.
type settings struct {
	// all are the assignments in the order in which the server reads them.
	all []conf.Place
	// dir is the data directory, as the files or the place of the main one say.
	dir string
}

// winner is the assignment that counts: the last.
func (s settings) winner(key string) (conf.Place, bool) {
	for i := len(s.all) - 1; i >= 0; i-- {
		if s.all[i].Key == key {
			return s.all[i], true
		}
	}
	return conf.Place{}, false
}

// readSettings reads a cluster's main file, what it includes, and what ALTER
// SYSTEM has left in the data directory.
func readSettings(h *host.Host, main string) (settings, error) {
	r := reader{host: h}
	if err := r.file(main, 0, true); err != nil {
		return settings{}, err
	}
	s := settings{all: r.all, dir: path.Dir(main)}
	if p, ok := s.winner("data_directory"); ok {
		if dir := (syntax{}).Unquote(p.Literal); strings.HasPrefix(dir, "/") {
			s.dir = path.Clean(dir)
		}
	}
	err := r.file(path.Join(s.dir, autoConf), 0, false)
	s.all = r.all
	return s, err
}

type reader struct {
	host  *host.Host
	all   []conf.Place
	open  []string // the files that include each other at the moment
	files int
}

// maxFiles is more than anybody has: a directory of a copy may hold anything.
const maxFiles = 1000

// file reads one file; must says that it has to be there.
func (r *reader) file(name string, depth int, must bool) error {
	if depth > maxDepth {
		return fmt.Errorf("%s: the files include each other more than %d deep: %s", name, maxDepth, strings.Join(r.open, " > "))
	}
	if slices.Contains(r.open, name) {
		return fmt.Errorf("%s includes itself: %s > %s", name, strings.Join(r.open, " > "), name)
	}
	if r.files++; r.files > maxFiles {
		return fmt.Errorf("%s: more than %d files", name, maxFiles)
	}
	text, err := r.host.Files.ReadFile(name)
	switch {
	case errors.Is(err, host.ErrNotRecorded):
		return err // what it says may win
	case errors.Is(err, fs.ErrNotExist) && !must:
		return nil
	case err != nil:
		return err
	}
	r.open = append(r.open, name)
	defer func() { r.open = r.open[:len(r.open)-1] }()
	all, err := syntax{}.Assignments(string(text))
	if err != nil {
		return fmt.Errorf("%s:%w", name, err)
	}
	for _, a := range all {
		at := conf.Place{File: name, Assignment: a}
		value := syntax{}.Unquote(a.Literal)
		switch a.Key {
		case "include", "include_if_exists":
			err = r.file(beside(name, value), depth+1, a.Key == "include")
		case "include_dir":
			err = r.dir(beside(name, value), depth+1)
		default:
			r.all = append(r.all, at)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
	}
	return nil
}

func beside(file, name string) string {
	if strings.HasPrefix(name, "/") {
		return path.Clean(name)
	}
	return path.Join(path.Dir(file), name)
}

// dir reads the *.conf of a directory in the order of their bytes, without
// hidden ones (GetConfFilesInDir).
func (r *reader) dir(name string, depth int) error {
	entries, err := r.host.Files.ReadDir(name)
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		if n := e.Name(); strings.HasSuffix(n, ".conf") && len(n) > len(".conf") && n[0] != '.' {
			if st, err := r.host.Files.Stat(path.Join(name, n)); err == nil && !st.IsDir() {
				names = append(names, n)
			}
		}
	}
	sort.Strings(names)
	for _, n := range names {
		if err := r.file(path.Join(name, n), depth, true); err != nil {
			return err
		}
	}
	return nil
}
