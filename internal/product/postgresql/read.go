package postgresql

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/conf"
)

// Limits: a copied file tree may contain anything. Includes may nest ten deep
// (CONF_FILE_MAX_DEPTH).
const (
	maxDepth = 11
	maxFiles = 1000
)

// autoConf is the file that ALTER SYSTEM writes; the server reads it last.
const autoConf = "postgresql.auto.conf"

// settings holds the parameters in the files of one cluster.
type settings struct {
	// all lists the assignments in reading order.
	all []conf.Place
	// dir is the data directory, which the files set or the main file's path implies.
	dir string
}

// Paths implements product.Files.
func (s settings) Paths() []string { return nil }

// Value implements product.Files.
func (s settings) Value(key string) (value, at string, ok bool, err error) {
	p, ok := conf.Last(s.all, key)
	return syntax{}.Unquote(p.Literal), p.String(), ok, nil
}

func (s settings) place(key string) (conf.Place, bool, error) {
	p, ok := conf.Last(s.all, key)
	return p, ok, nil
}

// readSettings reads a cluster's main file, its includes, and postgresql.auto.conf in the data
// directory.
func readSettings(h *host.Host, main string) (settings, error) {
	r := reader{host: h, includes: conf.Includes{From: h.Files, Depth: maxDepth, Most: maxFiles}}
	if err := r.file(main, true); err != nil {
		return settings{}, err
	}
	s := settings{all: r.all, dir: path.Dir(main)}
	if p, ok := conf.Last(s.all, "data_directory"); ok {
		if dir := (syntax{}).Unquote(p.Literal); strings.HasPrefix(dir, "/") {
			s.dir = path.Clean(dir)
		}
	}
	err := r.file(path.Join(s.dir, autoConf), false)
	s.all = r.all
	return s, err
}

type reader struct {
	host     *host.Host
	includes conf.Includes
	all      []conf.Place
}

// file reads one file; must means that a missing file is an error.
func (r *reader) file(name string, must bool) error {
	there := false
	err := r.includes.File(name, func(text string) error {
		there = true
		return r.text(name, text)
	})
	if !there && !must && errors.Is(err, fs.ErrNotExist) {
		return nil // an unrecorded file may have the line that applies
	}
	return err
}

func (r *reader) text(name, text string) error {
	all, err := conf.Places(syntax{}, name, text)
	if err != nil {
		return err
	}
	for _, at := range all {
		value := syntax{}.Unquote(at.Literal)
		switch at.Key {
		case "include", "include_if_exists":
			err = r.file(beside(name, value), at.Key == "include")
		case "include_dir":
			err = r.dir(beside(name, value))
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

// dir reads a directory's *.conf files in byte order, without hidden ones (GetConfFilesInDir).
func (r *reader) dir(name string) error {
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
		if err := r.file(path.Join(name, n), true); err != nil {
			return err
		}
	}
	return nil
}
