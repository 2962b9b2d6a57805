package satellite

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/host"
	internaltext "fettle.dev/fettle/internal/text"
)

// file is a file's content, or the reason why it is unknown. If both are empty, the file does not
// exist.
type file struct {
	path    string
	text    string
	exists  bool
	unknown string
}

// maxFile is the maximum size of a configuration file in bytes.
const maxFile = 8 << 20

// read reads a file once.
func (s *satellite) read(p string) file {
	if f, ok := s.files[p]; ok {
		return f
	}
	f := file{path: p}
	text, err := s.host.Files.ReadFile(p)
	switch {
	case err == nil && len(text) > maxFile:
		f.unknown = internaltext.Sprintf("%s is larger than %d MiB", p, maxFile>>20)
	case err == nil:
		f.text, f.exists = string(text), true
	default:
		f.unknown = s.why(p, err)
	}
	s.files[p] = f
	return f
}

// wholly lists directories that a sosreport copies completely: a file missing in them does not
// exist.
var wholly = []string{"/etc/foreman", "/etc/foreman-installer", "/etc/foreman-proxy", "/etc/foreman-proxy/settings.d", "/etc/httpd/conf.d", "/etc/httpd/conf.modules.d"}

// why returns the reason why a file is unknown, or "" if it does not exist.
func (s *satellite) why(p string, err error) string {
	if host.Unknown(err) {
		if to, err := s.host.Files.Readlink(p); err == nil {
			return p + " leads to " + to + ", which is not in this copy"
		}
		if dir := path.Dir(p); slices.Contains(wholly, dir) {
			if list, err := s.host.Files.ReadDir(dir); err == nil && len(list) > 0 {
				return ""
			}
		}
	}
	return host.Why(p, err)
}

// answer returns the answer for a missing value: unknown if the file is, else absent.
func (f file) answer() fact.Answer {
	return fact.Answer{Unknown: f.unknown, At: f.path}
}

// at returns the position of a line of the file.
func (f file) at(n int) string { return f.path + ":" + strconv.Itoa(n) }

// yaml reads a YAML file.
func (s *satellite) yaml(p string) (map[string]entry, file) {
	f := s.read(p)
	if !f.exists {
		return nil, f
	}
	e, err := entries(f.text)
	if err != nil {
		f.unknown = fmt.Sprintf("%s: %v", p, err)
		return nil, f
	}
	return e, f
}

// value parses an entry as a type.
func value(e map[string]entry, f file, key string, as fact.Type) fact.Answer {
	v, ok := e[key]
	if !ok {
		return f.answer()
	}
	return platform.Typed(v.text, as, f.at(v.line))
}

// lines calls a function for each line that is neither empty nor a comment.
func (f file) lines(take func(n int, text string)) {
	n := 0
	for text := range strings.Lines(f.text) {
		n++
		if text = strings.TrimSpace(text); text != "" && text[0] != '#' {
			take(n, text)
		}
	}
}
