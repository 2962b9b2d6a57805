package satellite

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/platform"
	"fettle.dev/fettle/internal/rule"
)

// file is the content of a file, or why there is none: unknown says why nobody
// knows; neither means that the machine has no such file.
type file struct {
	path    string
	text    string
	exists  bool
	unknown string
}

// maxFile is the largest configuration file that is read, in bytes.
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
		f.unknown = fmt.Sprintf("%s is larger than %d MiB", p, maxFile>>20)
	case err == nil:
		f.text, f.exists = string(text), true
	default:
		f.unknown = s.why(p, err)
	}
	s.files[p] = f
	return f
}

// wholly are the directories that a sosreport copies whole: what one that is
// there does not have, the machine does not have.
var wholly = []string{"/etc/foreman", "/etc/foreman-installer", "/etc/foreman-proxy", "/etc/foreman-proxy/settings.d", "/etc/httpd/conf.d", "/etc/httpd/conf.modules.d"}

// why is the reason why nobody knows, "" where the machine has no such thing.
func (s *satellite) why(p string, err error) string {
	var pe *fs.PathError
	switch {
	case errors.Is(err, host.ErrNotRecorded):
		if dir := path.Dir(p); slices.Contains(wholly, dir) {
			if list, err := s.host.Files.ReadDir(dir); err == nil && len(list) > 0 {
				return ""
			}
		}
		return p + " is not in this copy"
	case errors.Is(err, fs.ErrNotExist):
		return ""
	case errors.Is(err, fs.ErrPermission):
		return "only root may read " + p
	case errors.As(err, &pe):
		err = pe.Err
	}
	return fmt.Sprintf("%s cannot be read: %v", p, err)
}

// answer is that of a file without a value in it: unknown, or absent.
func (f file) answer() rule.Answer {
	return rule.Answer{Unknown: f.unknown, At: f.path}
}

// lineOf is where a line of the file is.
func (f file) at(n int) string { return f.path + ":" + strconv.Itoa(n) }

// entry is one value of a YAML file: a scalar, and the line of its key.
type entry struct {
	text string
	line int
}

// entries flattens a YAML file: the keys of maps one below the other, joined by
// slashes; a list is its items' text with blanks between. Of a key that is there
// twice the last one counts, as in Ruby.
func entries(text string) (map[string]entry, error) {
	out := map[string]entry{}
	dec := yaml.NewDecoder(bytes.NewReader([]byte(text)))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if text = strings.TrimSpace(text); text == "" || err.Error() == "EOF" {
			return out, nil // nothing but comments
		}
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	const most = 20000
	steps := 0 // aliases of aliases make much of little
	var walk func(prefix string, n *yaml.Node, line, depth int) error
	walk = func(prefix string, n *yaml.Node, line, depth int) error {
		if steps++; depth > 20 || steps > most {
			return errors.New("too much is in it")
		}
		switch n.Kind {
		case yaml.DocumentNode:
			for _, c := range n.Content {
				if err := walk(prefix, c, line, depth+1); err != nil {
					return err
				}
			}
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				key := n.Content[i].Value
				if prefix != "" {
					key = prefix + "/" + key
				}
				if err := walk(key, n.Content[i+1], n.Content[i].Line, depth+1); err != nil {
					return err
				}
			}
		case yaml.SequenceNode:
			var words []string
			for _, c := range n.Content {
				words = append(words, c.Value)
			}
			out[prefix] = entry{strings.Join(words, " "), line}
		case yaml.ScalarNode:
			if prefix != "" && n.Tag != "!!null" {
				out[prefix] = entry{n.Value, line}
			}
		case yaml.AliasNode:
			return walk(prefix, n.Alias, line, depth+1)
		}
		return nil
	}
	return out, walk("", &doc, 0, 0)
}

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

// value is an entry as a type.
func value(e map[string]entry, f file, key string, as rule.Type) rule.Answer {
	v, ok := e[key]
	if !ok {
		return f.answer()
	}
	return platform.Typed(v.text, as, f.at(v.line))
}

// lines calls a function for each line that is more than a comment.
func (f file) lines(take func(n int, text string)) {
	n := 0
	for text := range strings.Lines(f.text) {
		n++
		if text = strings.TrimSpace(text); text != "" && text[0] != '#' {
			take(n, text)
		}
	}
}
