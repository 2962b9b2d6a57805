package redis

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/conf"
)

// patterns match the paths of main files.
var patterns = []string{"/etc/redis.conf", "/etc/redis/*.conf", "/etc/opt/rh/*/redis.conf", "/etc/opt/rh/*/redis/redis.conf"}

// rootsOf returns the directories in which fettle reads and writes.
func rootsOf(*host.Host) []string { return []string{"/etc"} }

// instances returns the main files: those that no other file includes, without sentinels' files.
func instances(h *host.Host) ([]conf.Instance, error) {
	var mains []string
	included := map[string]bool{}
	for _, p := range patterns {
		found, err := host.Glob(h.Files, p)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			real, err := h.Files.Resolve(f)
			if err != nil || slices.Contains(mains, real) || strings.HasPrefix(path.Base(f), "sentinel") {
				continue
			}
			s, err := readSettings(h, real)
			if err == nil && slices.ContainsFunc(s.all, func(p conf.Place) bool { return p.Key == "sentinel" }) {
				continue
			}
			for _, name := range s.files[min(1, len(s.files)):] {
				included[name] = true
			}
			mains = append(mains, real)
		}
	}
	var out []conf.Instance
	for _, m := range mains {
		if !included[m] {
			out = append(out, conf.Instance{Name: strings.TrimSuffix(path.Base(m), ".conf"), Main: m})
		}
	}
	return out, nil
}

// settings holds the options in the files of one instance.
type settings struct {
	all   []conf.Place // in reading order
	files []string     // all files, the main one first
}

// value returns an option's value; several lines of save are joined.
func (s settings) value(key string) (value string, at conf.Place, ok bool) {
	at, ok = conf.Last(s.all, key)
	if !ok || key != "save" {
		return syntax{}.Unquote(at.Literal), at, ok
	}
	var points []string
	for _, p := range s.all {
		if p.Key != key {
			continue
		}
		if v := (syntax{}).Unquote(p.Literal); v == "" {
			points = nil
		} else {
			points = append(points, v)
		}
	}
	return strings.Join(points, " "), at, true
}

// Paths implements product.Files.
func (s settings) Paths() []string { return s.files }

// Value implements product.Files. It returns no secrets.
func (s settings) Value(key string) (value, at string, ok bool, err error) {
	if slices.Contains(secrets, key) {
		return "", "", false, nil
	}
	v, p, ok := s.value(key)
	return v, p.String(), ok, nil
}

func (s settings) text(key, def string) string {
	if v, _, ok := s.value(key); ok {
		return v
	}
	return def
}

// Limits: a copied file tree may contain anything.
const (
	maxDepth = 16
	maxFiles = 1000
)

// readSettings reads a main file and its includes, in order, like Redis.
func readSettings(h *host.Host, main string) (settings, error) {
	r := reader{host: h, includes: conf.Includes{From: h.Files, Depth: maxDepth, Most: maxFiles}}
	err := r.file(main)
	return settings{r.all, r.includes.Read}, err
}

type reader struct {
	host     *host.Host
	includes conf.Includes
	all      []conf.Place
}

func (r *reader) file(name string) error {
	return r.includes.File(name, func(text string) error { return r.text(name, text) })
}

func (r *reader) text(name, text string) error {
	all, err := conf.Places(syntax{}, name, text)
	if err != nil {
		return err
	}
	for _, at := range all {
		if at.Key != "include" {
			r.all = append(r.all, at)
			continue
		}
		pattern := syntax{}.Unquote(at.Literal)
		if !strings.HasPrefix(pattern, "/") {
			return fmt.Errorf("%s: include %s is relative to Redis's unknown working directory; use an absolute path", at, pattern)
		}
		found := []string{path.Clean(pattern)}
		if strings.ContainsAny(pattern, "*?[") {
			if found, err = host.Glob(r.host.Files, pattern); err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
		}
		for _, f := range found {
			if err := r.file(f); err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
		}
	}
	return nil
}

func winner(h *host.Host, main, key string) (conf.Place, bool, error) {
	s, err := readSettings(h, main)
	if err != nil {
		return conf.Place{}, false, err
	}
	p, ok := conf.Last(s.all, key)
	if n := 0; key == "save" {
		for _, q := range s.all {
			if q.Key == key {
				n++
			}
		}
		if n > 1 {
			return p, ok, fmt.Errorf("%s: %d save lines add up; write one line, such as save \"900 1 300 10\"", p, n)
		}
	}
	return p, ok, nil
}
